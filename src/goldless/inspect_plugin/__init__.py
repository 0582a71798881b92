"""A scorer and a metric for Inspect: how much a response says about the answers of other models.

Inspect finds them by the entry point ``inspect_ai``, as ``goldless/gem`` and ``goldless/mean_interval``. It imports
this whenever it looks for a scorer, so everything else is imported when one is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai.scorer import metric, scorer


@metric
def mean_interval(level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Any:
    """The mean over samples and the ends of its interval; samples without a score are left out."""

    def compute(scores: Sequence[Any]) -> Mapping[str, float]:
        import numpy as np  # noqa: PLC0415 - see above

        from goldless.statistics.bootstrap import ABSENT, task_intervals  # noqa: PLC0415 - see above

        values = np.array([one.score.as_float() for one in scores], dtype=float)
        used = values[np.isfinite(values)]
        found = ABSENT
        if len(used):
            (found,) = task_intervals(used[:, None], tails=True, seed=seed, resamples=resamples, level=level)
        numbers = (float("nan") if x is None else x for x in found.numbers)
        return dict(zip(("mean", "low", "high"), numbers, strict=True))

    return compute


@scorer(metrics=[mean_interval()])
def gem(
    peers: str | list[str] = "",
    *,
    method: str = "gem-raw+control",
    model: str = "embedded",
    journal: str | None = None,
    control_tasks: int = 2,
    seed: int = 0,
) -> Any:
    """GEM of each response, compared with the answers of other models to the same sample.

    ``peers``: logs of the other models, comma-separated. ``method``: gem-raw+control, gem-raw, gem-s[prompt]+control or
    gem-s[prompt]. ``model``: the model that gives log-probabilities, as in ``goldless score --scorer``.
    """
    from goldless.errors import GoldlessError  # noqa: PLC0415 - see above
    from goldless.inspect_plugin.panel import Panel  # noqa: PLC0415 - see above
    from goldless.runs.options import Options  # noqa: PLC0415 - see above

    words = peers.split(",") if isinstance(peers, str) else peers
    files = [Path(word.strip()) for word in words if word.strip()]
    kept = None if journal is None else Path(journal)
    try:
        panel = Panel(files, model, Options.of(metrics=(method,), control_tasks=control_tasks, seed=seed, journal=kept))
    except GoldlessError as error:
        raise _refusal(error) from error

    async def score(state: Any, target: Any) -> Any:  # noqa: ARG001 - what Inspect calls
        return await panel.score(state)

    return score


def _refusal(error: Exception) -> Exception:
    """The error that Inspect shows as a message, without a traceback."""
    try:
        from inspect_ai._util.error import PrerequisiteError  # noqa: PLC0415 - not public: it may go
    except ImportError:
        return error
    refusal: Exception = PrerequisiteError(f"goldless: {error}")
    return refusal
