"""The Python entry point: ``goldless.evaluate``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio

from goldless.models.interface import ChatModel, Scorer
from goldless.models.usage import Price
from goldless.runs.evaluation import Evaluation
from goldless.runs.pipeline import Options, Progress, evaluate_study
from goldless.studies import as_study


def evaluate(
    study: Any,
    *,
    metrics: str | Sequence[str] = "gem-raw",
    scorer: str | Scorer = "embedded",
    rewriter: str | ChatModel | None = None,
    template: str = "general",
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    on_too_long: Literal["error", "skip"] = "error",
    budget_usd: float | None = None,
    price_usd_per_million: tuple[float, float] | None = None,
    journal: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Frozen results of the metrics on a study.

    ``study``: a path, a pandas, polars or pyarrow frame with columns task, agent, text, or a Study.
    ``metrics``: one name or several (gem-raw, gem). ``scorer``: a model specification such as ``embedded``,
    ``gguf:PATH``, ``hf:NAME_OR_PATH``, ``http://HOST:PORT/v1#MODEL``, or an object with the Scorer protocol.
    ``rewriter``: the chat model that preprocesses for gem. ``journal``: where replies are kept; yours by default, so
    that nothing is computed or paid twice.
    """
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    options = Options(
        metrics=names,
        scorer=scorer,
        rewriter=rewriter,
        template=template,
        seed=seed,
        resamples=resamples,
        level=level,
        on_too_long=on_too_long,
        budget_usd=budget_usd,
        price=None if price_usd_per_million is None else Price(*price_usd_per_million),
        journal=None if journal is None else Path(journal),
        progress=progress or (lambda _: None),
    )

    def work() -> Evaluation:
        return anyio.run(evaluate_study, as_study(study), options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    return _in_thread(work)


def _in_thread(work: Callable[[], Evaluation]) -> Evaluation:
    """The result of work done in a thread of its own: a notebook's event loop is running already."""
    outcome: list[Evaluation | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - handed on to the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=run, name="goldless")
    thread.start()
    thread.join()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result
