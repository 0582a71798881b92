"""What scores say, in sentences: for the terminal and the report alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard
    from goldless.statistics.standings import LeaderboardRow

MOST_NAMED = 3
MOST_METRICS = 6
MOST_TIED = 6
REVIEW = "review: "
"""How the name of a review's ranking begins."""
RATES = frozenset({"win rate", "score", "rating"})
"""Units that are said before the number."""


@dataclass(frozen=True, slots=True)
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
    """What a response with a higher score is called."""
    base = re.split(r"[\[+]", metric, maxsplit=1)[0]
    if base == "length":
        return "longer"
    return "higher" if base.startswith(BASELINES) else "better"


def direction(metric: str) -> str:
    """What a higher score means, for the heading of a table or axis."""
    return DIRECTIONS[comparative(metric)]


def heading(metric: str, unit: str) -> str:
    """A metric with what it measures in one line."""
    shared = " shared on the task alone" * metric.startswith("shared-info")
    return f"{metric} ({unit}{shared}, {direction(metric)})"


# --- leaderboards ----------------------------------------------------------------------------------------------------


def over_all(boards: Mapping[str, Leaderboard]) -> list[Said]:
    """What is decided, by which metrics; and whether the leader writes most."""
    scored = {name: rows for name, board in boards.items() if (rows := _scored(board))}
    measures = {name: rows for name, rows in scored.items() if comparative(name) == "better"} or scored
    by_answer: dict[Said, list[str]] = {}
    for name, rows in measures.items():
        by_answer.setdefault(_answer(rows, comparative(name)), []).append(name)
    found = [
        answer if len(measures) == 1 else (*named(names, MOST_METRICS), ": ", *answer)
        for answer, names in by_answer.items()
    ]
    leaders = {rows[0].agent for rows in measures.values()}
    for name, (longest, *_) in scored.items():
        if comparative(name) == "longer" and name not in measures and leaders == {longest.agent}:
            value = f"{_numeral(longest.score, boards[name])} {boards[name].unit}"
            found.append((Name(longest.agent), f" also writes the longest responses ({value})."))
    return found


def of_one(metric: str, board: Leaderboard) -> Said:
    """Who leads under one metric, with its interval, and whether that is decided."""
    scored = _scored(board)
    if not scored:
        return Name(metric), ": no agent could be scored."
    lead = scored[0]
    where: Said = (" is highest in the review",) if metric.startswith(REVIEW) else (" is highest under ", Name(metric))
    ends = "no interval"
    if lead.low is not None and lead.high is not None:
        level = f"{board.level * 100:g}\u202f%"
        ends = f"{level} interval {_numeral(lead.low, board)} to {_numeral(lead.high, board)}"
    tasks = f", {lead.n:,} task{'s' * (lead.n != 1)}" if lead.n else ""
    score = _numeral(lead.score, board)
    score = f"a {board.unit} of {score}" if board.unit in RATES else f"{score} {board.unit}"
    return Name(lead.agent), *where, f" with {score} ({ends}{tasks}). ", *_answer(scored, comparative(metric))


def _answer(scored: Sequence[LeaderboardRow], word: str) -> Said:
    """Who is first, as far as the comparisons decide it."""
    lead = scored[0]
    level = [row for row in scored if row is lead or row.agent not in (lead.better_than or ())]
    below = [row.agent for row in scored if row not in level]
    tied = named([row.agent for row in level], MOST_TIED)
    if len(scored) == 1:
        return Name(lead.agent), " is the only agent that was scored."
    if lead.better_than is None:
        return Name(lead.agent), " is highest; whether that is more than chance was not tested."
    if not below:
        decided = any(row.better_than for row in scored)
        none = "none is shown to be " if not decided else "the highest is not shown to be "
        return *tied, " are tied: ", none, word, " than another."
    if len(level) == 1:
        whom = named(below) if len(below) <= MOST_NAMED else (f"all {len(below)} others",)
        return Name(lead.agent), f" is {word} than ", *whom, "."
    each = all({*below} <= {*(row.better_than or ())} for row in level)
    who: Said = ("each",) if each else (Name(lead.agent),)
    return *tied, " are tied; ", *who, f" is {word} than ", *named(below), "."


def _scored(board: Leaderboard) -> list[LeaderboardRow]:
    return [row for row in board.rows if row.score is not None]


def _numeral(value: float | None, board: Leaderboard) -> str:
    """With two decimals, or three if all scores are small."""
    decimals = 3 if max((abs(row.score or 0.0) for row in board.rows), default=0.0) < 2 else 2
    return f"{value or 0.0:z,.{decimals}f}".replace("-", "\u2212")
