"""Decided, undecided, or n more tasks: what the differences of two agents on common tasks show so far.

Anytime: a confidence sequence, whose intervals are valid after every task at once, so that looking after each one and
stopping when 0 is outside is allowed. Tasks must be in random order. For normal differences it is exact (the t test's
martingale with a normal mixture over effect sizes: Wang and Ramdas, arXiv 2310.03722), for others asymptotic: for many
tasks it is the sequence of Waudby-Smith et al., Annals of Statistics 52 (2024), arXiv 2103.06476, which from ten tasks
on and with a small alpha is wrong several times too often. FixedSample: Student's interval, for a number of tasks that
was fixed beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, overload

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError
from goldless.statistics.comparisons import SIGNIFICANT

AT_LEAST = 10
"""Never decide on fewer tasks: the standard deviation is estimated from them."""
TUNED_AT = 30
"""The number of tasks at which the sequence is tightest; another one costs little."""
FAR = 100
"""More than this many times the tasks that are there cannot be estimated from them."""
MOST = 10**7
"""Beyond this many tasks nothing is sought."""


class Bound(Protocol):
    """A kind of interval for the mean of differences."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    def width(self, n: FloatArray, alpha: float) -> FloatArray:
        """Half the width of the two-sided interval for n tasks, in standard deviations (n - 1) of the differences."""
        ...

    def p(self, n: FloatArray, ratio: FloatArray, alpha: float) -> FloatArray:
        """Two-sided p of n differences, from their mean in standard deviations; ``alpha``: where it matters most."""
        ...


@dataclass(frozen=True, slots=True)
class Anytime:
    """The confidence sequence.

    0 is outside when sqrt(b) ((1 + y) / (1 + b y))^(n / 2) > 1 / alpha, with y = t² / (n - 1), t Student's statistic
    and b = 1 / (1 + n rho²): when the martingale of the t test exceeds what it reaches with probability alpha, if ever.
    """

    tuned_at: int = TUNED_AT
    name: str = "confidence sequence"

    def rho_squared(self, alpha: float) -> float:
        """X / tuned_at, with x = L + ln(1 + x) and L = -2 ln(alpha): for known spread none is tighter at that task."""
        least = -2 * math.log(alpha)
        x = least
        for _ in range(100):
            x = least + math.log1p(x)
        return x / self.tuned_at

    def width(self, n: FloatArray, alpha: float) -> FloatArray:
        """Half the width in standard deviations; infinite for few tasks."""
        b = 1 / (1 + n * self.rho_squared(alpha))
        k = np.exp(-(2 * math.log(alpha) + np.log(b)) / n)
        squared = np.full(b.shape, np.inf)
        np.divide((n - 1) / n * (k - 1), 1 - k * b, out=squared, where=k * b < 1)
        return np.asarray(np.sqrt(squared), np.float64)

    def p(self, n: FloatArray, ratio: FloatArray, alpha: float) -> FloatArray:
        """One over the martingale: valid whenever one stops."""
        b = 1 / (1 + n * self.rho_squared(alpha))
        y = n / (n - 1) * ratio**2
        # (1 + y) / (1 + b y), which is 1 / b where all differences are equal
        grown = np.where(np.isinf(y), -np.log(b), np.log1p(y) - np.log1p(b * np.where(np.isinf(y), 0.0, y)))
        return np.asarray(np.exp(np.minimum(0.0, -0.5 * (np.log(b) + n * grown))), np.float64)


@dataclass(frozen=True, slots=True)
class FixedSample:
    """Student's interval for n tasks that were fixed beforehand."""

    name: str = "fixed sample"

    def width(self, n: FloatArray, alpha: float) -> FloatArray:
        """Half the width in standard deviations."""
        return np.asarray(stdtrit(n - 1, 1 - alpha / 2) / np.sqrt(n), np.float64)

    def p(self, n: FloatArray, ratio: FloatArray, alpha: float) -> FloatArray:
        """Of the t test."""
        del alpha
        return np.asarray(2 * stdtr(n - 1, -np.abs(ratio) * np.sqrt(n)), np.float64)


ANYTIME = Anytime()
FIXED_SAMPLE = FixedSample()


@dataclass(frozen=True, slots=True)
class Decision:
    """What is known about the difference of two agents."""

    first: str
    second: str
    n: int
    """Common tasks."""
    difference: float | None
    """Mean of first minus second; None: no common task."""
    low: float | None
    """The interval at ``alpha``; None: too few common tasks for one."""
    high: float | None
    better: str | None
    """The better of the two; None: undecided."""
    more_tasks: int | None
    """About this many more tasks would decide if mean and spread stay; 0: decided. None: too far to estimate."""
    alpha: float
    """After the correction for the other comparisons of the question."""

    @property
    def decided(self) -> bool:
        """Whether one of the two is better."""
        return self.better is not None

    def words(self, usd_per_task: float | None = None) -> str:
        """The decision in words, with the price of the tasks that it would take."""
        if self.better is not None:
            return f"decided: {self.better}"
        return f"undecided: {outlook(self.n, self.more_tasks, usd_per_task)}"


def outlook(n: int, more_tasks: int | None, usd_per_task: float | None = None) -> str:
    """What an undecided difference would take."""
    if more_tasks is None:
        return f"far, more than {FAR} times these tasks" if n else "no common task"
    price = "" if not usd_per_task else f", {more_tasks * usd_per_task:.2f} USD"
    return f"about {more_tasks} more task{'s' * (more_tasks != 1)}{price}"


def check_alpha(alpha: float) -> None:
    """Refuse an alpha that is not between 0 and 1."""
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be between 0 and 1, got {alpha:g}. Try 0.05")


def least_tasks(alpha: float, at_least: int = AT_LEAST) -> int:
    """The fewest tasks that can decide at ``alpha``: n differences of one sign have p = 2 / 2^n by chance."""
    return max(at_least, 2, math.floor(1 - math.log2(alpha)) + 1)


@overload
def radius(n: float, sd: float, *, alpha: float, bound: Bound = ANYTIME) -> float: ...
@overload
def radius(n: FloatArray, sd: FloatArray, *, alpha: float, bound: Bound = ANYTIME) -> FloatArray: ...
def radius(
    n: float | FloatArray, sd: float | FloatArray, *, alpha: float, bound: Bound = ANYTIME
) -> float | FloatArray:
    """Half the width of the interval of a mean of n differences with this standard deviation (n - 1)."""
    check_alpha(alpha)
    wide = bound.width(np.asarray(n, np.float64), alpha)
    # an infinite width stays one where all differences are equal
    found = np.asarray(wide * np.maximum(sd, np.finfo(np.float64).tiny))
    return float(found) if found.ndim == 0 else found


def p_values(
    n: FloatArray, mean: FloatArray, sd: FloatArray, *, alpha: float, bound: Bound = ANYTIME, at_least: int = AT_LEAST
) -> FloatArray:
    """P of means of n differences; 1 where tasks are too few to decide at ``alpha``."""
    enough = (n >= least_tasks(alpha, at_least)) & ~np.isnan(mean) & (mean != 0)
    ratio = np.full(np.shape(mean), np.inf)
    np.divide(mean, sd, out=ratio, where=sd > 0)
    found = bound.p(np.where(enough, n, 2.0), np.where(enough, ratio, 0.0), alpha)
    return np.where(enough, np.maximum(found, 2.0 ** (1 - n)), 1.0)


def tasks_needed(
    mean: float, sd: float, *, alpha: float, bound: Bound = ANYTIME, at_least: int = AT_LEAST, most: int = MOST
) -> int | None:
    """The smallest n whose interval would exclude 0 with this mean and standard deviation; None: more than ``most``."""
    check_alpha(alpha)
    given = (np.array([value]) for value in (mean, sd, float(most)))
    found = float(_needed(*given, alpha=alpha, bound=bound, least=least_tasks(alpha, at_least))[0])
    return None if np.isnan(found) else int(found)


def _needed(
    mean: FloatArray, sd: FloatArray, most: FloatArray, *, alpha: float, bound: Bound, least: int
) -> FloatArray:
    """The same for many means; NaN: more than ``most``."""

    def decided(n: FloatArray) -> BoolArray:
        return np.asarray(np.abs(mean) > radius(n, sd, alpha=alpha, bound=bound))

    low, high = np.full(mean.shape, least - 1.0), np.maximum(most, least)
    possible = decided(high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        yes = decided(np.maximum(middle, 2.0))
        low, high = np.where(yes, low, middle), np.where(yes & (middle > low), middle, high)
    return np.where(possible, high, np.nan)


def tasks_to_detect(
    effect: float,
    *,
    alpha: float = SIGNIFICANT,
    power: float = 0.8,
    bound: Bound = FIXED_SAMPLE,
    at_least: int = AT_LEAST,
) -> int | None:
    """Tasks that decide a true difference of ``effect`` standard deviations with this power; None: over ten million."""
    check_alpha(alpha)
    if not 0 < power < 1:
        raise UserError(f"power must be between 0 and 1, got {power:g}. Try 0.8")
    if not (effect > 0 and math.isfinite(effect)):
        raise UserError(f"the difference to detect must be above 0 standard deviations, got {effect:g}. Try 0.3")
    return _smallest(
        lambda n: _power(n, effect, float(bound.width(np.asarray(n, np.float64), alpha))) >= power,
        least_tasks(alpha, at_least),
        MOST,
    )


def _power(n: int, effect: float, width: float) -> float:
    """The probability that the t of n normal differences is beyond the interval, on the side of the true difference."""
    root = math.sqrt(n)
    return float(1 - nctdtr(n - 1, effect * root, width * root))


def _smallest(enough: Callable[[int], bool], low: int, most: int) -> int | None:
    """The smallest number from ``low`` to ``most`` that is enough, where every larger one is too."""
    high = low
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def more_tasks(
    n: int, mean: float, sd: float, *, alpha: float, bound: Bound = ANYTIME, at_least: int = AT_LEAST
) -> int | None:
    """About how many tasks more an undecided difference needs, at least one; None: too far to say."""
    given = (np.array([float(value)]) for value in (n, mean, sd))
    found = float(tasks_missing(*given, alpha=alpha, bound=bound, at_least=at_least)[0])
    return None if np.isnan(found) else int(found)


def tasks_missing(
    n: FloatArray, mean: FloatArray, sd: FloatArray, *, alpha: float, bound: Bound = ANYTIME, at_least: int = AT_LEAST
) -> FloatArray:
    """The same for many differences; NaN: too far to say."""
    check_alpha(alpha)
    needed = _needed(mean, sd, n * FAR, alpha=alpha, bound=bound, least=least_tasks(alpha, at_least))
    return np.where(n > 1, np.maximum(1.0, needed - n), np.nan)


def decide(
    first: str,
    second: str,
    differences: FloatArray,
    *,
    alpha: float = SIGNIFICANT,
    bound: Bound = ANYTIME,
    at_least: int = AT_LEAST,
) -> Decision:
    """Decide between two agents by their differences (first minus second), one per task; NaN: no common score."""
    check_alpha(alpha)
    there = differences[~np.isnan(differences)]
    n = len(there)
    mean, sd = (float(there.mean()) if n else None), (float(there.std(ddof=1)) if n > 1 else math.nan)
    return decision(first, second, n, mean, sd, alpha=alpha, bound=bound, at_least=at_least)


def decision(
    first: str,
    second: str,
    n: int,
    mean: float | None,
    sd: float,
    *,
    alpha: float = SIGNIFICANT,
    bound: Bound = ANYTIME,
    at_least: int = AT_LEAST,
) -> Decision:
    """Decide by the mean and standard deviation of n differences."""
    if mean is None or n < 2:
        return Decision(first, second, n, mean, None, None, None, None, alpha)
    wide = radius(n, sd, alpha=alpha, bound=bound)
    low, high = (mean - wide, mean + wide) if math.isfinite(wide) else (None, None)
    if n >= least_tasks(alpha, at_least) and abs(mean) > wide:
        return Decision(first, second, n, mean, low, high, first if mean > 0 else second, 0, alpha)
    more = more_tasks(n, mean, sd, alpha=alpha, bound=bound, at_least=at_least)
    return Decision(first, second, n, mean, low, high, None, more, alpha)
