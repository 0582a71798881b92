"""Resampling of tasks for intervals and tests, the same for everything that one call measures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from goldless.arrays import FloatArray
from goldless.runs.options import Options, check_options
from goldless.statistics.bootstrap import Draws, summable


def draws_of(options: Options) -> Draws:
    """The resampling settings of the options, which are checked and need not name a metric."""
    check_options(options if options.metrics else replace(options, metrics=Options().metrics))
    return {"seed": options.seed, "resamples": options.resamples, "level": options.level}


def agent_means(tables: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Agents' means over drawn tasks on which both tables [2, tasks, agents] have a value: [draws, agents] for each.

    ``counts``: how often each task is drawn, [draws, tasks]. NaN: no such task.
    """
    both = ~np.isnan(tables).any(axis=0)
    drawn = counts @ both
    means = []
    for table in np.where(both, tables, 0.0):
        mean = np.full(drawn.shape, np.nan)
        np.divide(counts @ summable(table.T).T, drawn, out=mean, where=drawn > 0)
        means.append(mean)
    return means[0], means[1]
