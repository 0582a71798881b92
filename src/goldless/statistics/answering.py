"""Comparisons of agents with what each would take: those that answer a question, and those that were made anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.statistics.comparisons import SIGNIFICANT, Comparison, Pairs, fewest_tasks
from goldless.statistics.deciding import (
    AT_LEAST,
    FIXED_SAMPLE,
    check_alpha,
    missing_range,
    p_values,
    tasks_missing,
)
from goldless.statistics.questions import Question
from goldless.statistics.skewness import believed, skewness

ELEMENTS_AT_ONCE = 1 << 25
"""Larger tables are read some columns at a time."""


@dataclass(frozen=True, slots=True)
class Until:
    """A question, and how sure its answer must be."""

    question: Question
    alpha: float = SIGNIFICANT
    at_least: int = AT_LEAST
    """Tasks before anything is decided."""

    def __post_init__(self) -> None:
        """Refuse an alpha that is not between 0 and 1."""
        check_alpha(self.alpha)

    def compare(self, agents: Sequence[str], pairs: Pairs) -> list[Comparison]:
        """The comparisons of the question by a confidence sequence, corrected: valid whenever one stops."""
        asked = self.question.pairs(len(agents))
        column = {
            both: place for place, both in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
        }
        places = np.array([column[min(pair), max(pair)] for pair in asked], np.int64)
        sign = np.array([1.0 if first < second else -1.0 for first, second in asked])
        n, mean, sd = moments(pairs.differences[:, places])
        # of its own tasks alone: what is decided stays decided while others go on
        skew = skewness(pairs.differences[:, places])
        p, adjusted = self.test(n, believed(n, mean, sd, skew), sd, len(agents))
        decided = adjusted < self.alpha
        skewed = ~decided & (self.test(n, mean, sd, len(agents))[1] < self.alpha)
        left = self.alpha / self.question.tests(len(agents), int(decided.sum()))
        more = tasks_missing(n, mean, sd, alpha=left, at_least=self.at_least)
        ranges = [(0, 0) if done else missing_range(*ends) for done, ends in zip(decided, more.T, strict=True)]
        return [
            Comparison(
                first=agents[first],
                second=agents[second],
                difference=float(sign[i] * mean[i]) if n[i] else None,
                p=float(p[i]) if n[i] > 1 else None,
                p_holm=None,
                n=int(n[i]),
                p_adjusted=float(adjusted[i]) if n[i] > 1 else None,
                alpha=self.alpha,
                more_tasks=ranges[i][0],
                more_tasks_high=ranges[i][1],
                skewed=bool(skewed[i]),
            )
            for i, (first, second) in enumerate(asked)
        ]

    def test(self, n: FloatArray, mean: FloatArray, sd: FloatArray, agents: int) -> tuple[FloatArray, FloatArray]:
        """P of each comparison alone, and corrected for the question."""
        each = self.alpha / self.question.tests(agents)
        p = p_values(n, mean, sd, alpha=each, at_least=self.at_least)
        order = np.argsort(p, kind="stable")
        tests = np.array([self.question.tests(agents, rank) for rank in range(len(p))])
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * tests))
        return p, adjusted

    def open(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> list[str]:
        """The agents that more tasks are needed for."""
        return [agents[agent] for agent in self.question.open(beats(agents, comparisons))]

    def matter(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The comparisons that are part of the answer, or of what is missing to it."""
        number, known = {agent: place for place, agent in enumerate(agents)}, beats(agents, comparisons)
        return [c for c in comparisons if self.question.matters(known, number[c.first], number[c.second])]

    def answer(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> str:
        """What is known, in words."""
        return self.question.answer(beats(agents, comparisons), agents)


def beats(agents: Sequence[str], comparisons: Sequence[Comparison]) -> BoolArray:
    """[agents, agents]: whether the first is decidedly better."""
    number = {agent: place for place, agent in enumerate(agents)}
    found = np.zeros((len(agents), len(agents)), np.bool_)
    for one in comparisons:
        if one.better is not None:
            worse = one.second if one.better == one.first else one.first
            found[number[one.better], number[worse]] = True
    return found


def with_outlook(comparisons: Sequence[Comparison], agents: Sequence[str], pairs: Pairs) -> list[Comparison]:
    """Comparisons of a fixed number of tasks, each with the range of how many more it would take.

    By Student's interval, corrected for those that are still undecided.
    """
    undecided = sum(not one.decided for one in comparisons)
    if not undecided:
        return [replace(one, more_tasks=0, more_tasks_high=0) for one in comparisons]
    column = {
        (agents[first], agents[second]): place
        for place, (first, second) in enumerate(zip(pairs.first, pairs.second, strict=True))
    }
    n, mean, sd = moments(pairs.differences[:, [column[one.first, one.second] for one in comparisons]])
    more = tasks_missing(n, mean, sd, alpha=SIGNIFICANT / undecided, bound=FIXED_SAMPLE, at_least=fewest_tasks())
    ranges = [(0, 0) if one.decided else missing_range(*ends) for one, ends in zip(comparisons, more.T, strict=True)]
    return [
        replace(one, more_tasks=low, more_tasks_high=high) for one, (low, high) in zip(comparisons, ranges, strict=True)
    ]


def moments(differences: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Number, mean and standard deviation (n - 1) of each column without NaN; NaN where there are too few."""
    if differences.size > ELEMENTS_AT_ONCE and differences.shape[1] > 1:
        columns = np.array_split(differences, -(-differences.size // ELEMENTS_AT_ONCE), axis=1)
        n, mean, sd = (np.concatenate(found) for found in zip(*map(moments, columns), strict=True))
        return n, mean, sd
    there = ~np.isnan(differences)
    n = there.sum(axis=0).astype(np.float64)
    mean, variance = np.full(n.shape, np.nan), np.full(n.shape, np.nan)
    np.divide(np.where(there, differences, 0.0).sum(axis=0), n, out=mean, where=n > 0)
    squares = np.where(there, differences - mean, 0.0) ** 2
    np.divide(squares.sum(axis=0), n - 1, out=variance, where=n > 1)
    return n, mean, np.sqrt(variance)
