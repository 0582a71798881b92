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
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError
from goldless.statistics.comparisons import SIGNIFICANT
from goldless.statistics.skewness import believed, pair_times, skewness

AT_LEAST = 10
"""Never decide on fewer tasks: the standard deviation is estimated from them."""
TUNED_AT = 30
"""The number of tasks at which the sequence is tightest; another one costs little."""
POWER = 0.8
"""The probability with which a number of tasks decides."""
LOW_END = 0.842
"""Standard errors below the difference seen at which its true size is assumed: the lower end of 20%."""
FAR = 10
"""More than this many times the tasks that are there cannot be estimated from them."""
MOST = 10**7
"""Beyond this many tasks nothing is sought."""


@dataclass(frozen=True)
class Anytime:
    """The confidence sequence.

    0 is outside when sqrt(b) ((1 + y) / (1 + b y))^(n / 2) > 1 / alpha, with y = t² / (n - 1), t Student's statistic
    and b = 1 / (1 + n rho²): when the martingale of the t test exceeds what it reaches with probability alpha, if ever.
    """

    name: str = "confidence sequence"

    def rho_squared(self, alpha: float) -> float:
        """X / TUNED_AT, with x = L + ln(1 + x) and L = -2 ln(alpha): for known spread none is tighter at that task."""
        least = -2 * math.log(alpha)
        x = least
        for _ in range(100):
            x = least + math.log1p(x)
        return x / TUNED_AT

    def width(self, n: FloatArray, alpha: float) -> FloatArray:
        """Half the width of the two-sided interval for n tasks, in standard deviations (n - 1) of the differences.

        Infinite for few tasks.
        """
        b = 1 / (1 + n * self.rho_squared(alpha))
        k = np.exp(-(2 * math.log(alpha) + np.log(b)) / n)
        squared = np.full(b.shape, np.inf)
        np.divide((n - 1) / n * (k - 1), 1 - k * b, out=squared, where=k * b < 1)
        return np.asarray(np.sqrt(squared), np.float64)

    def p(self, n: FloatArray, ratio: FloatArray, alpha: float) -> FloatArray:
        """Two-sided p of n differences, from their mean in standard deviations; ``alpha``: where it matters most.

        One over the martingale: valid whenever one stops.
        """
        b = 1 / (1 + n * self.rho_squared(alpha))
        y = n / (n - 1) * ratio**2
        # (1 + y) / (1 + b y), which is 1 / b where all differences are equal
        grown = np.where(np.isinf(y), -np.log(b), np.log1p(y) - np.log1p(b * np.where(np.isinf(y), 0.0, y)))
        return np.asarray(np.exp(np.minimum(0.0, -0.5 * (np.log(b) + n * grown))), np.float64)


@dataclass(frozen=True)
class FixedSample:
    """Student's interval for n tasks that were fixed beforehand."""

    name: str = "fixed sample"

    def width(self, n: FloatArray, alpha: float) -> FloatArray:
        return np.asarray(stdtrit(n - 1, 1 - alpha / 2) / np.sqrt(n), np.float64)

    def p(self, n: FloatArray, ratio: FloatArray, alpha: float) -> FloatArray:  # noqa: ARG002 - as of every bound
        return np.asarray(2 * stdtr(n - 1, -np.abs(ratio) * np.sqrt(n)), np.float64)


@dataclass(frozen=True)
class Tolerance:
    """A difference of scores that does not matter yet."""

    value: float
    in_sd: bool = False
    """True if it is in standard deviations of scores; else in the metric's unit."""

    @classmethod
    def parse(cls, given: str | float | Tolerance, name: str = "tolerance") -> Tolerance:
        """Parse 0.5 or 0.2sd; ``name``: of the option, for a message."""
        if isinstance(given, Tolerance):
            return given
        written = str(given).strip().lower()
        number = written.removesuffix("sd")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise UserError(
                f"{name} must be a number of at least 0 in the metric's unit, or in standard deviations such as 0.2sd, "
                f"got {given!r}"
            )
        return cls(value, written != number)

    def __str__(self) -> str:
        return f"{self.value:g}{'sd' * self.in_sd}"

    def of(self, scores: FloatArray) -> float:
        """The tolerance in the metric's unit, by the spread of these scores."""
        spread = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
        return self.value * spread if self.in_sd else self.value


Bound = Anytime | FixedSample
ANYTIME = Anytime()
FIXED_SAMPLE = FixedSample()


def outlook(n: int, more: int | None, usd_per_task: float | None = None, *, skewed: bool = False) -> str:
    """A sentence about what an undecided difference of ``n`` tasks would take; ``more``: the number of tasks."""
    if skewed:
        return f"{n} tasks are too few for scores this skewed"
    if more is None:
        return f"{n} tasks cannot tell how many more it would take" if n else "no common task"
    price = f", {more * usd_per_task:.2f} USD" if usd_per_task else ""
    return f"about {more} more task{'s' * (more != 1)}{price}"


def least_tasks(alpha: float, at_least: int = AT_LEAST) -> int:
    """The fewest tasks that can decide at ``alpha``: n differences of one sign have p = 2 / 2^n by chance."""
    return max(at_least, 2, math.floor(1 - math.log2(alpha)) + 1)


def radius(n: float | FloatArray, sd: float | FloatArray, *, alpha: float, bound: Bound = ANYTIME) -> FloatArray:
    """Half the width of the interval of a mean of n differences with this standard deviation (n - 1)."""
    wide = bound.width(np.asarray(n, np.float64), alpha)
    # an infinite width stays one where all differences are equal
    return np.asarray(wide * np.maximum(sd, np.finfo(np.float64).tiny))


def p_values(
    n: FloatArray, mean: FloatArray, sd: FloatArray, *, alpha: float, bound: Bound = ANYTIME, at_least: int = AT_LEAST
) -> FloatArray:
    """P of means of n differences; 1 where tasks are too few to decide at ``alpha``."""
    enough = (n >= least_tasks(alpha, at_least)) & ~np.isnan(mean) & (mean != 0)
    ratio = np.full(np.shape(mean), np.inf)
    np.divide(mean, sd, out=ratio, where=sd > 0)
    found = bound.p(np.where(enough, n, 2.0), np.where(enough, ratio, 0.0), alpha)
    return np.where(enough, np.maximum(found, 2.0 ** (1 - n)), 1.0)


def tasks_to_detect(
    effect: float,
    *,
    alpha: float = SIGNIFICANT,
    power: float = POWER,
    bound: Bound = FIXED_SAMPLE,
    at_least: int = AT_LEAST,
) -> int | None:
    """Tasks that decide a true difference of ``effect`` standard deviations with this power; None: over ten million."""
    most, least = np.array([float(MOST)]), least_tasks(alpha, at_least)
    found = _tasks_for(np.array([effect]), most, least, alpha=alpha, power=power, bound=bound)
    return None if np.isnan(found[0]) else int(found[0])


def _tasks_for(
    effects: FloatArray, most: FloatArray, least: int, *, alpha: float, power: float, bound: Bound
) -> FloatArray:
    """The fewest tasks that decide each true effect with this power; NaN: more than ``most``."""

    def enough(n: FloatArray) -> BoolArray:
        """True if t of n normal differences is as often beyond the interval, on the side of the true difference."""
        root = np.sqrt(n)
        missed = nctdtr(n - 1, effects * root, bound.width(n, alpha) * root)
        return np.asarray(1 - missed >= power)

    low, high = np.full(effects.shape, least - 1.0), np.full(effects.shape, float(least))
    while (growing := ~enough(high) & (high < most)).any():
        low, high = np.where(growing, high, low), np.where(growing, np.minimum(2 * high, most), high)
    possible = enough(high) & (high <= most)
    while (high - low > 1).any():
        middle = (low + high) // 2
        yes = enough(np.maximum(middle, 2.0))
        low, high = np.where(yes, low, middle), np.where(yes & (middle > low), middle, high)
    return np.where(possible, high, np.nan)


def more_tasks(
    differences: FloatArray, *, alpha: float, bound: Bound = FIXED_SAMPLE, at_least: int = AT_LEAST
) -> int | None:
    """Number of further tasks that it takes until the differences of one pair are decided; see ``tasks_missing``."""
    count = len(differences)
    if count < 2:
        return None
    moments = count, differences.mean(), differences.std(ddof=1), skewness(differences[:, None])[0]
    n, mean, sd, skew = (np.array([float(moment)]) for moment in moments)
    times = pair_times(n)
    return tasks_missing(n, mean, sd, skew, alpha=alpha, bound=bound, at_least=at_least, times=times)[0]


def tasks_missing(
    n: FloatArray,
    mean: FloatArray,
    sd: FloatArray,
    skew: FloatArray,
    *,
    alpha: float,
    bound: Bound = ANYTIME,
    at_least: int = AT_LEAST,
    times: FloatArray | None = None,
) -> list[int | None]:
    """The number of tasks more, at least one, that decides each difference with a power of 80%.

    The true difference is taken to be the lower 20% end of the one that was seen, less half of what skewness may have
    added: more tasks show their tail. ``times`` is how often the skewness counts in the test that decides, as in
    ``skewness.further``. None: by that it would take more than ``FAR`` times the tasks that are there, or nobody knows.
    """
    some = np.maximum(n, 2.0)
    likely = (np.abs(mean) + np.abs(believed(some, mean, sd, skew, times))) / 2
    effects = np.full(np.shape(mean), np.inf)
    np.divide(likely, sd, out=effects, where=sd > 0)
    effects = effects - LOW_END / np.sqrt(some)
    known = (n > 1) & (effects > 0) & (mean != 0)
    least = least_tasks(alpha, at_least)
    # a difference without spread is decided as soon as any is; beyond twenty standard deviations nothing changes
    total = np.full(np.shape(mean), np.nan)
    total[known] = _tasks_for(
        np.minimum(effects[known], 20.0), FAR * some[known], least, alpha=alpha, power=POWER, bound=bound
    )
    return [None if np.isnan(one) else max(1, int(one - before)) for one, before in zip(total, n, strict=True)]
