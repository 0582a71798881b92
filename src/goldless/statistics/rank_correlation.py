"""Rank correlations of two columns, with intervals from leaving tasks out, and of the rows of two tables.

Spearman's coefficient is Pearson's of the ranks, ties sharing theirs. Kendall's tau-a is (concordant - discordant) /
all pairs; tau-b divides by the geometric mean of the pairs not tied on either side (M. G. Kendall, 1938, 1945).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Unpack

import numpy as np

from goldless.arrays import FloatArray, IntArray
from goldless.statistics.bootstrap import (
    FEW_TASKS,
    Draws,
    Estimate,
    draw_counts,
    groups_left_out,
    left_out_intervals,
    summable,
)

Coefficient = Literal["spearman", "kendall", "kendall-b"]
"""``kendall`` is tau-a, with all pairs in the denominator; ``kendall-b`` leaves out those tied on either side."""

DIGITS = 12
"""Values that agree to this many digits of the largest are equal: sums in another order differ in the last ones."""
FEWEST_DRAWS = 0.5
"""Share of resamples in which a coefficient must be defined for an interval."""
ELEMENTS_AT_ONCE = 1 << 22


def rank_coefficients(first: FloatArray, second: FloatArray) -> FloatArray:
    """Spearman's coefficient, tau-b and tau-a of two columns without NaN; NaN where a coefficient is not defined.

    With fewer than two values none is defined; where all values of one side are equal only tau-a is, and it is 0.
    """
    from scipy.stats import kendalltau  # noqa: PLC0415 - it takes most of a second to import

    n = len(first)
    if n < 2:
        return np.full(3, np.nan)
    ranks = [centred_ranks(column) for column in (first, second)]
    spread = np.sqrt(float((ranks[0] ** 2).sum()) * float((ranks[1] ** 2).sum()))
    if spread == 0:
        return np.array([np.nan, np.nan, 0.0])
    spearman = float(ranks[0] @ ranks[1]) / spread
    # of two values scipy's p, which nobody wants here, divides by zero
    tau_b = spearman if n == 2 else float(kendalltau(first, second, method="asymptotic").statistic)
    pairs = n * (n - 1) / 2
    tied = [np.unique(column, return_counts=True)[1].astype(np.float64) for column in (first, second)]
    free = [pairs - float((counts * (counts - 1)).sum() / 2) for counts in tied]
    return np.array([spearman, tau_b, tau_b * float(np.sqrt(free[0] * free[1])) / pairs])


def pooled_correlations(
    first: FloatArray,
    second: FloatArray,
    task: IntArray,
    **draws: Unpack[Draws],
) -> list[Estimate]:
    """Spearman's coefficient, tau-b and tau-a over all rows with both values, with intervals over tasks."""
    both = ~(np.isnan(first) | np.isnan(second))
    first, second, task = first[both], second[both], task[both]
    group, n_tasks = groups_left_out(task)
    whole = rank_coefficients(first, second)
    count = int(group.max()) + 1 if len(group) else 0
    without = [rank_coefficients(first[group != g], second[group != g]) for g in range(count)]
    table = np.array(without) if without else np.full((1, 3), np.nan)
    return left_out_intervals(whole, table, n_tasks=n_tasks, **draws)


def rank_correlations(first: FloatArray, second: FloatArray, coefficient: Coefficient = "spearman") -> FloatArray:
    """[rows]: the coefficient of each row of two tables over the columns present in both; NaN: not defined."""
    found = np.full(len(first), np.nan)
    step = max(1, ELEMENTS_AT_ONCE // max(1, first.shape[1] ** 2))
    for begin in range(0, len(first), step):
        some = slice(begin, begin + step)
        found[some] = _row_correlations(first[some], second[some], coefficient)
    return found


def levelled(values: FloatArray, *, by_row: bool = False) -> FloatArray:
    """Values on a scale on which the largest of all, or of each row, is 1, to twelve digits; NaN stays.

    Means of the same numbers in another order differ in the last digits, and would not be tied.
    """
    axis = 1 if by_row else None
    largest = np.max(np.abs(values), axis=axis, keepdims=True, initial=0.0, where=~np.isnan(values))
    scaled: FloatArray = np.round(values / np.where(largest > 0, largest, 1.0), DIGITS)
    return scaled


def percentile_interval(drawn: FloatArray, *, level: float) -> tuple[float | None, float | None, str | None]:
    """Percentiles over the resamples in which a coefficient is defined, and what to say where it is not in some.

    Without an interval where it is defined in fewer than half.
    """
    kept = drawn[~np.isnan(drawn)]
    note = None if len(kept) == len(drawn) else f"defined in {len(kept)} of {len(drawn)} resamples"
    if not len(kept) or len(kept) < FEWEST_DRAWS * len(drawn):
        return None, None, f"no interval: {note}"
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return low, high, note


def _row_correlations(first: FloatArray, second: FloatArray, coefficient: Coefficient) -> FloatArray:
    both = ~(np.isnan(first) | np.isnan(second))
    n = both.sum(axis=1)
    inside = both[:, :, None] & both[:, None, :]
    signs = [np.where(inside, np.sign(x[:, :, None] - x[:, None, :]), 0.0) for x in (first, second)]
    if coefficient == "kendall":
        above, below = (signs[0] * signs[1]).sum(axis=(1, 2)), (n * (n - 1)).astype(np.float64)
    elif coefficient == "kendall-b":
        above = (signs[0] * signs[1]).sum(axis=(1, 2))
        below = np.sqrt(np.abs(signs[0]).sum(axis=(1, 2)) * np.abs(signs[1]).sum(axis=(1, 2)))
    else:
        # the sum of signs is twice the rank with ties shared, less n + 1: centred already
        ranks = [sign.sum(axis=2) for sign in signs]
        above = (ranks[0] * ranks[1]).sum(axis=1)
        below = np.sqrt((ranks[0] ** 2).sum(axis=1) * (ranks[1] ** 2).sum(axis=1))
    found = np.full(len(first), np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def centred_ranks(column: FloatArray) -> FloatArray:
    """Ranks with ties sharing theirs, less their mean."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - counts / 2)[place] - len(column) / 2
    return ranks


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


def over_agents(
    tables: FloatArray, correlate: Callable[[FloatArray, FloatArray], FloatArray], draws: Draws
) -> list[Estimate]:
    """Coefficients of the agents' means over the tasks on which both tables [2, tasks, agents] have a value.

    ``correlate``: the coefficients [k, draws] of two tables of means [draws, agents]. Intervals are percentiles over
    resampled tasks, for these agents.
    """
    tasks = int((~np.isnan(tables.sum(axis=0))).any(axis=1).sum())
    whole = correlate(*agent_means(tables, np.ones((1, tables.shape[1]))))[:, 0]
    counts = draw_counts(tables.shape[1], seed=draws["seed"], resamples=draws["resamples"])
    drawn = np.concatenate([correlate(*agent_means(tables, some)) for some in counts], axis=1)
    found = []
    for number, resampled in zip(whole.tolist(), drawn, strict=True):
        value = None if np.isnan(number) else number
        low, high, note = None, None, f"no interval: n = {tasks}"
        if value is None:
            note = "not defined: fewer than two agents, or all means equal"
        elif tasks >= 2:
            low, high, told = percentile_interval(resampled, level=draws["level"])
            few = f"only {tasks} tasks: the interval is too narrow" if tasks < FEW_TASKS and low is not None else None
            note = "; ".join(part for part in (few, told) if part)
        found.append(
            Estimate(value, low, high, tasks, draws["level"], note or None, None if low is None else "percentile")
        )
    return found
