"""The fields a metric gets of a response, the score it returns, and messages about what went wrong."""

from __future__ import annotations

import math
import numbers
import traceback
from collections.abc import Sequence
from reprlib import Repr
from typing import Any

from goldless.errors import MetricError
from goldless.records import ItemScore, TextItem

FIELDS = ("response", "prompt", "task", "agent", "references", "reference", "synopses")
"""Fields that a metric may take by name, besides the ``id`` of a row."""
SHOWN = 5
"""Problems spelled out in a message; the rest are counted."""
LAST_LINES = 12
"""Lines of a traceback or of a command's output at the end of a message."""

_short = Repr()
_short.maxstring = _short.maxother = 60
shown = _short.repr
"""Any value for a message: short, on one line."""


def fields(item: TextItem) -> dict[str, Any]:
    """All fields of a response, by name."""
    return {
        "response": item.text,
        "prompt": item.task.prompt,
        "task": item.task.task,
        "agent": item.agent,
        "references": list(item.peers.values()),
        "reference": item.task.reference,
        "synopses": dict(item.task.synopses),
    }


def number_score(value: Any, *, verb: str = "returned", absent: str = "None") -> ItemScore:
    """A finite number is the score and None is missing; anything else is a problem, never a score."""
    if value is None:
        return ItemScore(None)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return ItemScore(None, f"{verb} {shown(value)} ({type(value).__name__}), which is not a number")
    try:
        score = float(value)
    except OverflowError:
        return ItemScore(None, f"{verb} a number too large to compute with")
    if not math.isfinite(score):
        return ItemScore(None, f"{verb} {score}; a score must be a finite number, or {absent} if there is none")
    return ItemScore(score)


def parsed_number(text: str) -> float | None:
    """The number that the whole text is, or None; NaN is one."""
    try:
        return float(text)
    except ValueError:
        return None


def last_lines(text: str) -> str:
    """The last non-blank lines, indented."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:500]}" for line in lines[-LAST_LINES:])


def traceback_lines(error: BaseException) -> str:
    """The last lines of the error's traceback."""
    return last_lines("".join(traceback.format_exception(error)))


def named(item: TextItem) -> str:
    """A response in a message."""
    return f"task {item.task.task!r}, agent {item.agent!r}"


def refuse_if_all_failed(
    name: str, items: Sequence[TextItem], scores: Sequence[ItemScore], error: BaseException | None = None
) -> None:
    """Raise if no response could be scored: the metric is broken, and its table would be empty."""
    if not scores or any(score.problem is None for score in scores):
        return
    message = [f"{name}: none of the {len(scores)} responses could be scored"]
    message += [f"  {named(items[i])}: {score.problem}" for i, score in enumerate(scores[:SHOWN])]
    if len(scores) > SHOWN:
        message.append(f"  … and {len(scores) - SHOWN} more")
    if error is not None:
        message += ["  the first error ends with:", traceback_lines(error)]
    raise MetricError("\n".join(message))
