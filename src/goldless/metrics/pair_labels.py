"""Labels of which of two responses people found better: one per pair of agents on a task.

By default a pair's label is the sign of the difference of the medians of its ratings. Where the medians tie, people's
preferences are votes: those beyond ``LEAST_PREFERENCE`` count, and a net margin of ``least_margin`` votes decides.
Otherwise the pair is a tie (PRE and Auto-PRE label their data this way, with a margin of two). Where pairs have too few
votes for a margin of two, ``usual_margin`` is one. A rater who labelled the same response or pair several times counts
once, with the mean of these labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, TypeVar

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError, nearest
from goldless.metrics.judgement_table import Convention
from goldless.records import Preference, Rating

LEAST_PREFERENCE = 0.5
"""A preference beyond this is one vote."""
PAPERS_MARGIN = 2.0
"""The margin of votes by which preferences decide, in the papers."""
MANY_VOTES = 3
"""A majority of one decides where pairs have fewer votes than this, since a margin of two is hardly possible."""
ROUNDING = 1e-9
"""Differences up to this count as zero: means of the same numbers in another order differ in the last digit."""

Label = TypeVar("Label", Rating, Preference)


@dataclass(frozen=True, slots=True, eq=False)
class RatingTable:
    """The median rating of each response."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    value: FloatArray
    """[tasks, agents]: median over raters; NaN without raters."""
    raters: IntArray
    """[tasks, agents]: number of raters."""


@dataclass(frozen=True, slots=True, eq=False)
class PairLabels:
    """One label per pair, in the order of tasks and agents; ``low`` is the agent with the lower number."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    task: IntArray
    low: IntArray
    high: IntArray
    sign: IntArray
    """1: low is better; -1: high is; 0: a tie."""
    by_preference: BoolArray
    """True if preferences decided."""
    contradicted: BoolArray
    """True if ratings and preferences contradict each other."""
    margin: float
    """The margin of votes by which preferences decide."""

    @property
    def rule(self) -> str:
        """The rule of the labels, for signatures."""
        return f"sign-of-medians,then-votes-beyond-{LEAST_PREFERENCE:g}-ahead-by-{self.margin:g}"

    @property
    def n_pairs(self) -> int:
        """Number of labelled pairs, including ties."""
        return len(self.sign)

    @property
    def n_decided(self) -> int:
        """Number of pairs in which one response is better."""
        return int(np.count_nonzero(self.sign))

    @property
    def n_ties(self) -> int:
        """Number of ties."""
        return self.n_pairs - self.n_decided

    @property
    def n_contradicted(self) -> int:
        """Number of pairs on which ratings and preferences contradict each other."""
        return int(self.contradicted.sum())

    def decided(self) -> PairLabels:
        """The labels without ties."""
        return self.kept(self.sign != 0)

    def among(self, agents: Collection[str]) -> PairLabels:
        """The labels of pairs of these agents, such as those of an exam."""
        return self.kept(self._within(agents))

    def outside(self, agents: Collection[str]) -> PairLabels:
        """The labels of pairs that are not between two of these agents, to test on pairs outside the exam."""
        return self.kept(~self._within(agents))

    def kept(self, kept: BoolArray) -> PairLabels:
        """The labels where ``kept`` is true."""
        return replace(
            self,
            task=self.task[kept],
            low=self.low[kept],
            high=self.high[kept],
            sign=self.sign[kept],
            by_preference=self.by_preference[kept],
            contradicted=self.contradicted[kept],
        )

    def places(self, pairs: Any) -> IntArray:
        """The index of the label of each pair of a table of the same tasks and agents; -1: the pair has no label."""
        if (self.tasks, self.agents) != (pairs.tasks, pairs.agents):
            raise MetricError("labels and judgements must have the same tasks and agents in the same order")
        key, own = (_keys(one.task, one.low, one.high, len(self.agents)) for one in (pairs, self))
        if not len(own):
            return np.full(len(key), -1)
        place = np.searchsorted(own, key).clip(max=len(own) - 1)
        found: IntArray = np.where(own[place] == key, place, -1)
        return found

    def _within(self, agents: Collection[str]) -> BoolArray:
        for agent in agents:
            if agent not in self.agents:
                raise MetricError(f"no pair with agent {agent!r} is labelled{nearest(agent, self.agents)}")
        inside = np.array([agent in set(agents) for agent in self.agents], dtype=np.bool_)
        result: BoolArray = inside[self.low] & inside[self.high]
        return result


def rating_table(
    ratings: Iterable[Rating],
    *,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    criterion: str | None = None,
) -> RatingTable:
    """Median rating of each response over its raters.

    If ``tasks`` and ``agents`` are given, they order the table and all others are left out (None: by appearance).
    """
    kept = _of_criterion(list(ratings), criterion)
    tasks = _names(tasks, (rating.task for rating in kept))
    agents = _names(agents, (rating.agent for rating in kept))
    task_number, agent_number = _numbers(tasks), _numbers(agents)
    said: dict[tuple[int, int], dict[str, list[float]]] = {}
    for rating in kept:
        if rating.task in task_number and rating.agent in agent_number:
            cell = said.setdefault((task_number[rating.task], agent_number[rating.agent]), {})
            cell.setdefault(rating.rater, []).append(rating.score)
    value, raters = np.full((len(tasks), len(agents)), np.nan), np.zeros((len(tasks), len(agents)), np.int64)
    for place, by_rater in said.items():
        value[place] = median(sum(scores) / len(scores) for scores in by_rater.values())
        raters[place] = len(by_rater)
    return RatingTable(tuple(tasks), tuple(agents), value, raters)


def check_margin(margin: float | None) -> None:
    """Refuse a margin that decides everything or nothing."""
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise MetricError(f"margin must be above 0, got {margin:g}. Try 2, as in the papers")


def usual_margin(
    preferences: Iterable[Preference], *, criterion: str | None = None, convention: Convention = "default"
) -> float:
    """Two votes, as in the papers, or one where most pairs have too few votes for a margin of two.

    With the papers' convention it is always two.
    """
    if convention != "default":
        return PAPERS_MARGIN
    votes: dict[tuple[str, frozenset[str]], set[str]] = {}
    for label in _of_criterion(list(preferences), criterion):
        votes.setdefault((label.task, frozenset((label.first, label.second))), set()).add(label.rater)
    few = votes and float(np.median([len(raters) for raters in votes.values()])) < MANY_VOTES
    return 1.0 if few else PAPERS_MARGIN


def pair_labels(
    ratings: Iterable[Rating] = (),
    preferences: Iterable[Preference] = (),
    *,
    tasks: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    criterion: str | None = None,
    least_margin: float = PAPERS_MARGIN,
) -> PairLabels:
    """The label of every pair of responses to one task that people rated or compared, including ties.

    Ratings decide; where they tie, the votes for one side minus those for the other must reach ``least_margin``.
    """
    if not least_margin > 0:
        raise MetricError(f"least_margin must be above 0, got {least_margin}. Try 2, as in the papers")
    rated, compared = _of_criterion(list(ratings), criterion), _of_criterion(list(preferences), criterion)
    if not rated and not compared:
        raise MetricError("there are no labels. Add a labels table with ratings or preferences to the study")
    tasks = _names(tasks, [*(label.task for label in rated), *(label.task for label in compared)])
    pairs = ((label.first, label.second) for label in compared)
    agents = _names(agents, [*(label.agent for label in rated), *itertools.chain.from_iterable(pairs)])
    table = rating_table(rated, tasks=tasks, agents=agents)
    from_votes = _vote_signs(compared, tasks, agents, least_margin)
    return _joined(tuple(tasks), tuple(agents), _rating_signs(table), from_votes, least_margin)


Signs = tuple[IntArray, IntArray]
"""Keys of pairs in ascending order, and the sign of each."""


def _rating_signs(table: RatingTable) -> Signs:
    """The sign of the difference of every two rated responses to a task."""
    low, high = np.triu_indices(len(table.agents), k=1)
    differences = table.value[:, low] - table.value[:, high]
    task, pair = np.nonzero(~np.isnan(differences))
    found = differences[task, pair]
    signs = np.where(np.abs(found) <= ROUNDING, 0, np.sign(found)).astype(np.int64)
    return _keys(task, low[pair], high[pair], len(table.agents)), signs


def _vote_signs(preferences: Sequence[Preference], tasks: Sequence[str], agents: Sequence[str], margin: float) -> Signs:
    """The side of every compared pair that has the votes."""
    task_number, agent_number = _numbers(tasks), _numbers(agents)
    voices: dict[tuple[int, str], list[float]] = {}
    for label in preferences:
        first, second = agent_number.get(label.first, -1), agent_number.get(label.second, -1)
        if label.task in task_number and first >= 0 and second >= 0:
            low, high = min(first, second), max(first, second)
            key = (task_number[label.task] * len(agents) + low) * len(agents) + high
            voices.setdefault((key, label.rater), []).append(label.preference if low == first else -label.preference)
    net: dict[int, int] = {}
    for (key, _), said in voices.items():
        mean = sum(said) / len(said)
        net[key] = net.get(key, 0) + (abs(mean) > LEAST_PREFERENCE + ROUNDING) * (1 if mean > 0 else -1)
    keys = np.array(sorted(net), dtype=np.int64)
    votes = np.array([net[key] for key in sorted(net)], dtype=np.float64)
    return keys, np.where(np.abs(votes) >= margin - ROUNDING, np.sign(votes), 0).astype(np.int64)


def _joined(tasks: tuple[str, ...], agents: tuple[str, ...], ratings: Signs, votes: Signs, margin: float) -> PairLabels:
    keys = np.union1d(ratings[0], votes[0])
    by_rating, by_vote = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    by_rating[np.searchsorted(keys, ratings[0])] = ratings[1]
    by_vote[np.searchsorted(keys, votes[0])] = votes[1]
    sign = np.where(by_rating != 0, by_rating, by_vote)
    return PairLabels(
        tasks,
        agents,
        task=keys // len(agents) ** 2,
        low=keys // len(agents) % len(agents),
        high=keys % len(agents),
        sign=sign,
        by_preference=(sign != 0) & (by_rating == 0),
        contradicted=by_rating * by_vote < 0,
        margin=margin,
    )


def _of_criterion(labels: list[Label], criterion: str | None) -> list[Label]:
    found = {label.criterion for label in labels}
    if criterion is None:
        if len(found) > 1:
            names = ", ".join(sorted(map(str, found)))
            raise MetricError(f"labels have {len(found)} criteria ({names}). Choose one with criterion")
        return labels
    return [label for label in labels if label.criterion == criterion]


def _names(given: Sequence[str] | None, found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found if given is None else given))


def _numbers(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _keys(task: IntArray, low: IntArray, high: IntArray, agents: int) -> IntArray:
    return (task.astype(np.int64) * agents + low) * agents + high
