"""Standings: what is compared, intervals for peers like these, and worst cases where scores are missing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from goldless.statistics.bootstrap import task_intervals
from goldless.statistics.standings import Missing, new_peer_intervals, standings

# --- peers like these --------------------------------------------------------------------------------------------


def test_the_variance_is_that_of_crossed_effects():
    """Sums of squares by hand from a complete table of 5 tasks and 4 peers."""
    table = np.random.default_rng(1).normal(size=(5, 4)) + np.arange(4) * 2.0
    n, k, mean = 5, 4, table.mean()
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    tasks = sum((rows - mean) ** 2) / (n - 1) / n
    peers = sum((columns - mean) ** 2) / (k - 1) / k
    left = table - rows[:, None] - columns[None, :] + mean
    total = tasks + peers - (left**2).sum() / ((n - 1) * (k - 1)) / (n * k)
    df = total**2 / (tasks**2 / (n - 1) + peers**2 / (k - 1))
    t = scipy.stats.t.ppf(0.975, df)
    weight = 3 * scipy.stats.skew(columns, bias=False) * min(peers / total, 1) ** 1.5 / np.sqrt(k) * (1 / 6 + t**2 / 3)
    low, high = mean - (t + max(-weight, 0)) * np.sqrt(total), mean + (t + max(weight, 0)) * np.sqrt(total)
    (found,) = new_peer_intervals(table[:, None, :], task_intervals(rows[:, None]))
    assert (found.low, found.high) == pytest.approx((low, high))


# --- what is missing ---------------------------------------------------------------------------------------------


def test_the_worst_case_is_the_interval_with_the_limits_for_what_is_missing():
    values = np.random.default_rng(5).uniform(size=(8, 2))
    values[:2, 1] = np.nan
    share = np.where(np.isnan(values), 0.0, 1.0)
    share[7, 1] = 0.5  # half of the pairs of this response
    found = {row.agent: row for row in standings(values, ["a", "b"], missing=Missing(share, 0.0, 1.0)).rows}
    assert found["a"].worst is None
    column = values[:, 1]
    lowest, highest = (np.array([end, end, *column[2:7], 0.5 * column[7] + 0.5 * end]) for end in (0.0, 1.0))
    low = scipy.stats.ttest_1samp(lowest, 0.0).confidence_interval(0.95).low
    high = scipy.stats.ttest_1samp(highest, 0.0).confidence_interval(0.95).high
    assert (found["b"].worst.low, found["b"].worst.high) == pytest.approx((low, high))
