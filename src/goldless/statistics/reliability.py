"""Reliability: how far raters agree on the same unit, beyond what chance would give.

Krippendorff's alpha = 1 - D_o / D_e. D_o is the mean squared distance of two values of the same unit, D_e that of any
two values; units with one value say nothing and are left out (K. Krippendorff, "Computing Krippendorff's
Alpha-Reliability", 2011). Squared distances: nominal 0 or 1; interval (a - b)²; ordinal the square of the difference of
their ranks, ties shared, among all values used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import numpy as np

from goldless.arrays import FloatArray, IntArray
from goldless.errors import UserError, nearest
from goldless.statistics.bootstrap import (
    LEVEL,
    Draws,
    Interval,
    Method,
    groups_left_out,
    left_out_intervals,
    task_intervals,
)

Measurement = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class Reliability:
    """Krippendorff's alpha with its interval: 1 all agree, 0 as by chance, below 0 worse than chance."""

    alpha: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    measurement: Measurement
    n_units: int
    """Units with values from two or more raters."""
    n_values: int
    """Values of these units."""
    unpaired: int
    """Values left out because no other rater gave the same unit a value."""
    n_tasks: int
    level: float
    method: Method | None = None
    note: str | None = None


def krippendorff_alpha(
    values: FloatArray,
    unit: IntArray,
    *,
    task: IntArray | None = None,
    measurement: Measurement = "ordinal",
    **draws: Unpack[Draws],
) -> Reliability:
    """Alpha of values, each by one rater on one unit; ``task`` names the task of each value (None: units are tasks).

    A rater gives a unit one value. Alpha treats raters as interchangeable, so their names are not needed.
    """
    if measurement not in get_args(Measurement):
        known = get_args(Measurement)
        raise UserError(
            f"measurement must be one of {', '.join(known)}, got {measurement!r}{nearest(str(measurement), known)}"
        )
    values, unit = np.asarray(values, dtype=np.float64), np.asarray(unit)
    task = unit if task is None else np.asarray(task)
    if values.ndim != 1 or not len(values) == len(unit) == len(task):
        raise UserError(
            "values, units and tasks must be columns of the same length, "
            f"got shapes {values.shape}, {unit.shape} and {task.shape}"
        )
    if not np.isfinite(values).all():
        raise UserError("values must be finite numbers, got NaN or infinity. Leave out units that were not rated")
    code = np.unique(unit, return_inverse=True)[1]
    paired = np.bincount(code)[code] > 1 if len(code) else np.zeros(0, dtype=np.bool_)
    values, code, task = values[paired], code[paired], task[paired]
    group, n_tasks = groups_left_out(task)
    whole = _alpha(values, code, measurement)
    n_units, unpaired = len(np.unique(code)), int(np.sum(~paired))
    if np.isnan(whole):
        level = draws.get("level", LEVEL)
        note = "no unit was rated by two raters" if not len(values) else "all values are equal"
        return Reliability(
            None,
            None,
            None,
            measurement,
            n_units,
            len(values),
            unpaired,
            n_tasks,
            level,
            note=f"not defined: {note}",
        )
    groups = int(group.max()) + 1
    without = [_alpha(values[group != g], code[group != g], measurement) for g in range(groups)]
    left_out = np.array(without)[:, None]
    interval = left_out_intervals([whole], left_out, n_tasks=n_tasks, lowest=-np.inf, **draws)[0]
    return Reliability(
        whole,
        interval.low,
        interval.high,
        measurement,
        n_units,
        len(values),
        unpaired,
        n_tasks,
        interval.level,
        interval.method,
        interval.note,
    )


def alpha_within_tasks(
    values: FloatArray, unit: IntArray, task: IntArray, *, measurement: Measurement = "ordinal", **draws: Unpack[Draws]
) -> Interval:
    """Mean over tasks of alpha within each, with the largest and the smallest value of every unit left out (PRE, 4.5).

    Units with fewer than four values are left out, and so are tasks on which alpha is not defined.
    """
    order = np.lexsort((values, unit))
    values, task = values[order], task[order]
    _, code, size = np.unique(unit[order], return_inverse=True, return_counts=True)
    place = np.arange(len(code)) - (np.cumsum(size) - size)[code]
    inner = (place > 0) & (place < size[code] - 1) & (size[code] > 3)
    found = []
    for name in np.unique(task[inner]):
        own = inner & (task == name)
        found.append(_alpha(values[own], np.unique(code[own], return_inverse=True)[1], measurement))
    return task_intervals(np.array(found, dtype=np.float64)[:, None], **draws)[0]


def _alpha(values: FloatArray, unit: IntArray, measurement: Measurement) -> float:
    """Alpha of values whose units all have two or more; NaN: not defined."""
    if len(values) == 0 or values.min() == values.max():
        return np.nan
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    size = np.bincount(unit).astype(np.float64)
    share = np.divide(1.0, size - 1, out=np.zeros_like(size), where=size > 1)
    n = len(values)
    if measurement == "nominal":
        alike = np.unique(unit * len(counts) + level, return_counts=True)
        same = np.bincount(alike[0] // len(counts), weights=alike[1].astype(np.float64) ** 2, minlength=len(size))
        observed = float((share * (size**2 - same)).sum())
        expected = (n**2 - float((counts.astype(np.float64) ** 2).sum())) / (n - 1)
        return 1 - observed / expected
    placed = values if measurement == "interval" else (np.cumsum(counts) - counts / 2)[level]
    placed = placed - placed.mean()  # sums of squares then lose no digits
    sums, squares = np.bincount(unit, weights=placed), np.bincount(unit, weights=placed**2)
    observed = float((share * 2 * (size * squares - sums**2)).sum())
    expected = 2 * (n * float(squares.sum()) - float(placed.sum()) ** 2) / (n - 1)
    return 1 - observed / expected
