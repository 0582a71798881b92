"""What went wrong inside somebody's metric, in words."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from goldless.errors import MetricError
from goldless.text_items import ItemScore, TextItem

SHOWN = 5
"""Problems that a message spells out; the rest is counted."""
LAST_LINES = 12
"""Lines of a traceback or of a command's output that a message ends with."""


def described(error: BaseException) -> str:
    """The error on one line."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - somebody's __str__ may fail too
        said = ""
    kind = type(error).__name__
    return f"{kind}: {said[:300]}" if said else kind


def last_lines(text: str, count: int = LAST_LINES) -> str:
    """The last lines that hold anything, indented."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:500]}" for line in lines[-count:])


def traceback_lines(error: BaseException) -> str:
    """The last lines of the error's traceback."""
    return last_lines("".join(traceback.format_exception(error)))


def problem_lines(items: Sequence[TextItem], scores: Sequence[ItemScore]) -> list[str]:
    """The first few problems, each with its task and agent, and how many more there are; empty where there is none."""
    found = [
        f"task {item.task.task!r}, agent {item.agent!r}: {score.problem}"
        for item, score in zip(items, scores, strict=True)
        if score.problem is not None
    ]
    more = len(found) - SHOWN
    return found[:SHOWN] + [f"… and {more} more"] * (more > 0)


def refuse_if_all_failed(
    name: str, items: Sequence[TextItem], scores: Sequence[ItemScore], error: BaseException | None
) -> None:
    """Stop where no response could be scored: such a metric is broken, and its table would be empty."""
    if not scores or any(score.problem is None for score in scores):
        return
    message = [f"{name}: none of {len(scores)} responses could be scored"]
    message += [f"  {line}" for line in problem_lines(items, scores)]
    if error is not None:
        message += ["  the first error ends with:", traceback_lines(error)]
    raise MetricError("\n".join(message))
