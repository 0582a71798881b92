"""What scores say over all metrics, in sentences: for the terminal and the report alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from goldless.reports.controls import comparative

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard, LeaderboardRow

MOST_NAMED = 3
MOST_METRICS = 6
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
    """Who leads, whether the metrics agree, what is decided, and what the controls show: one or two sentences each."""
    scored = {name: board for name, board in boards.items() if any(row.score is not None for row in board.rows)}
    measures = {name: board for name, board in scored.items() if comparative(name) == "better"}
    others = {name: board for name, board in scored.items() if name not in measures}
    if not measures:
        return [of_one(name, board) for name, board in scored.items()]
    if len(measures) == 1:
        found = [of_one(*next(iter(measures.items())))]
    else:
        found = [(*_leaders(measures), *_agreement(measures))]
    return [*found, *_controls(others)]


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


# --- several metrics -------------------------------------------------------------------------------------------------


def _ranked(board: Leaderboard) -> list[LeaderboardRow]:
    return [row for row in board.rows if row.score is not None]


def _leaders(measures: Mapping[str, Leaderboard]) -> Iterator[str | Name]:
    by_leader: dict[str, list[str]] = {}
    for metric, board in measures.items():
        by_leader.setdefault(_ranked(board)[0].agent, []).append(metric)
    sure = {
        metric for metric, board in measures.items() if not _open(_ranked(board)[0], _ranked(board)) and board.rows[1:]
    }
    if len(by_leader) == 1:
        ((leader, metrics),) = by_leader.items()
        many = "both metrics" if len(metrics) == 2 else f"all {len(metrics)} metrics"
        yield from (Name(leader), f" leads under {many}")
        if len(sure) == len(metrics):
            yield ", and each decides it against every other agent. "
        elif sure:
            yield from ("; ", *named(sorted(sure, key=metrics.index)), f" decide{'s' * (len(sure) == 1)} it. ")
        else:
            yield "; none of them decides it against every other agent. "
        return
    yield "The metrics disagree on the best agent: "
    for place, (leader, metrics) in enumerate(sorted(by_leader.items(), key=lambda one: -len(one[1]))):
        yield "; " * (place > 0)
        yield from (Name(leader), " leads under ", *named(metrics, MOST_METRICS))
        yield " (decided)" * all(metric in sure for metric in metrics)
    yield ". "


def _agreement(measures: Mapping[str, Leaderboard]) -> Iterator[str]:
    """In how many pairs of agents all metrics have the same order."""
    ranked = [[row.agent for row in _ranked(board)] for board in measures.values()]
    common = [agent for agent in ranked[0] if all(agent in order for order in ranked[1:])]
    pairs = list(combinations(common, 2))
    if len(common) > 2:
        places = [{agent: place for place, agent in enumerate(order)} for order in ranked]
        alike = sum(len({place[a] < place[b] for place in places}) == 1 for a, b in pairs)
        yield f"They put {alike} of {len(pairs)} pairs of agents in the same order."


def _controls(others: Mapping[str, Leaderboard]) -> Iterator[Said]:
    """What the controls and baselines show, without calling it better."""
    for metric, board in others.items():
        lead = _ranked(board)[0]
        value = f"{_number(lead.score or 0.0, _decimals(board))} {board.unit}"
        if comparative(metric) == "longer":
            yield Name(lead.agent), f" writes the longest responses ({value}); ", Name(metric), " is only a control."
        else:
            yield Name(lead.agent), " is highest under the baseline ", Name(metric), f", with {value}."
