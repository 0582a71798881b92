"""Rank correlations of whole columns, against scipy and a bootstrap written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from goldless.statistics.rank_correlation import (
    percentile_interval,
    pooled_correlations,
    rank_coefficients,
)

PAIRS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=2, max_size=12)


@given(PAIRS)
def test_spearman_and_tau_b_are_those_of_scipy(pairs):
    first, second = np.array(pairs, dtype=float).T
    spearman, tau_b, tau_a = rank_coefficients(first, second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert np.isnan([spearman, tau_b]).all()
        assert tau_a == 0
        return
    assert spearman == pytest.approx(spearmanr(first, second).statistic)
    assert tau_b == pytest.approx(kendalltau(first, second).statistic)
    signs = [np.sign(x[:, None] - x[None]) for x in (first, second)]
    assert tau_a == pytest.approx((signs[0] * signs[1]).sum() / (len(first) * (len(first) - 1)))


def test_intervals_are_near_those_of_resampling_tasks_with_everything_computed_anew():
    random = np.random.default_rng(2)
    level = random.normal(size=(60, 1))
    first = level + random.normal(size=(60, 5))
    second = np.round(level + first + random.normal(size=(60, 5)))
    found = pooled_correlations(first.ravel(), second.ravel(), np.repeat(np.arange(60), 5), resamples=2000)
    drawn = []
    for _ in range(500):
        some = random.integers(60, size=60)
        x, y = first[some].ravel(), second[some].ravel()
        drawn.append((spearmanr(x, y).statistic, kendalltau(x, y).statistic))
    expected = np.quantile(drawn, [0.025, 0.975], axis=0).T
    for one, ends in zip(found[:2], expected, strict=True):
        assert (one.low, one.high) == pytest.approx(ends, abs=0.03)
        assert one.n == 60


def test_percentiles_are_numpys_and_resamples_without_a_coefficient_are_counted_and_said():
    drawn = np.linspace(-1, 1, 100)
    assert percentile_interval(drawn, level=0.9) == (*np.quantile(drawn, [0.05, 0.95]), None)
    some = np.where(np.arange(100) < 20, np.nan, drawn)
    low, high, told = percentile_interval(some, level=0.9)
    assert (low, high) == tuple(np.quantile(drawn[20:], [0.05, 0.95]))
    assert told == "defined in 80 of 100 resamples"
    few = np.where(np.arange(100) < 60, np.nan, drawn)
    assert percentile_interval(few, level=0.9) == (None, None, "no interval: defined in 40 of 100 resamples")
