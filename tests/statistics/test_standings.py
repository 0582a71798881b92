"""Standings: what is compared, intervals for peers like these, and worst cases where scores are missing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from goldless.statistics.bootstrap import Estimate, task_intervals
from goldless.statistics.standings import Missing, new_peer_intervals, standings

AGENTS = ["a", "b", "c", "d"]


def study(tasks: int = 12, seed: int = 0):
    """Agents 3 apart with a spread of 1: every pair is decided."""
    return np.random.default_rng(seed).normal(3.0 * np.arange(4), 1.0, size=(tasks, 4))


def test_every_pair_is_compared_by_default():
    found = standings(study(), AGENTS, resamples=200)
    assert len(found.comparisons) == 6
    assert {row.agent: row.better_than for row in found.rows} == {
        "d": ("c", "b", "a"),
        "c": ("b", "a"),
        "b": ("a",),
        "a": (),
    }


def test_with_the_leader_it_alone_is_better_than_others():
    found = standings(study(), AGENTS, compare="leader", resamples=200)
    assert [(c.first, c.second) for c in found.comparisons] == [("a", "d"), ("b", "d"), ("c", "d")]
    assert {row.agent: row.better_than for row in found.rows} == {"d": ("c", "b", "a"), "c": (), "b": (), "a": ()}


def test_with_a_baseline_agents_are_better_or_worse_than_it():
    found = standings(study(), AGENTS, baseline="b", resamples=200)
    assert {row.agent: row.better_than for row in found.rows} == {"d": ("b",), "c": ("b",), "b": ("a",), "a": ()}


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
    assert (found.se_tasks, found.se_peers, found.peers) == pytest.approx((np.sqrt(tasks), np.sqrt(peers), 4))


def test_it_is_never_narrower_than_for_these_peers():
    table = np.repeat(np.random.default_rng(2).exponential(size=(30, 1)), 4, axis=1)  # peers make no difference
    intervals = task_intervals(table[:, :1], resamples=300)
    (found,) = new_peer_intervals(table[:, None, :], intervals)
    assert found.low <= intervals[0].low < intervals[0].high <= found.high
    assert found.se_peers == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("tasks", "peers"), [(1, 5), (5, 1), (5, 3), (0, 0)])
def test_one_task_or_three_peers_say_nothing_of_others(tasks, peers):
    table = np.ones((tasks, 1, peers))
    assert new_peer_intervals(table, [Estimate(1.0, 0.5, 1.5, tasks, 0.95)]) == [None]


def test_missing_scores_do_not_shift_a_peer_towards_the_tasks_it_has():
    """A peer that lacks the hardest task is compared on the others: with equal peers their error is 0."""
    table = np.repeat(np.array([[0.0], [1.0], [5.0], [2.0]]), 4, axis=1)
    table[2, 1] = np.nan
    (found,) = new_peer_intervals(table[:, None, :], task_intervals(np.nanmean(table, axis=1)[:, None]))
    assert found.se_peers == pytest.approx(0.0, abs=1e-12)


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
    assert found["b"].worst == pytest.approx((low, high))


def test_a_task_that_no_agent_has_is_not_missing():
    values = np.random.default_rng(6).uniform(size=(8, 2))
    values[3] = np.nan
    share = np.where(np.isnan(values), 0.0, 1.0)
    assert all(row.worst is None for row in standings(values, ["a", "b"], missing=Missing(share, 0.0, 1.0)).rows)
