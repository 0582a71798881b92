"""Tasks drawn with replacement, as counts: how often each task is in each resample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from goldless.arrays import FloatArray
from goldless.errors import UserError

ELEMENTS_AT_ONCE = 1 << 21
"""Draws held at a time: about 50 MB, and few enough matrix products that their start does not count."""


def draw_counts(tasks: int, *, seed: int, resamples: int) -> Iterator[FloatArray]:
    """Blocks [some resamples, tasks] of how often each task was drawn, ``resamples`` rows in all.

    Row r counts row r of ``numpy.random.default_rng(seed).integers(tasks, size=(resamples, tasks))``: how many rows a
    block has changes nothing. Sums over all resamples are then one matrix product. (Counting drawn integers is several
    times faster than drawing the counts from a multinomial distribution, and gives the same distribution.)
    """
    if resamples < 1:
        raise UserError(f"{resamples} resamples were asked for; at least 1 is needed, 10,000 is the default")
    if seed < 0:
        raise UserError(f"a seed of {seed} came; seeds are whole numbers from 0 on")
    random = np.random.default_rng(seed)
    step = max(1, ELEMENTS_AT_ONCE // max(1, tasks))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = random.integers(tasks, size=(rows, tasks))
        drawn += (np.arange(rows) * tasks)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * tasks).reshape(rows, tasks).astype(np.float64)
