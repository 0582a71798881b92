"""Whether two scores are comparable, by their signatures: the same metric, the same model, the same question."""

from __future__ import annotations

from goldless.errors import UserError
from goldless.signature import Signature

OF_THE_DATA = frozenset(
    {
        *("study", "seed", "resamples", "level", "interval", "test", "missing", "noise"),
        *("evidence", "control-evidence", "logprobs-evidence", "verdicts-evidence"),
    }
)
"""Settings that follow from the data or from how intervals are made: they may differ."""
SAID = frozenset(
    {
        *("peers", "weights", "limits", "exam", "pairs", "questioners", "shuffles", "calls", "combination"),
        *("goldless", "kernel", "sharing", "layout-kernel", "prompts", "over"),
    }
)
"""Settings that may differ, but change what a score means somewhat: a warning names both values. All others, such as
the scorer, the critic's prompt or the reviewers, make another quantity."""


def differing_settings(first: str, second: str, names: tuple[str, str]) -> list[str]:
    """Warnings about two signatures of one metric; raises where the scores are not comparable.

    ``names``: of the two runs.
    """
    one, two = (_settings(line) for line in (first, second))
    warned: list[str] = []
    refused: list[str] = []
    # recorded evidence does not say everything that the run that made it said
    recorded = any(found.get("evidence", "").startswith("recorded") for found in (one, two))
    for key in (key for key in dict.fromkeys((*one, *two)) if not recorded or {key} <= one.keys() & two.keys()):
        values = [found.get(key, "none") for found in (one, two)]
        if key in OF_THE_DATA or values[0] == values[1]:
            continue
        said = " and ".join(f"{value} in {name}" for value, name in zip(values, names, strict=True))
        (warned if key in SAID else refused).append(f"{key} is {said}")
    if refused:
        raise UserError(
            f"the runs are not comparable: {'; '.join(refused)}. Compute both with the same metric, model and settings"
        )
    return [f"the runs differ: {line}" for line in warned]


def _settings(signature: str) -> dict[str, str]:
    found = Signature.parse(signature).parts
    if "verdicts" in found:  # how many were read in which way is no setting
        found["verdicts"] = "probabilities" if "probabilities" in found["verdicts"] else "labels"
    return found
