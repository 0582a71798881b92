"""The sign-flip test of a mean difference, and the interval of all means that it does not reject.

The signs of the differences are flipped, and the share of flips whose statistic reaches the data's is p. The statistic
is the sum of the differences divided by the root of the sum of their squares, which flips do not change: it grows with
Student's t and is at most √n. Flipping takes for granted that differences are as often above their mean as below, so
the data's own statistic is that of the t that skewness leaves (``skewness.nearer``, with 3 + 80 / n).

``MeanTest`` asks the same question of any mean: of the differences less that mean. Its interval are the means with a p
of at least alpha. So p, interval and verdict cannot contradict each other: ``compare`` and ``gate`` take all three from
here, and the p of a pair of ``score`` is the one at zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from goldless.arrays import FloatArray
from goldless.statistics.bootstrap import Draws, Estimate, Limits, exact_ends, group_sums, task_groups
from goldless.statistics.skewness import nearer, pair_times, skewness

EXACT_UP_TO = 13
"""Up to this many tasks, all sign flips are tried (4,096, and as many the other way round); beyond, random ones."""
ELEMENTS_AT_ONCE = 1 << 21
FLIPS_PER_ALPHA, MOST_FLIPS = 20, 1_000_000
"""So many times 1 / alpha random flips at least, and so many at most."""
SAME = 1e-12
"""Differences that lie within this share of the largest differ by rounding."""
HALVINGS = 50
"""Steps of the search for an end of an interval."""
FARTHEST = 60
"""Doublings of a standard error beyond which no end is sought."""


def flip_blocks(tasks: int, columns: int, *, seed: int, permutations: int) -> Iterator[FloatArray]:
    """Blocks [some flips, tasks] of signs: all where tasks are few, but one way round; else random ones."""
    step = max(1, ELEMENTS_AT_ONCE // max(tasks, columns))
    if tasks <= EXACT_UP_TO:
        numbers = np.arange(2 ** max(0, tasks - 1), dtype=np.uint64)
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


def data_among_flips(tasks: int) -> int:
    """0: the flips hold the data itself; 1: a random sample of flips does not, and the data counts as one of them."""
    return 0 if tasks <= EXACT_UP_TO else 1


def nearly(statistic: FloatArray) -> FloatArray:
    """The statistic less a rounding error: sums in another order differ in the last digit, and equal must be equal."""
    return statistic * (1 - 1e-9) - 1e-12


def without_skew(statistic: FloatArray, skew: FloatArray, n: FloatArray, times: FloatArray | None = None) -> FloatArray:
    """The statistics of the t that skewness leaves; ``skew`` is below zero where the tail is on the other side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = statistic * np.sqrt((n - 1) / np.maximum(n - statistic**2, 0.0))
    known = np.isfinite(t)
    nearest_t = nearer(np.where(known, t, 0.0), skew, n, times)
    return np.where(known & (skew < 0), nearest_t * np.sqrt(n / (n - 1 + nearest_t**2)), statistic)


def alpha_of(level: float) -> float:
    """1 - level without the rounding error of the difference: p may be equal to it."""
    return round(1 - level, 12)


class MeanTest:
    """The test of one pair's differences; NaN where a task lacks one."""

    def __init__(self, differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> None:
        values = np.asarray(differences, np.float64)
        values = values[~np.isnan(values)]
        self.n = len(values)
        equal = self.n > 0 and bool(np.ptp(values) <= SAME * np.abs(values).max())
        # the sum of equal numbers, divided, is not always that number
        self.mean = float(values[0] if equal else values.mean()) if self.n else float("nan")
        around = np.zeros(self.n) if equal else values - self.mean
        self._squares = float(around @ around)
        self._skew = float(skewness(around[:, None])[0])
        parts = np.stack([around, np.ones(self.n)])
        groups = task_groups(self.n, seed=seed)
        if groups is not None:
            parts = group_sums(parts, groups)
        units = parts.shape[1]
        blocks = flip_blocks(units, 2, seed=seed, permutations=permutations)
        flipped = np.concatenate([signs @ parts.T for signs in blocks])
        self._around, self._ones = flipped[:, 0], flipped[:, 1]
        self._extra = data_among_flips(units)

    @property
    def smallest_p(self) -> float:
        """The smallest p that these flips can give."""
        return max(1, self._extra) / (len(self._ones) + self._extra)

    @property
    def equal(self) -> bool:
        """True if all differences are the same."""
        return self._squares == 0

    def p(self, mean: float = 0.0, *, skewed: bool = True) -> float | None:
        """Two-sided p of this true mean; None: fewer than two tasks. ``skewed``: whether skewness counts."""
        if self.n < 2:
            return None
        away = self.mean - mean
        size = float(np.sqrt(self._squares + self.n * away**2))
        if size == 0:
            return 1.0
        statistic, n = np.array([self.n * abs(away) / size]), np.array([float(self.n)])
        if skewed:
            against = np.array([self._skew * np.sign(away)])
            statistic = without_skew(statistic, against, n, pair_times(n))
        reached = np.abs(self._around + away * self._ones) >= nearly(statistic) * size
        return float((np.count_nonzero(reached) + self._extra) / (len(reached) + self._extra))

    def end(self, side: Literal[-1, 1], alpha: float, tested: float = 0.0) -> float | None:
        """The lowest (-1) or highest (1) mean with a p of at least alpha; None: these flips reject no mean.

        ``tested``: a mean that is beyond the end exactly if its own p is below alpha.
        """
        if self.n < 2 or self.smallest_p >= alpha:
            return None
        if self.equal:
            return self.mean

        def rejected(mean: float) -> bool:
            p = self.p(mean)
            return p is not None and p < alpha

        inside, outside = self.mean, None
        if side * (tested - self.mean) > 0:
            inside, outside = (inside, tested) if rejected(tested) else (tested, None)
        step = float(np.sqrt(self._squares)) / self.n
        for doubling in range(FARTHEST):
            if outside is not None:
                break
            further = inside + side * step * 2.0**doubling
            outside = further if rejected(further) else None
        if outside is None:
            return None
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejected(middle) else (middle, outside)
        return inside

    def interval(
        self, level: float, limits: Limits | None = None, tested: tuple[float, float] = (0.0, 0.0)
    ) -> Estimate:
        """The mean with the interval of all means that are not rejected at 1 - level; ``tested`` as in ``end``.

        Where all differences are equal, no flip says how far the mean may be from them. With ``limits`` the interval is
        the exact one: it allows for tasks at a limit that were not seen.
        """
        if self.n == 0:
            return Estimate(None, None, None, 0, level, "no task was scored")
        if self.n == 1:
            return Estimate(self.mean, None, None, 1, level, "no interval: n = 1")
        if self.equal and limits is not None:
            ends = exact_ends(np.full(self.n, self.mean), limits, level)
            return Estimate(self.mean, *ends, self.n, level, method="exact")
        alpha = alpha_of(level)
        low, high = self.end(-1, alpha, tested[0]), self.end(1, alpha, tested[1])
        if low is None or high is None:
            note = f"no interval: {self.n} tasks are too few for a sign-flip test at {alpha:.3g}"
            return Estimate(self.mean, None, None, self.n, level, note)
        found = Estimate(self.mean, low, high, self.n, level, method="sign-flips")
        return found if limits is None else found.within(*limits)


def mean_test(differences: FloatArray, draws: Draws) -> MeanTest:
    """The test with as many flips as the level needs."""
    needed = min(FLIPS_PER_ALPHA / alpha_of(draws["level"]), MOST_FLIPS)
    return MeanTest(differences, seed=draws["seed"], permutations=max(draws["resamples"], int(needed)))
