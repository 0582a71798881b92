"""Which agent is better than which: paired differences over common tasks, corrected for all comparisons made.

The signs of the differences are flipped, in the same way for all pairs, and the largest statistic of each flip is what
a pair's own statistic is compared with (Westfall and Young's step-down max-T). All pairs share a flip, so the smallest
corrected p is 2 / 2^n for n tasks however many pairs there are.

The statistic is the sum of the differences divided by the root of the sum of their squares, which flips do not change.
For a given number of tasks n it grows with Student's t, so large and small spreads compete on equal terms; it is at
most √n, so that a pair with few common tasks cannot drown the others. Flipping signs takes for granted that differences
are as often above their mean as below: a pair's own statistic is that of the t that skewness leaves
(``skewness.nearer``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray, IntArray
from goldless.errors import UserError, nearest
from goldless.statistics.additive import pair_differences
from goldless.statistics.skewness import nearer, pair_skewness
from goldless.statistics.task_groups import GROUPS, group_sums, task_groups

SIGNIFICANT = 0.05
EXACT_UP_TO = 13
"""Up to this many tasks, all sign flips are tried (8,192); beyond, ``permutations`` random ones."""
ELEMENTS_AT_ONCE = 1 << 21

Compare = Literal["all", "leader"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two agents compared on the tasks where both have a score."""

    first: str
    second: str
    difference: float | None
    """First minus second, of the scores; None: no common task."""
    p: float | None
    """Two-sided sign-flip test of this pair alone; None: fewer than two common tasks."""
    p_holm: float | None
    """p corrected by Holm's method, for comparison; it decides nothing."""
    n: int
    """Common tasks."""
    p_adjusted: float | None = None
    """Corrected for all comparisons made (step-down max-T, or for those of a question) and for skewness."""
    more_tasks: int | None = None
    """The fewest more tasks that are likely to decide; 0: decided; None: too far to estimate."""
    more_tasks_high: int | None = None
    """The most; in 80 % the number that it takes is between the two. None: no end can be given."""
    skewed: bool = False
    """Whether it would be decided if the differences were not skewed."""
    alpha: float = SIGNIFICANT
    """Below it a corrected p decides."""

    @property
    def decided(self) -> bool:
        """Whether one of the two is better."""
        return self.p_adjusted is not None and self.p_adjusted < self.alpha

    @property
    def better(self) -> str | None:
        """The better of the two; None: undecided."""
        return (self.first if (self.difference or 0.0) > 0 else self.second) if self.decided else None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Differences of pairs of agents, task by task."""

    first: IntArray
    second: IntArray
    differences: FloatArray
    """[tasks, pairs], NaN where there is none."""


def fewest_tasks(level: float = SIGNIFICANT) -> int:
    """How many common tasks a difference needs to be significant at all: 2 / 2^n must be below the level."""
    return next(n for n in itertools.count(2) if 2.0 ** (1 - n) < level)


def too_few_tasks(tasks: int) -> str | None:
    """What to say where so few tasks can decide nothing; None: they can."""
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
    return Pairs(first, second, pair_differences(values, first, second))


def compare_all(
    agents: Sequence[str], values: FloatArray, *, seed: int = 0, permutations: int = 10_000
) -> list[Comparison]:
    """Compare every pair of agents, in order; ``values`` is [tasks, agents] with NaN where a score is missing."""
    return compare_pairs(agents, all_pairs(values), seed=seed, permutations=permutations)


def compare_pairs(
    agents: Sequence[str],
    pairs: Pairs,
    *,
    leader: str | None = None,
    baseline: str | None = None,
    seed: int = 0,
    permutations: int = 10_000,
) -> list[Comparison]:
    """Test pairs of agents, in order.

    ``baseline``: only that agent with each other one. ``leader``: likewise, for an agent that was chosen because it
    leads: an agent is then tested beside all pairs of those not yet decided, since any of them might have led.
    """
    counts = np.sum(~np.isnan(pairs.differences), axis=0)
    tested = counts >= 2
    chosen = np.ones(len(counts), np.bool_)
    if (one := leader or baseline) is not None:
        number = _number(agents, one)
        chosen = (pairs.first == number) | (pairs.second == number)
    p = np.full(len(counts), np.nan)
    adjusted, plain = p.copy(), p.copy()
    family = tested if leader is not None else tested & chosen
    if family.any():
        members = np.flatnonzero(family)
        own = np.flatnonzero(chosen[members])
        sides = None if leader is None else (pairs.first[members], pairs.second[members], _number(agents, leader))
        differences = pairs.differences if family.all() else pairs.differences[:, members]
        skew = pair_skewness(pairs.differences, pairs.first, pairs.second)[members]
        found = _max_t(differences, skew, own, sides, seed=seed, permutations=permutations)
        p[members[own]], adjusted[members[own]], plain[members[own]] = found
    kept = np.flatnonzero(chosen)
    ps = [_known(p[column]) for column in kept]
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
        for column, alone, corrected in zip(kept, ps, holm(ps), strict=True)
    ]


def _number(agents: Sequence[str], agent: str) -> int:
    if agent not in agents:
        raise UserError(f"unknown agent {agent!r}{nearest(agent, agents) or '.'} Agents: {', '.join(agents)}")
    return list(agents).index(agent)


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


# --- max-T ----------------------------------------------------------------------------------------------------------


def _max_t(
    differences: FloatArray,
    skew: FloatArray,
    own: IntArray,
    sides: tuple[IntArray, IntArray, int] | None,
    *,
    seed: int,
    permutations: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P of each hypothesis alone, corrected, and corrected as if nothing were skewed.

    ``own``: the columns that are hypotheses; the others only compete.
    """
    scaled = _scaled(differences, seed=seed)
    sums = scaled.sum(axis=0)
    observed = np.abs(sums)
    counts = (~np.isnan(differences)).sum(axis=0).astype(np.float64)
    steps = [_Steps(told, own, sides) for told in (_without_skew(observed, skew * np.sign(sums), counts), observed)]
    alone = np.zeros(len(own), np.int64)
    total = 0
    for signs in _flips(len(scaled), max(differences.shape[1], 1), seed=seed, permutations=permutations):
        flipped = np.abs(signs @ scaled)
        alone += np.sum(flipped[:, own] >= _nearly(observed[own]), axis=0)
        for one in steps:
            one.count(flipped)
        total += len(signs)
    # a random sample of flips does not hold the data itself, which counts as one of them
    more = 0 if len(scaled) <= EXACT_UP_TO else 1
    adjusted, plain = (one.adjusted(more, total)[own] for one in steps)
    return (alone + more) / (total + more), adjusted, plain


class _Steps:
    """How often the largest statistic that is left at each step is at least that of the step's hypothesis."""

    def __init__(self, observed: FloatArray, own: IntArray, sides: tuple[IntArray, IntArray, int] | None) -> None:
        self._order = own[np.argsort(-observed[own], kind="stable")]
        self._observed = observed
        self._columns, self._begins = _steps(self._order, sides)
        self._larger = np.zeros(len(own), np.int64)

    def count(self, flipped: FloatArray) -> None:
        """Count some flips [flips, pairs]."""
        running = np.maximum.accumulate(flipped[:, self._columns[::-1]], axis=1)[:, ::-1][:, self._begins]
        self._larger += np.sum(running >= _nearly(self._observed[self._order]), axis=0)

    def adjusted(self, more: int, total: int) -> FloatArray:
        """The corrected p of each hypothesis, in its column."""
        found = np.full(len(self._observed), np.nan)
        found[self._order] = np.maximum.accumulate((self._larger + more) / (total + more))
        return found


def _without_skew(observed: FloatArray, skew: FloatArray, n: FloatArray) -> FloatArray:
    """The statistics that the t without skewness have; ``skew`` is below zero where the tail is on the other side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = observed * np.sqrt((n - 1) / np.maximum(n - observed**2, 0.0))
    known = np.isfinite(t)
    nearest_t = nearer(np.where(known, t, 0.0), skew, n)
    return np.where(known & (skew < 0), nearest_t * np.sqrt(n / (n - 1 + nearest_t**2)), observed)


def _scaled(differences: FloatArray, *, seed: int) -> FloatArray:
    """What is flipped: the differences of each task, or sums of groups of very many tasks, in units of their size."""
    there = ~np.isnan(differences).all(axis=1)
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


def _steps(order: IntArray, sides: tuple[IntArray, IntArray, int] | None) -> tuple[IntArray, IntArray]:
    """All columns in the order in which they leave the competition, and where each hypothesis begins in it.

    Without ``sides`` each hypothesis leaves alone. With the two agents of each column and the leader, a hypothesis
    takes every pair of its agent with it.
    """
    if sides is None:
        return order, np.arange(len(order))
    first, second, leader = sides
    rival = np.where(first == leader, second, first)[order]
    last = np.full(max(first.max(), second.max()) + 1, len(order))
    last[rival] = np.arange(len(order))
    step = np.minimum(last[first], last[second])
    columns = np.argsort(step, kind="stable")
    columns = columns[step[columns] < len(order)]
    return columns, np.searchsorted(step[columns], np.arange(len(order)))


def _flips(tasks: int, pairs: int, *, seed: int, permutations: int) -> Iterator[FloatArray]:
    """Blocks [some flips, tasks] of signs: all of them where tasks are few, else random ones, whatever the block."""
    step = max(1, ELEMENTS_AT_ONCE // max(tasks, pairs))
    if tasks <= EXACT_UP_TO:
        numbers = np.arange(2**tasks, dtype=np.uint64)
        for begin in range(0, len(numbers), step):
            bits = (numbers[begin : begin + step, None] >> np.arange(tasks, dtype=np.uint64)) & np.uint64(1)
            yield np.subtract(1.0, 2.0 * bits, dtype=np.float64)
        return
    random = np.random.default_rng(seed)
    words = -(-tasks // 64)
    for begin in range(0, permutations, step):
        rows = min(step, permutations - begin)
        drawn = random.integers(0, 1 << 64, size=(rows, words), dtype=np.uint64).astype("<u8")
        bits = np.unpackbits(drawn.view(np.uint8), axis=1, count=tasks, bitorder="little")
        yield np.subtract(1.0, 2.0 * bits, dtype=np.float64)


def _nearly(distance: FloatArray) -> FloatArray:
    # sums in another order differ in the last digit: an equal statistic must count as equal
    return distance * (1 - 1e-9)


# --- one column at a time -------------------------------------------------------------------------------------------


def sign_flip_p(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> float | None:
    """Two-sided p of a mean difference of zero: how often flipped signs give a mean at least as far from zero."""
    return sign_flip_ps(differences[:, None], seed=seed, permutations=permutations)[0]


def sign_flip_ps(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> list[float | None]:
    """P of each column of differences [tasks, pairs], NaN where a pair has no common score; None: too few tasks.

    The statistic is the mean. Random sign flips are the same for all columns.
    """
    counts = np.sum(~np.isnan(differences), axis=0)
    ps: list[float | None] = [None] * len(counts)
    for column in np.flatnonzero((counts >= 2) & (counts <= EXACT_UP_TO)):
        ps[column] = _exact_p(differences[~np.isnan(differences[:, column]), column])
    many = np.flatnonzero(counts > EXACT_UP_TO)
    if len(many):
        as_far = _random_flips(differences[:, many], seed=seed, permutations=permutations)
        for column, count in zip(many, as_far, strict=True):
            ps[column] = (int(count) + 1) / (permutations + 1)
    return ps


def _exact_p(differences: FloatArray) -> float:
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(differences))))
    as_far = np.abs(signs @ differences) >= _nearly(np.abs(differences.sum()))
    return float(as_far.mean())


def _random_flips(differences: FloatArray, *, seed: int, permutations: int) -> npt.NDArray[np.int64]:
    """How many random flips give each column a sum at least as far from zero as its own."""
    filled = np.nan_to_num(differences)  # zero of either sign adds nothing
    observed = _nearly(np.abs(filled.sum(axis=0)))
    random = np.random.default_rng(seed)
    as_far = np.zeros(differences.shape[1], np.int64)
    step = max(1, ELEMENTS_AT_ONCE // max(differences.shape))
    for begin in range(0, permutations, step):
        flips = random.random((min(step, permutations - begin), len(differences)))
        as_far += np.sum(np.abs(np.where(flips < 0.5, -1.0, 1.0) @ filled) >= observed, axis=0)
    return as_far


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; entries without p stay None and do not count."""
    order = sorted((i for i, p in enumerate(ps) if p is not None), key=lambda i: ps[i] or 0.0)
    corrected: list[float | None] = [None] * len(ps)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * (ps[i] or 0.0)))
        corrected[i] = running
    return corrected
