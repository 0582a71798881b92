"""What scores say over all metrics, in sentences: for the terminal and the report alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goldless.reports.controls import comparative

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard, LeaderboardRow

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


def over_all(boards: Mapping[str, Leaderboard]) -> list[Said]:
    """What is decided, by which metrics; and whether the leader writes most."""
    scored = {name: board for name, board in boards.items() if any(row.score is not None for row in board.rows)}
    measures = {name: board for name, board in scored.items() if comparative(name) == "better"} or scored
    by_answer: dict[Said, list[str]] = {}
    for name, board in measures.items():
        by_answer.setdefault(_answer(_ranked(board), comparative(name)), []).append(name)
    found = [
        answer if len(measures) == 1 else (*named(names, MOST_METRICS), ": ", *answer)
        for answer, names in by_answer.items()
    ]
    leaders = {_ranked(board)[0].agent for board in measures.values()}
    for name, board in scored.items():
        longest = _ranked(board)[0]
        if comparative(name) == "longer" and name not in measures and leaders == {longest.agent}:
            value = f"{_number(longest.score or 0.0, _decimals(board))} {board.unit}"
            found.append((Name(longest.agent), f" also writes the longest responses ({value})."))
    return found


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
        return Name(lead.agent), f" is {word} than ", *_many(below), "."
    each = all({*below} <= {*(row.better_than or ())} for row in level)
    who: Said = ("each",) if each else (Name(lead.agent),)
    return *tied, " are tied; ", *who, f" is {word} than ", *named(below), "."


def _many(names: Sequence[str]) -> Said:
    return named(names) if len(names) <= MOST_NAMED else (f"all {len(names)} others",)


def of_one(metric: str, board: Leaderboard) -> Said:
    """Who leads under one metric, and whether that is decided."""
    scored = [row for row in board.rows if row.score is not None]
    if not scored:
        return Name(metric), ": no agent could be scored."
    lead = scored[0]
    word = comparative(metric)
    leads: Said = (" leads under " if word == "better" else " is highest under ", Name(metric))
    if metric.startswith(REVIEW):
        leads = (" leads in the review",)
    return Name(lead.agent), *leads, f" with {_value(lead, board)}. ", *_decided(lead, scored, word)


def _value(row: LeaderboardRow, board: Leaderboard) -> str:
    decimals = _decimals(board)
    ends = "no interval"
    if row.low is not None and row.high is not None:
        ends = f"{board.level * 100:g}\u202f% interval {_number(row.low, decimals)} to {_number(row.high, decimals)}"
    tasks = f", {row.n:,} task{'s' * (row.n != 1)}" if row.n else ""
    score = _number(row.score or 0.0, decimals)
    score = f"a {board.unit} of {score}" if board.unit in RATES else f"{score} {board.unit}"
    return f"{score} ({ends}{tasks})"


def _decimals(board: Leaderboard) -> int:
    """Two, or three if all scores are small."""
    largest = max((abs(row.score) for row in board.rows if row.score is not None), default=0.0)
    return 3 if largest < 2 else 2


def _number(value: float, decimals: int) -> str:
    return f"{value:z,.{decimals}f}".replace("-", "\u2212")


def _open(lead: LeaderboardRow, scored: Sequence[LeaderboardRow]) -> list[str]:
    """The agents below the leader that it is not shown to beat."""
    return [row.agent for row in scored if row is not lead and row.agent not in (lead.better_than or ())]


def _decided(lead: LeaderboardRow, scored: Sequence[LeaderboardRow], word: str) -> Said:
    others = len(scored) - 1
    undecided = _open(lead, scored)
    if not others:
        return ("There is no other agent to compare it with.",)
    if lead.better_than is None:
        return ("Whether that is more than chance was not tested.",)
    many = {1: "the other", 2: "both others"}.get(others, f"all {others} others")
    if not undecided:
        return (f"This is decided: it is {word} than {many}.",)
    if len(undecided) == others:
        return (f"This is not decided: it is not shown to be {word} than any other agent.",)
    return (
        f"It is {word} than {others - len(undecided)} of {others} others, but not shown to be {word} than ",
        *named(undecided),
        ".",
    )


def _ranked(board: Leaderboard) -> list[LeaderboardRow]:
    return [row for row in board.rows if row.score is not None]
