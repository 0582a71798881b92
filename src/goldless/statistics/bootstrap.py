"""Intervals by resampling tasks: responses to one task are not independent, tasks are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

FloatArray = npt.NDArray[np.float64]
ELEMENTS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over tasks with its interval."""

    mean: float | None
    """None: no task was scored."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    n: int
    """Tasks used."""
    level: float
    note: str | None = None


def task_intervals(
    values: FloatArray, *, seed: int = 0, resamples: int = 10_000, level: float = 0.95
) -> list[Interval]:
    """Mean and interval of each column of ``values`` [tasks, agents], where NaN marks a missing score.

    Tasks are drawn with replacement, the same draw for all agents. The percentile interval is widened to the
    confidence level that Student's t would give with as many tasks (Hesterberg 2015, "expanded percentile"): the plain
    one is too narrow for few tasks.
    """
    means = _resampled_means(values, seed=seed, resamples=resamples)
    return [_interval(values[:, j], means[:, j], level) for j in range(values.shape[1])]


def _interval(column: FloatArray, resampled: FloatArray, level: float) -> Interval:
    used = column[~np.isnan(column)]
    n = len(used)
    if n == 0:
        return Interval(None, None, None, 0, level, "no task was scored")
    mean = float(used.mean())
    if n == 1:
        return Interval(mean, None, None, 1, level, "no interval: n = 1")
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2))
    # a draw that happens to hold none of this agent's tasks has no mean
    drawn = resampled[~np.isnan(resampled)]
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(mean, float(low), float(high), n, level)


def _resampled_means(values: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """Mean of every column in every resample: [resamples, agents]."""
    tasks, agents = values.shape
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    random = np.random.default_rng(seed)
    means = np.empty((resamples, agents))
    step = max(1, ELEMENTS_AT_ONCE // max(1, tasks))
    for begin in range(0, resamples, step):
        end = min(begin + step, resamples)
        # how often each task was drawn, instead of the draws themselves: one matrix product gives all sums
        counts = random.multinomial(tasks, np.full(tasks, 1 / tasks), size=end - begin).astype(np.float64)
        with np.errstate(invalid="ignore"):
            means[begin:end] = (counts @ filled) / (counts @ present)
    return means
