"""Intervals from leaving tasks out, against the intervals of means."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.statistics.bootstrap import left_out_intervals, task_intervals


def test_of_a_mean_it_is_the_interval_of_the_mean():
    """n mean - (n - 1) (mean without t) is the value of t, whatever the values are."""
    values = np.random.default_rng(3).gamma(2, size=(40, 2))
    without = (values.sum(axis=0) - values) / 39
    limits = {"lowest": -np.inf, "highest": np.inf}
    found = left_out_intervals(values.mean(axis=0), without, n_tasks=40, resamples=500, **limits)
    for one, other in zip(found, task_intervals(values, resamples=500), strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
        assert (one.n, one.method) == (40, "bootstrap-t")


def test_ends_lie_within_the_limits_and_what_is_not_defined_has_none():
    without = np.column_stack([np.linspace(0.7, 1, 12), np.full(12, np.nan), np.full(12, 0.5)])
    found = left_out_intervals([0.99, 0.5, np.nan], without, n_tasks=12, resamples=200)
    assert found[0].high == 1
    assert (found[1].value, found[1].low) == (0.5, None)
    assert "without one of the tasks" in found[1].note
    assert (found[2].value, found[2].low, found[2].note) == (None, None, "not defined")
