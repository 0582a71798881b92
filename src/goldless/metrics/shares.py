"""A share of several judgements a task, with an interval that allows for judgements of one task being alike.

The share is the mean over all judgements, Σ S_t / Σ N_t with the sum S_t of N_t judgements on task t. Its interval is
that of the mean over tasks of share + (S_t - share N_t) / mean N: the same value, and the same spread to first order
however many judgements a task has. Where all judgements are 0 or 1 alike, resampling sees no spread, and the interval
is Wilson's with one trial a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from goldless.arrays import FloatArray, IntArray
from goldless.statistics.bootstrap import Interval, task_intervals

ShareMethod = Literal["bootstrap-t", "t", "wilson"]


@dataclass(frozen=True, slots=True)
class Share:
    """A mean over judgements with its interval."""

    value: float | None
    """None: no judgement is there."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    n: int
    """Judgements used."""
    n_tasks: int
    """Tasks they are on."""
    level: float
    method: ShareMethod | None = None
    note: str | None = None


def task_shares(
    values: FloatArray,
    task: IntArray,
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> list[Share]:
    """Mean of each row of values [judges, judgements] but for NaN, with intervals that end at ``lowest``, ``highest``.

    All rows are on the same tasks [judgements], which are resampled for all of them alike.
    """
    names, code = np.unique(task, return_inverse=True)
    present = ~np.isnan(values)
    linear = np.full((len(names), len(values)), np.nan)
    for row, kept in enumerate(present):
        counts = np.bincount(code[kept], minlength=len(names)).astype(np.float64)
        on = counts > 0
        if on.any():
            mean = values[row, kept].mean()
            sums = np.bincount(code[kept], weights=values[row, kept], minlength=len(names))
            linear[on, row] = mean + (sums[on] - mean * counts[on]) / counts[on].mean()
    found = task_intervals(linear, seed=seed, resamples=resamples, level=level)
    return [_share(values[row, present[row]], interval, lowest, highest) for row, interval in enumerate(found)]


def _share(used: FloatArray, interval: Interval, lowest: float, highest: float) -> Share:
    if not len(used):
        return Share(None, None, None, 0, 0, interval.level, note="nothing was judged")
    mean, n, level = float(used.mean()), len(used), interval.level
    if used.min() == used.max() and mean in {lowest, highest}:
        ends = wilson(mean == highest, interval.n, level=level)
        low, high = (lowest + (highest - lowest) * end for end in ends)
        return Share(mean, low, high, n, interval.n, level, "wilson")
    below, above = (None if end is None else min(highest, max(lowest, end)) for end in (interval.low, interval.high))
    return Share(mean, below, above, n, interval.n, level, interval.method, interval.note)


def wilson(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share of n independent trials."""
    z = float(ndtri((1 + level) / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    return max(0.0, centre - half), min(1.0, centre + half)
