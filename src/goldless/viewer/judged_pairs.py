"""Comparisons of one response with the others: won, lost or tied, with both orders of a pair together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Outcome = Literal["won", "lost", "tied", "depends on the order", "no verdict"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One reviewer's comparisons of a response with another one."""

    reviewer: str
    format: str
    other: str
    """The agent of the other response."""
    rows: tuple[Mapping[str, Any], ...]
    """As stored, those with the response shown first before those with it shown second."""
    verdicts: tuple[tuple[bool, Outcome], ...]
    """For each row: whether the response was shown first, and how it did."""

    @property
    def outcome(self) -> Outcome:
        """How the response did in all of them."""
        found = {outcome for _, outcome in self.verdicts} - {"no verdict"}
        if len(found) == 1:
            return found.pop()
        return "depends on the order" if found else "no verdict"


def judged_pairs(rows: Iterable[Mapping[str, Any]], agent: str) -> list[JudgedPair]:
    """The comparisons of an agent's response, by reviewer and other agent."""
    found: dict[tuple[str, str, str], list[tuple[bool, Mapping[str, Any]]]] = {}
    for row in rows:
        first, second = row.get("first"), row.get("second")
        if second is None or agent not in (first, second):
            continue
        key = str(row["reviewer"]), str(row["format"]), str(second if first == agent else first)
        found.setdefault(key, []).append((first == agent, row))
    return [_pair(key, sorted(pairs, key=lambda pair: not pair[0])) for key, pairs in found.items()]


def _pair(key: tuple[str, str, str], pairs: list[tuple[bool, Mapping[str, Any]]]) -> JudgedPair:
    verdicts = tuple((first, verdict(row.get("value"), first=first)) for first, row in pairs)
    return JudgedPair(*key, rows=tuple(row for _, row in pairs), verdicts=verdicts)


def verdict(value: float | None, *, first: bool) -> Outcome:
    """How a response did, from the value of a comparison (1: the first is better) and its place in it."""
    if value is None:
        return "no verdict"
    worth = value if first else 1 - value
    return "tied" if worth == 0.5 else "won" if worth > 0.5 else "lost"
