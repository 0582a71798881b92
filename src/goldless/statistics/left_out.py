"""Intervals of numbers that are no means: from what leaving each task out does to them.

A correlation over all responses, or a reliability, is no mean over tasks. Its values without each task in turn say how
far each task pulls it: value + (n - 1) (mean of the values without a task - value without task t) has the number itself
as its mean over tasks and, to first order, its spread (Tukey's pseudo-values, centred). The interval is that of this
mean, by the same studentised bootstrap over tasks as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goldless.arrays import FloatArray, IntArray
from goldless.errors import UserError
from goldless.statistics.bootstrap import Interval, task_intervals

ONE_BY_ONE = 200
"""Up to this many tasks each is left out on its own; of more, a hundredth at a time."""
GROUPS = 100


def groups_left_out(task: IntArray) -> tuple[IntArray, int]:
    """The group that each row is left out with, numbered from 0, and the number of tasks.

    Rows of one task are in one group: on its own where there are at most 200 tasks, else with every hundredth other.
    """
    names, code = np.unique(task, return_inverse=True)
    return (code if len(names) <= ONE_BY_ONE else code % GROUPS).astype(np.int64), len(names)


def left_out_intervals(
    values: Sequence[float] | FloatArray,
    without: FloatArray,
    *,
    n_tasks: int,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    lowest: float = -1.0,
    highest: float = 1.0,
) -> list[Interval]:
    """The interval of each value, from its values [groups, values] without each group of tasks.

    Ends lie within ``lowest`` and ``highest``. A value of NaN is not defined and has none.
    """
    given, without = np.asarray(values, dtype=np.float64), np.asarray(without, dtype=np.float64)
    if without.ndim != 2 or without.shape[1:] != given.shape:
        raise UserError(f"{given.shape} values came with {without.shape} of them left out; [groups, values] is needed")
    groups = len(without)
    bad = np.isnan(given) | np.isnan(without).any(axis=0)
    pulled = np.where(bad, 0.0, given + (groups - 1) * (without.mean(axis=0) - without))
    found = task_intervals(pulled, seed=seed, resamples=resamples, level=level)
    return [
        _interval(value, interval, n_tasks, undefined=bool(undefined), ends=(lowest, highest))
        for value, interval, undefined in zip(given.tolist(), found, bad, strict=True)
    ]


def _interval(
    value: float, interval: Interval, n_tasks: int, *, undefined: bool, ends: tuple[float, float]
) -> Interval:
    if np.isnan(value):
        return Interval(None, None, None, n_tasks, interval.level, "not defined")
    if undefined:
        return Interval(value, None, None, n_tasks, interval.level, "no interval: not defined without one of the tasks")
    low, high = (None if end is None else min(ends[1], max(ends[0], end)) for end in (interval.low, interval.high))
    return replace(interval, mean=value, low=low, high=high, n=n_tasks)
