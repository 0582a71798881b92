"""Which pair of responses a rater is shown next, and on which side each is.

``decisive``: the pair of agents about which the labels so far say least, those with the leader first. For two agents
with w and l labels in favour of each, that is the probability that the one behind is in truth the better one, with a
uniform prior: P(p < 1/2) for p ~ Beta(w + 1, l + 1), where w >= l. Pairs without the leader count half.
``random``: every pair that the rater has not labelled is as likely as any other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from scipy.special import betainc

from goldless.records import Preference

Answers = Mapping[str, Sequence[str]]
"""The agents that responded, by task."""
Order = Literal["decisive", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)
WITHOUT_LEADER = 0.5
Done = Collection[tuple[str, frozenset[str]]]
"""Tasks and pairs of agents that the rater has labelled."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two responses to one task, by their agents, on the sides where they are shown."""

    task: str
    left: str
    right: str

    @property
    def agents(self) -> frozenset[str]:
        """Both agents."""
        return frozenset((self.left, self.right))


@dataclass(frozen=True, slots=True)
class Seat:
    """Who labels by which criterion: seeds the order and the sides, which differ between raters."""

    rater: str
    criterion: str | None
    seed: int

    def key(self, *parts: str) -> bytes:
        """A number that looks random, the same for the same parts."""
        named = "\0".join((str(self.seed), self.rater, self.criterion or "", *parts))
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).digest()

    def sided(self, task: str, one: str, other: str) -> Pair:
        """The pair with its sides."""
        one, other = sorted((one, other))
        return Pair(task, one, other) if self.key(task, one, other)[0] & 1 else Pair(task, other, one)

    def name(self, pair: Pair) -> str:
        """An opaque name of a pair, from which its agents cannot be read."""
        return self.key(pair.task, pair.left, pair.right).hex()[:24]


def named_pair(answers: Answers, seat: Seat, task: str, name: str) -> Pair | None:
    """The pair of that name among those of the task."""
    for one, other in combinations(answers.get(task, ()), 2):
        pair = seat.sided(task, one, other)
        if seat.name(pair) == name:
            return pair
    return None


def pairs_in_all(answers: Answers) -> int:
    """The number of pairs of responses to the same task."""
    return sum(len(agents) * (len(agents) - 1) // 2 for agents in answers.values())


def next_pair(answers: Answers, seat: Seat, labels: Sequence[Preference], order: Order) -> Pair | None:
    """The next pair for a rater; None: all are labelled. ``labels``: those on the criterion, by all raters."""
    done = {(label.task, frozenset((label.first, label.second))) for label in labels if label.rater == seat.rater}
    chance = np.random.default_rng(int.from_bytes(seat.key("order")[:8], "big"))
    names = list(answers)
    tasks = [names[place] for place in chance.permutation(len(names))]
    if order == "random":
        return _random(answers, seat, tasks, done)
    agents = sorted({agent for some in answers.values() for agent in some})
    for one, other in _by_worth(agents, labels, seat):
        for task in tasks:
            if one in answers[task] and other in answers[task] and (task, frozenset((one, other))) not in done:
                return seat.sided(task, one, other)
    return None


def _random(answers: Answers, seat: Seat, tasks: Iterable[str], done: Done) -> Pair | None:
    """The open pair whose key is lowest, on the task with the fewest labels of this rater."""
    labelled = Counter(task for task, _ in done)
    for task in sorted(tasks, key=lambda task: labelled[task]):
        left = [pair for pair in combinations(answers[task], 2) if (task, frozenset(pair)) not in done]
        if left:
            return seat.sided(task, *min(left, key=lambda pair: seat.key(task, *sorted(pair), "order")))
    return None


def _by_worth(agents: Sequence[str], labels: Sequence[Preference], seat: Seat) -> list[tuple[str, str]]:
    """All pairs of agents, that with the most to learn first; equal ones in random order."""
    wins: Counter[tuple[str, str]] = Counter()
    for label in labels:
        if label.preference:
            better, worse = (label.first, label.second)[:: 1 if label.preference > 0 else -1]
            wins[better, worse] += 1
    won, lost = (Counter[str](), Counter[str]())
    for (better, worse), count in wins.items():
        won[better] += count
        lost[worse] += count
    leader = max(agents, key=lambda agent: (won[agent] + 1) / (won[agent] + lost[agent] + 2)) if wins else None

    def worth(pair: tuple[str, str]) -> tuple[float, bytes]:
        more, less = sorted((wins[pair], wins[pair[::-1]]), reverse=True)
        doubt = float(betainc(more + 1, less + 1, 0.5))
        weight = 1.0 if leader is None or leader in pair else WITHOUT_LEADER
        return -weight * doubt, seat.key(*sorted(pair), str(more + less))

    return sorted(combinations(agents, 2), key=worth)
