"""Rank correlations of two columns, with what leaving tasks out does to them.

Spearman's coefficient is Pearson's of the ranks, ties sharing theirs. Kendall's tau-a is (concordant - discordant) /
all pairs; tau-b divides by the geometric mean of the pairs not tied on either side (M. G. Kendall, 1938, 1945).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError
from goldless.statistics.bootstrap import Interval
from goldless.statistics.left_out import groups_left_out, left_out_intervals

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

COEFFICIENTS = ("spearman", "kendall-b", "kendall-a")
"""The order in which the coefficients come."""


def rank_coefficients(first: FloatArray, second: FloatArray) -> FloatArray:
    """Spearman's coefficient, tau-b and tau-a of two columns without NaN; NaN where one is not defined.

    With fewer than two values none is defined, and with one side all alike only tau-a, which is 0.
    """
    from scipy.stats import kendalltau  # noqa: PLC0415 - it takes most of a second to import

    n = len(first)
    if n < 2:
        return np.full(3, np.nan)
    ranks = [_centred_ranks(column) for column in (first, second)]
    spread = np.sqrt(float((ranks[0] ** 2).sum()) * float((ranks[1] ** 2).sum()))
    if spread == 0:
        return np.array([np.nan, np.nan, 0.0])
    spearman = float(ranks[0] @ ranks[1]) / spread
    # of two values scipy's p, which nobody wants here, divides by zero
    tau_b = spearman if n == 2 else float(kendalltau(first, second, method="asymptotic").statistic)
    pairs = n * (n - 1) / 2
    free = [pairs - _tied_pairs(column) for column in (first, second)]
    return np.array([spearman, tau_b, tau_b * float(np.sqrt(free[0] * free[1])) / pairs])


def pooled_correlations(
    first: FloatArray,
    second: FloatArray,
    task: IntArray,
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> list[Interval]:
    """The coefficients over all rows with both values, in the order of ``COEFFICIENTS``, with intervals over tasks."""
    first, second, task = np.asarray(first, np.float64), np.asarray(second, np.float64), np.asarray(task)
    if not first.shape == second.shape == task.shape or first.ndim != 1:
        raise UserError(f"columns of shapes {first.shape}, {second.shape} and {task.shape} came; all are equally long")
    both = ~(np.isnan(first) | np.isnan(second))
    first, second, task = first[both], second[both], task[both]
    group, n_tasks = groups_left_out(task)
    whole = rank_coefficients(first, second)
    count = int(group.max()) + 1 if len(group) else 0
    without = [rank_coefficients(first[group != g], second[group != g]) for g in range(count)]
    table = np.array(without) if without else np.full((1, 3), np.nan)
    return left_out_intervals(whole, table, n_tasks=n_tasks, seed=seed, resamples=resamples, level=level)


def _centred_ranks(column: FloatArray) -> FloatArray:
    """Ranks with ties sharing theirs, less their mean."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - counts / 2)[place] - len(column) / 2
    return ranks


def _tied_pairs(column: FloatArray) -> float:
    counts = np.unique(column, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)
