"""Sentences that results say of themselves, for the terminal and the report alike, and the words of comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

MOST_NAMED = 3
REVIEW = "review: "
"""The beginning of the name of a review's ranking."""


@dataclass(frozen=True)
class Name:
    """A name from the data, set apart from our own text."""

    text: str


Said = tuple[str | Name, ...]
"""A sentence."""


def in_text(said: Said, shown: Callable[[str], str] = str) -> str:
    """A sentence as plain text; ``shown``: how names are written."""
    return "".join(shown(part.text) if isinstance(part, Name) else part for part in said)


def named(names: Sequence[str], most: int = MOST_NAMED) -> Said:
    """Names separated by commas; only the first of many."""
    parts: list[str | Name] = []
    for place, name in enumerate(names[:most]):
        if place:
            parts.append(" and " if place == len(names) - 1 else ", ")
        parts.append(Name(name))
    if len(names) > most:
        parts.append(f" and {len(names) - most} more")
    return tuple(parts)


# --- controls and baselines: for them a higher score is higher, or longer, and never called better --------------------

BASELINES = ("bertscore", "bleu", "rouge")
Comparative = Literal["better", "higher", "longer"]
DIRECTIONS: dict[Comparative, str] = {
    "better": "higher is better",
    "higher": "a baseline: higher is more overlap",
    "longer": "a control: longer is not better",
}


def comparative(metric: str) -> Comparative:
    """The word for a response with a higher score."""
    base = re.split(r"[\[+]", metric, maxsplit=1)[0]
    if base == "length":
        return "longer"
    return "higher" if base.startswith(BASELINES) else "better"


def direction(metric: str) -> str:
    """The meaning of a higher score, for the heading of a table or axis."""
    return DIRECTIONS[comparative(metric)]


def heading(metric: str, unit: str) -> str:
    """A metric with what it measures in one line."""
    return f"{metric} ({unit}, {direction(metric)})"
