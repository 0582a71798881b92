"""Comparisons of agents: paired differences over common tasks, corrected for all comparisons made.

The signs of the differences are flipped, in the same way for all pairs, and the largest statistic of each flip is what
a pair's own statistic is compared with (Westfall and Young's step-down max-T). All pairs share a flip, so the smallest
corrected p is 2 / 2^n for n tasks however many pairs there are.

The statistic is the sum of the differences divided by the root of the sum of their squares, which flips do not change.
For a given number of tasks n it grows with Student's t, so large and small spreads compete on equal terms; it is at
most √n, so that a pair with few common tasks cannot drown the others. Where pairs compete, each one's spread counts as
if ten more tasks had the spread of the median pair. Flipping signs takes for granted that differences are as often
above their mean as below: a pair's own statistic is that of the t that skewness leaves (``skewness.nearer``).

The p of a pair alone is that of ``sign_flips.MeanTest``, as ``compare`` prints it; a corrected p is never below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray, IntArray
from goldless.errors import check_known
from goldless.statistics.additive import PairDifferences
from goldless.statistics.bootstrap import GROUPS, group_sums, task_groups
from goldless.statistics.sign_flips import (
    ELEMENTS_AT_ONCE,
    EXACT_UP_TO,
    data_among_flips,
    flip_blocks,
    nearly,
    without_skew,
)
from goldless.statistics.skewness import beside_others, pair_skewness, pair_times, skewness

SIGNIFICANT = 0.05
USUAL_TASKS = 10
"""The number of tasks with the median pair's spread that are added to each pair's own: of 5, 10, 20 and 40 the best."""
AGENTS_OF_MEDIAN = 1_000
"""The pairs of more agents are too many to be kept, and no median needs them."""

Compare = Literal["all", "leader"]


@dataclass(frozen=True)
class Comparison:
    """Two agents compared on the tasks where both have a score."""

    first: str
    second: str
    difference: float | None
    """First minus second, of the scores; None: no common task."""
    p: float | None
    """Two-sided sign-flip test of this pair alone, as ``compare`` has it; None: fewer than two common tasks."""
    p_holm: float | None
    """p corrected by Holm's method, for comparison; it decides nothing."""
    n: int
    """Common tasks."""
    p_adjusted: float | None = None
    """Corrected for all comparisons made (step-down max-T, or for those of a question): this p decides."""
    more_tasks: int | None = None
    """The number of more tasks that decides in 80% of cases; 0: decided; None: too far to estimate."""
    skewed: bool = False
    """True if it would be decided if the differences were not skewed."""
    alpha: float = SIGNIFICANT
    """Below it a corrected p decides."""
    sign_kept: float | None = None
    """Probability that the difference keeps its sign with other peers like these; None: undecided, or too few peers."""

    @property
    def decided(self) -> bool:
        return self.p_adjusted is not None and self.p_adjusted < self.alpha

    @property
    def better(self) -> str | None:
        """The better of the two; None: undecided."""
        return (self.first if (self.difference or 0.0) > 0 else self.second) if self.decided else None

    @property
    def worse(self) -> str | None:
        """The other one; None: undecided."""
        return None if self.better is None else self.second if self.better == self.first else self.first


@dataclass(frozen=True)
class Pairs:
    """Differences of pairs of agents, task by task."""

    first: IntArray
    second: IntArray
    differences: FloatArray
    """[tasks, pairs], NaN where there is none."""


def fewest_tasks() -> int:
    """The number of common tasks a difference needs to be significant at all: 2 / 2^n must be below ``SIGNIFICANT``."""
    return next(n for n in itertools.count(2) if 2.0 ** (1 - n) < SIGNIFICANT)


def too_few_tasks(tasks: int) -> str | None:
    """A warning that so few tasks can decide nothing, or None."""
    if tasks >= fewest_tasks():
        return None
    some = f"{tasks} common task{'s' * (tasks != 1)}"
    smallest = f" (the smallest p is {2.0 ** (1 - tasks):g})" if tasks >= 2 else ""
    return f"with {some} no difference can be significant at {SIGNIFICANT:g}{smallest}; {fewest_tasks()} are needed"


# --- differences ----------------------------------------------------------------------------------------------------


def all_pairs(values: FloatArray) -> Pairs:
    """The differences of every pair of columns of ``values`` [tasks, agents], on the tasks that both have.

    Their mean is the difference of the two agents' scores: where other scores are missing, of the scores that are
    adjusted for it.
    """
    agents = values.shape[1]
    first, second = (np.asarray(side, np.int64) for side in np.triu_indices(agents, 1))
    # the only table of this size: there may be millions of tasks
    return Pairs(first, second, PairDifferences(values)(first, second))


def pairs_with(values: FloatArray, agent: int) -> Pairs:
    """The differences of the pairs that one agent is in, as ``all_pairs`` has them."""
    others = np.delete(np.arange(values.shape[1]), agent)
    first, second = np.minimum(others, agent), np.maximum(others, agent)
    return Pairs(first, second, PairDifferences(values)(first, second))


def _pair_blocks(every: PairDifferences, order: IntArray, rows: int) -> Iterator[tuple[slice, IntArray, Pairs]]:
    """Pairs of the first ``rows`` agents of an order, each with all agents after it, in blocks that fit memory.

    The last rows come first. Each block is with the slice of its rows, and the columns where a row begins.
    """
    tasks, agents = len(every.values), len(order)
    end = rows
    while end:
        widths = agents - 1 - np.arange(end)
        sizes = np.cumsum(widths[::-1]) * tasks
        begin = end - max(1, int(np.searchsorted(sizes, ELEMENTS_AT_ONCE, side="right")))
        widths = widths[begin:]
        first = np.repeat(order[begin:end], widths)
        second = np.concatenate([order[row + 1 :] for row in range(begin, end)])
        yield slice(begin, end), np.cumsum(widths) - widths, Pairs(first, second, every(first, second))
        end = begin


def compare_pairs(
    agents: Sequence[str], pairs: Pairs, *, seed: int = 0, permutations: int = 10_000
) -> list[Comparison]:
    """Test pairs of agents, in order, such as ``all_pairs`` of them."""
    skew = pair_skewness(pairs.differences, pairs.first, pairs.second)
    return _compared(agents, pairs, skew, None, seed=seed, permutations=permutations)


def compare_with(
    agents: Sequence[str],
    values: FloatArray,
    one: str,
    *,
    leads: bool = False,
    seed: int = 0,
    permutations: int = 10_000,
) -> list[Comparison]:
    """Test one agent with each other one, in order; ``values``: [tasks, agents] with NaN where a score is missing.

    ``leads``: it was chosen because it leads. An agent is then tested beside all pairs of those not yet decided, since
    any of them might have led.
    """
    check_known([one], agents, "unknown agent", "Agents")
    number, every = list(agents).index(one), PairDifferences(values)
    pairs = pairs_with(values, number)
    if np.isnan(values).any():
        blocks = _pair_blocks(every, np.arange(len(agents)), len(agents) - 1)
        beside = beside_others(((one.first, one.second, one.differences) for _, _, one in blocks), len(agents))
    else:  # without a look at every pair
        beside = (values - values.mean(axis=1, keepdims=True)) * len(agents) / max(1, len(agents) - 1)
    skew = pair_skewness(pairs.differences, pairs.first, pairs.second, beside)
    field = _Field(every, number, seed, permutations) if leads else None
    return _compared(agents, pairs, skew, field, seed=seed, permutations=permutations)


def _compared(
    agents: Sequence[str], pairs: Pairs, skew: FloatArray, field: _Field | None, *, seed: int, permutations: int
) -> list[Comparison]:
    counts = np.sum(~np.isnan(pairs.differences), axis=0)
    tested = np.flatnonzero(counts >= 2)
    p = np.full(len(counts), np.nan)
    adjusted, plain = p.copy(), p.copy()
    if len(tested):
        some = pairs
        if len(tested) < len(counts):
            some = Pairs(pairs.first[tested], pairs.second[tested], pairs.differences[:, tested])
        found = _max_t(some, skew[tested], field, seed=seed, permutations=permutations)
        p[tested], adjusted[tested], plain[tested] = found
    ps = [_known(one) for one in p]
    return [
        Comparison(
            first=agents[pairs.first[column]],
            second=agents[pairs.second[column]],
            difference=float(np.nanmean(pairs.differences[:, column])) if counts[column] else None,
            p=alone,
            p_holm=corrected,
            n=int(counts[column]),
            p_adjusted=_known(adjusted[column]),
            skewed=bool(plain[column] < SIGNIFICANT <= adjusted[column]),
        )
        for column, (alone, corrected) in enumerate(zip(ps, holm(ps), strict=True))
    ]


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


# --- max-T ----------------------------------------------------------------------------------------------------------


def _max_t(
    pairs: Pairs, skew: FloatArray, field: _Field | None, *, seed: int, permutations: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P of each pair alone, corrected, and corrected as if nothing were skewed.

    ``field``: all pairs that compete, where these pairs of the leader are not the only ones.
    """
    present = ~np.isnan(pairs.differences)
    there = np.asarray(present.any(axis=1)) if field is None else field.tasks
    counts = present.sum(axis=0).astype(np.float64)
    scaled = _scaled(pairs.differences, there, seed=seed)
    sums = scaled.sum(axis=0)
    observed = np.abs(sums)
    alone = without_skew(observed, skewness(pairs.differences) * np.sign(sums), counts, pair_times(counts))
    usual = _usual_square(pairs.differences) if field is None else field.usual_square()
    share = _share_of_spread(pairs.differences, usual)
    competing = np.stack([without_skew(observed, skew * np.sign(sums), counts), observed]) * share
    orders = np.argsort(-competing, axis=1, kind="stable")
    hits = np.zeros((2, len(sums)), np.int64)
    larger, total = np.zeros_like(hits), 0
    for signs in flip_blocks(len(scaled), max(scaled.shape[1], 1), seed=seed, permutations=permutations):
        flipped = np.abs(signs @ scaled)
        hits += [np.sum(flipped >= nearly(one), axis=0) for one in (alone, observed)]
        if field is None:
            flipped *= share
            for row, order in enumerate(orders):
                running = np.maximum.accumulate(flipped[:, order[::-1]], axis=1)[:, ::-1]
                larger[row] += np.sum(running >= nearly(competing[row, order]), axis=0)
        total += len(signs)
    extra = data_among_flips(len(scaled))
    p, plain = (hits + extra) / (total + extra)
    adjusted = np.empty((2, len(sums)))
    for row, order in enumerate(orders):
        if field is not None:
            if row and not ((plain < SIGNIFICANT) & (adjusted[0] >= SIGNIFICANT)).any():
                adjusted[row] = adjusted[0]  # skewness undid no decision, so nobody asks what was without it
                break
            rivals = np.where(pairs.first == field.leader, pairs.second, pairs.first)
            larger[row] = field.larger(rivals[order], competing[row, order], usual)
        adjusted[row, order] = np.maximum.accumulate((larger[row] + extra) / (total + extra))
    # no pair is surer among others than alone
    return p, np.maximum(adjusted[0], p), np.maximum(adjusted[1], plain)


def _mean_squares(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Number and mean square of each pair's differences."""
    counts = np.sum(~np.isnan(differences), axis=0).astype(np.float64)
    filled = np.nan_to_num(differences)
    return counts, np.einsum("tp,tp->p", filled, filled) / np.maximum(counts, 1.0)


def _usual_square(differences: FloatArray) -> float:
    """The mean square of the median pair."""
    return float(np.median(_mean_squares(differences)[1]))


def _share_of_spread(differences: FloatArray, usual: float) -> FloatArray:
    """The factor of each pair's statistic where pairs compete.

    A spread counts as if ``USUAL_TASKS`` more tasks had that of the median pair: among many pairs some have, by luck, a
    small one, and would reach the largest statistic without a difference (the moderated t of microarrays: Smyth,
    Statistical Applications in Genetics and Molecular Biology 3, 2004). Flips leave the factor unchanged.
    """
    counts, square = _mean_squares(differences)
    total = square + USUAL_TASKS * usual / np.maximum(counts, 1.0)
    return np.sqrt(np.divide(square, total, out=np.ones_like(square), where=total > 0))


@dataclass(frozen=True)
class _Field:
    """All pairs that compete with those of a leader; never all of them in memory."""

    every: PairDifferences
    leader: int
    seed: int
    permutations: int

    @property
    def tasks(self) -> npt.NDArray[np.bool_]:
        """The tasks on which any two agents can be compared."""
        return np.asarray((~np.isnan(self.every.values)).sum(axis=1) >= 2)

    def usual_square(self) -> float:
        """The mean square of the median pair of the field; of a large field, among evenly spaced agents."""
        agents = self.every.values.shape[1]
        looked_at = np.unique(np.linspace(0, agents - 1, min(agents, AGENTS_OF_MEDIAN)).astype(np.int64))
        squares = []
        for _, _, pairs in _pair_blocks(self.every, looked_at, len(looked_at) - 1):
            counts, square = _mean_squares(pairs.differences)
            squares.append(square[counts >= 2])
        return float(np.median(np.concatenate(squares)))

    def larger(self, rivals: IntArray, observed: FloatArray, usual: float) -> IntArray:
        """For each rival how many flips have a pair, of it and of those after it, that reaches what was observed.

        A rival that is decided takes every pair of its own with it. The last one comes first here, so that of each flip
        only the largest statistic so far is kept. ``usual``: the mean square of the median pair.
        """
        # at the end the leader, and agents that it shares too few tasks with
        others = np.setdiff1d(np.arange(self.every.values.shape[1]), rivals)
        found = np.zeros(len(rivals), np.int64)
        reached: FloatArray | None = None
        for rows, begins, pairs in _pair_blocks(self.every, np.concatenate([rivals, others]), len(rivals)):
            scaled = _scaled(pairs.differences, self.tasks, seed=self.seed)
            scaled *= _share_of_spread(pairs.differences, usual)
            scaled[:, (~np.isnan(pairs.differences)).sum(axis=0) < 2] = 0.0
            if reached is None:
                exact = len(scaled) <= EXACT_UP_TO
                reached = np.zeros(2 ** max(0, len(scaled) - 1) if exact else self.permutations)
            at = 0
            for signs in flip_blocks(len(scaled), scaled.shape[1], seed=self.seed, permutations=self.permutations):
                flips = slice(at, at + len(signs))
                largest = np.maximum.reduceat(np.abs(signs @ scaled), begins, axis=1)
                largest[:, -1] = np.maximum(largest[:, -1], reached[flips])
                largest = np.maximum.accumulate(largest[:, ::-1], axis=1)[:, ::-1]
                reached[flips] = largest[:, 0]
                found[rows] += np.sum(largest >= nearly(observed[rows]), axis=0)
                at = flips.stop
        return found


def _scaled(differences: FloatArray, there: npt.NDArray[np.bool_], *, seed: int) -> FloatArray:
    """The values to flip: the differences of each task, or sums of groups of very many tasks, in units of their size.

    ``there``: the tasks on which any pair has one.
    """
    groups = task_groups(int(there.sum()), seed=seed)
    if groups is None:
        filled = np.nan_to_num(differences[there])  # zero of either sign adds nothing
        size = np.sqrt((filled**2).sum(axis=0))
        return filled / np.where(size > 0, size, 1.0)
    scaled = np.empty((GROUPS, differences.shape[1]))
    for column in range(differences.shape[1]):
        one = np.nan_to_num(differences[there, column])
        scaled[:, column] = group_sums(one[None], groups)[0] / (np.sqrt(one @ one) or 1.0)
    return scaled


# --- one column at a time -------------------------------------------------------------------------------------------


def sign_flip_p(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> float | None:
    """Two-sided p of a mean difference of zero: how often flipped signs give a mean at least as far from zero."""
    return sign_flip_ps(differences[:, None], seed=seed, permutations=permutations)[0]


def sign_flip_ps(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> list[float | None]:
    """P of each column of differences [tasks, pairs], NaN where a pair has no common score; None: too few tasks.

    The statistic is the mean. Random sign flips are the same for all columns.
    """
    counts = np.sum(~np.isnan(differences), axis=0)
    filled = np.nan_to_num(differences)  # zero of either sign adds nothing
    observed = np.abs(filled.sum(axis=0)) * (1 - 1e-9)  # sums in another order differ in the last digit
    ps: list[float | None] = [None] * len(counts)
    for column in np.flatnonzero((counts >= 2) & (counts <= EXACT_UP_TO)):
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=int(counts[column]))))
        own = differences[~np.isnan(differences[:, column]), column]
        ps[column] = float((np.abs(signs @ own) >= observed[column]).mean())
    many = np.flatnonzero(counts > EXACT_UP_TO)
    random = np.random.default_rng(seed)
    as_far = np.zeros(len(many), np.int64)
    step = max(1, ELEMENTS_AT_ONCE // max(len(differences), len(many), 1))
    for begin in range(0, permutations if len(many) else 0, step):
        flips = random.random((min(step, permutations - begin), len(differences)))
        as_far += np.sum(np.abs(np.where(flips < 0.5, -1.0, 1.0) @ filled[:, many]) >= observed[many], axis=0)
    for column, count in zip(many, as_far, strict=True):
        ps[column] = (int(count) + 1) / (permutations + 1)
    return ps


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; entries without p stay None and do not count."""
    order = sorted((i for i, p in enumerate(ps) if p is not None), key=lambda i: ps[i] or 0.0)
    corrected: list[float | None] = [None] * len(ps)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * (ps[i] or 0.0)))
        corrected[i] = running
    return corrected
