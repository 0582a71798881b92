"""Which pair of responses a rater is shown next, and on which side each is.

``decisive``: a pair of agents on which a question such as ``best`` still depends, by the confidence sequence of
``goldless score --until``: that which the fewest more tasks would decide, each on a random task. Once the question is
decided there is none.
``random``: every pair that the rater has not labelled is as likely as any other.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from goldless.records import Preference
from goldless.statistics.answering import Until, parse_question
from goldless.statistics.comparisons import Comparison, Pairs

Answers = Mapping[str, Sequence[str]]
"""The agents that responded, by task."""
Order = Literal["decisive", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)
QUESTION = "best"
FIRST_LOOKS = 2
"""Labels of each pair of agents before it is guessed how many more would decide."""
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


@dataclass(frozen=True, slots=True)
class Decision:
    """What the labels say about a question."""

    until: Until
    agents: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def made(self) -> bool:
        """Whether the question is decided."""
        return not self.until.open(self.agents, self.comparisons)

    @property
    def answer(self) -> str:
        """What is known, in words."""
        return self.until.answer(self.agents, self.comparisons)

    def undecided(self, seat: Seat) -> list[tuple[str, str]]:
        """The pairs of agents on which it still depends, that which is decided soonest first, equal ones at random."""
        open_ = set(self.until.open(self.agents, self.comparisons))
        left = [
            one
            for one in self.until.matter(self.agents, self.comparisons)
            if not one.decided and {one.first, one.second} <= open_
        ]

        def soonest(one: Comparison) -> tuple[bool, float, int, bytes]:
            more = math.inf if one.more_tasks is None else one.more_tasks
            return one.n >= FIRST_LOOKS, more, one.n, seat.key(*sorted((one.first, one.second)), str(one.n))

        return [(one.first, one.second) for one in sorted(left, key=soonest)]


def decide(answers: Answers, labels: Sequence[Preference], question: str = QUESTION) -> Decision:
    """What all raters' labels on one criterion say about a question; several labels of a pair and task are averaged."""
    agents = sorted({agent for some in answers.values() for agent in some})
    until = Until(parse_question(question, agents, option="the question"))
    number = {agent: place for place, agent in enumerate(agents)}
    first, second = np.triu_indices(len(agents), 1)
    column = {pair: place for place, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True))}
    known = [label for label in labels if label.first in number and label.second in number]
    row = {task: place for place, task in enumerate(dict.fromkeys(label.task for label in known))}
    total, count = np.zeros((len(row), len(column))), np.zeros((len(row), len(column)))
    for label in known:
        one, other = number[label.first], number[label.second]
        at = row[label.task], column[min(one, other), max(one, other)]
        total[at] += np.sign(label.preference) * (1 if one < other else -1)
        count[at] += 1
    means = np.full(total.shape, np.nan)
    np.divide(total, count, out=means, where=count > 0)
    pairs = Pairs(first, second, means)
    return Decision(until, tuple(agents), tuple(until.compare(agents, pairs)))


def next_pair(
    answers: Answers, seat: Seat, labels: Sequence[Preference], order: Order, question: str = QUESTION
) -> Pair | None:
    """The next pair for a rater; None: none is left that matters. ``labels``: those on the criterion, by all raters."""
    done = {(label.task, frozenset((label.first, label.second))) for label in labels if label.rater == seat.rater}
    chance = np.random.default_rng(int.from_bytes(seat.key("order")[:8], "big"))
    names = list(answers)
    tasks = [names[place] for place in chance.permutation(len(names))]
    if order == "random":
        return _random(answers, seat, tasks, done)
    for one, other in decide(answers, labels, question).undecided(seat):
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
