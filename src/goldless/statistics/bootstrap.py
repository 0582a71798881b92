"""Intervals by resampling tasks: responses to one task are not independent, tasks are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.statistics.draws import draw_counts

Method = Literal["bootstrap-t", "t"]
FEW_TASKS = 10
"""Below this many tasks the interval is Student's t: too few different resamples exist to learn a distribution from."""
FARTHEST = 2.0
"""A resampled t beyond this many times Student's quantile counts as lying there."""
NO_SPREAD = 1e-12
"""A resampled variance below this share of the variance of the scores is rounding: all drawn scores are equal."""
MEANS_AT_ONCE = 1 << 23


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
    method: Method | None = None
    """How the interval was made; None: there is none."""


def task_intervals(
    values: FloatArray, *, seed: int = 0, resamples: int = 10_000, level: float = 0.95
) -> list[Interval]:
    """Mean and interval of each column of ``values`` [tasks, agents], where NaN marks a missing score.

    From ten tasks on, tasks are drawn with replacement, the same draw for all agents, and the interval is
    mean - q se, with q the quantiles of (resampled mean - mean) / (resampled se): the studentised bootstrap, or
    "bootstrap-t" (Efron 1981). It allows for skewed scores, as a percentile interval does not. Where few tasks carry
    all the spread, draws without them run off towards infinity, so q is held within twice Student's t. With two to
    nine tasks the interval is Student's t.
    """
    values = _checked(values, level)
    counts = np.sum(~np.isnan(values), axis=0)
    farthest = _student(np.maximum(counts, 2), level)
    ends = np.stack([-farthest, farthest])
    many = np.flatnonzero(counts >= FEW_TASKS)
    step = max(1, MEANS_AT_ONCE // max(1, resamples))
    for begin in range(0, len(many), step):
        some = many[begin : begin + step]
        limits = FARTHEST * farthest[some]
        studentised = _studentised_means(values[:, some], limits, seed=seed, resamples=resamples)
        ends[:, some] = _quantiles(studentised, level)
    return [_interval(values[:, j], ends[:, j], level) for j in range(values.shape[1])]


def _checked(values: FloatArray, level: float) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise UserError(f"scores of shape {values.shape} came; a table [tasks, agents] is needed")
    if np.isinf(values).any():
        raise UserError("an infinite score came; scores are finite numbers, or NaN where one is missing")
    if not 0 < level < 1:
        raise UserError(f"a level of {level} came; it lies between 0 and 1, such as 0.95")
    return values


def _student(n: npt.NDArray[np.int_], level: float) -> FloatArray:
    quantiles: FloatArray = stdtrit(n - 1, (1 + level) / 2)
    return quantiles


def _interval(column: FloatArray, ends: FloatArray, level: float) -> Interval:
    used = column[~np.isnan(column)]
    n = len(used)
    if n == 0:
        return Interval(None, None, None, 0, level, "no task was scored")
    method: Method = "bootstrap-t" if n >= FEW_TASKS else "t"
    if n > 1 and used.min() == used.max():
        # the sum of equal numbers, divided, is not always that number
        value = float(used[0])
        return Interval(value, value, value, n, level, method=method)
    mean = float(used.mean())
    if n == 1:
        return Interval(mean, None, None, 1, level, "no interval: n = 1")
    error = used.std(ddof=1) / np.sqrt(n)
    return Interval(mean, float(mean - ends[1] * error), float(mean - ends[0] * error), n, level, method=method)


def _studentised_means(values: FloatArray, limits: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """(Resampled mean - mean) / its resampled standard error, within the limits: [agents, resamples]."""
    tasks, agents = values.shape
    present = ~np.isnan(values)
    scores = _standardised(values, present).T
    complete = bool(present.all())
    # all sums a resample needs, one above the other: one matrix product with the counts gives them for many resamples
    terms = np.vstack([scores, scores**2, *([] if complete else [present.T.astype(np.float64)])])
    studentised = np.empty((agents, resamples))
    begin = 0
    for counts in draw_counts(tasks, seed=seed, resamples=resamples):
        sums = terms @ counts.T
        drawn = np.float64(tasks) if complete else sums[2 * agents :]
        end = begin + len(counts)
        block = _studentise(sums[:agents], sums[agents : 2 * agents], drawn)
        np.clip(block, -limits[:, None], limits[:, None], out=studentised[:, begin:end])
        begin = end
    return studentised


def _standardised(values: FloatArray, present: npt.NDArray[np.bool_]) -> FloatArray:
    """Scores less their mean in standard deviations, zero where one is missing: sums of squares lose no digits."""
    means = np.nanmean(values, axis=0)
    deviations = np.where(present, values - means, 0.0)
    spread = np.sqrt((deviations**2).sum(axis=0) / present.sum(axis=0))
    standardised: FloatArray = deviations / np.where(spread > 0, spread, 1.0)
    return standardised


def _studentise(sums: FloatArray, squares: FloatArray, drawn: FloatArray | np.float64) -> FloatArray:
    """Mean / standard error of draws with these sums; infinite without spread, NaN for a draw of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / drawn
        variances = squares / drawn - means**2
        flat = variances < NO_SPREAD
        studentised: FloatArray = means * np.sqrt((drawn - 1) / variances)
    # equal scores away from the mean are infinitely far from it in their own spread; on the mean they are nowhere else
    away = np.abs(means[flat]) > np.sqrt(NO_SPREAD)
    studentised[flat] = np.where(away, np.copysign(np.inf, means[flat]), 0.0)
    return studentised


def _quantiles(studentised: FloatArray, level: float) -> FloatArray:
    """The two ends of each row, between neighbours in proportion: [2, agents]."""
    ordered = np.sort(studentised, axis=1)
    # a draw that happens to hold none of an agent's tasks has no mean; NaN is sorted last
    held = ordered.shape[1] - np.isnan(ordered).sum(axis=1)
    position = np.array([[(1 - level) / 2], [(1 + level) / 2]]) * (held - 1)
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, held - 1)
    row = np.arange(len(ordered))
    ends: FloatArray = ordered[row, below] + (position - below) * (ordered[row, above] - ordered[row, below])
    return ends
