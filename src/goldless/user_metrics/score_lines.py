"""What a metric command wrote: one line a response, a number, ``null``, or an object with ``score`` and perhaps ``id``.

Everything that is wrong is said at once; a score is never guessed from a line that is not one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from goldless.text_items import ItemScore
from goldless.user_metrics.returned_values import parsed_number, shown

MORE_LINES = 20
"""Lines beyond one for each item that are looked at; a program may write millions."""
FORM = "a number, null, or an object with 'score' (and 'id')"


@dataclass(frozen=True, slots=True)
class ScoreLines:
    """The lines as scores."""

    scores: tuple[ItemScore | None, ...]
    """One for each item; None where no good line is for it."""
    problems: tuple[str, ...]
    """Everything wrong with the lines."""

    @property
    def n_good(self) -> int:
        """Items that a good line is for, a missing score among them."""
        return sum(score is not None for score in self.scores)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: its number from 1, the id it names, and what it says or what is wrong with it."""

    number: int
    identity: Any = None
    has_identity: bool = False
    score: ItemScore | None = None
    problem: str | None = None


def read_score_lines(output: bytes, count: int) -> ScoreLines:
    """The scores of ``count`` items. Lines without ids are in the order of the items, one for each."""
    written, pieces = _lines(output, count + MORE_LINES)
    lines = [_read_line(number, line) for number, line in enumerate(pieces, 1)]
    if any(line.has_identity for line in lines):
        return _by_identity(lines, count, unread=written - len(lines))
    problems = [f"line {line.number}: {line.problem}" for line in lines if line.problem is not None]
    if written != count:
        problems.insert(0, f"{written} line{'s' * (written != 1)} for {count} items; write one for each")
    scores = [line.score for line in lines[:count]]
    return ScoreLines((*scores, *[None] * (count - len(scores))), tuple(problems))


def _by_identity(lines: list[_Line], count: int, *, unread: int) -> ScoreLines:
    scores: list[ItemScore | None] = [None] * count
    seen: dict[int, int] = {}
    problems = []
    for line in lines:
        place = _place(line.identity, count)
        if line.problem is not None:
            problem: str | None = line.problem
        elif not line.has_identity:
            problem = "it has no id, though other lines have one"
        elif place is None:
            problem = f"id {shown(line.identity)} was not among the items, whose ids are 0 to {count - 1}"
        elif place in seen:
            problem = f"id {place} stands in line {seen[place]} already"
        else:
            problem, scores[place] = None, line.score
        if place is not None:
            seen.setdefault(place, line.number)
        if problem is not None:
            problems.append(f"line {line.number}: {problem}")
    if unread:
        problems.append(f"{len(lines) + unread} lines for {count} items; the last {unread} were not read")
    absent = [place for place in range(count) if place not in seen]
    if absent:
        listed = f"{', '.join(map(str, absent[:20]))}{' …' * (len(absent) > 20)}"
        problems.append(f"no line for {len(absent)} of {count} items: id {listed}")
    return ScoreLines(tuple(scores), tuple(problems))


def _lines(output: bytes, most: int) -> tuple[int, list[bytes]]:
    """How many lines there are, by newlines alone, and the first of them; empty ones at the end are none."""
    text = output.removeprefix(b"\xef\xbb\xbf").rstrip(b" \t\r\n")
    return (text.count(b"\n") + 1, text.split(b"\n", most)[:most]) if text else (0, [])


def _read_line(number: int, line: bytes) -> _Line:
    text = line.decode("utf-8", errors="replace").strip()
    value = parsed_number(text)
    if value is not None or text == "null":
        score, problem = _number(value)
        return _Line(number, score=score, problem=problem)
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return _Line(number, problem=f"{shown(text)} is not {FORM}" if text else "it is empty")
    identity = {"identity": row["id"], "has_identity": True} if "id" in row else {}
    if "score" not in row:
        return _Line(number, problem=f"{shown(text)} has no 'score'", **identity)
    score, problem = _number(row["score"])
    if score is not None and score.score is None and isinstance(row.get("problem"), str):
        score = ItemScore(None, row["problem"][:300])
    return _Line(number, score=score, problem=problem, **identity)


def _number(value: Any) -> tuple[ItemScore | None, str | None]:
    if value is None:
        return ItemScore(None), None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"score {shown(value)} is no number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return None, f"score {number} is not finite; write null where there is none"
    return ItemScore(number), None


def _place(identity: Any, count: int) -> int | None:
    """The item an id means: its number, or the number as text."""
    if isinstance(identity, str) and identity.isascii() and identity.isdigit() and len(identity) < 19:
        identity = int(identity)
    whole = isinstance(identity, int) and not isinstance(identity, bool)
    return identity if whole and 0 <= identity < count else None
