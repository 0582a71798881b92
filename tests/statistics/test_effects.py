"""Effect sizes: by hand, by scipy, and by jackknife loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from goldless.statistics.effects import auc, compare_groups, paired_d, pooled_smd


def slow_smd(before, after):
    """The GEM paper's formula, section 4.2, with standard deviations of n - 1."""
    return (np.mean(after) - np.mean(before)) / np.sqrt((np.var(before, ddof=1) + np.var(after, ddof=1)) / 2)


def jackknife_t(statistic, clusters, level=0.95):
    """Leave out one cluster at a time, in a loop; Student's t around the whole (Tukey 1958)."""
    names = sorted(set(clusters))
    clusters, n = np.array(clusters), len(names)
    without = [statistic(clusters != name) for name in names]
    error = np.sqrt((n - 1) / n * np.sum((without - np.mean(without)) ** 2))
    half = scipy.stats.t.ppf((1 + level) / 2, n - 1) * error
    whole = statistic(np.full(len(clusters), True))
    return whole, whole - half, whole + half


# --- standardised mean difference ----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_interval_leaves_out_one_sample_at_a_time(offset):
    random = np.random.default_rng(1)
    before = random.gamma(2.0, size=25) + offset
    after = before + random.normal(0.3, 0.5, size=25)
    found = pooled_smd(before, after, level=0.9)
    expected = jackknife_t(lambda kept: slow_smd(before[kept], after[kept]), range(25), 0.9)
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-6)


def test_the_interval_leaves_out_whole_tasks_where_clusters_are_given():
    random = np.random.default_rng(2)
    papers = [f"paper {i % 12}" for i in range(30)]
    before = random.normal(size=30)
    after = before + random.normal(-0.4, 0.3, size=30)
    found = pooled_smd(before, after, clusters=papers)
    expected = jackknife_t(lambda kept: slow_smd(before[kept], after[kept]), papers)
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    assert found.n == 12


# --- paired d --------------------------------------------------------------------------------------------------------


def test_a_paired_d_is_t_over_the_root_of_n():
    differences = np.random.default_rng(3).normal(0.5, 2.0, size=40)
    t = scipy.stats.ttest_1samp(differences, 0.0).statistic
    found = paired_d(differences)
    assert found.value == pytest.approx(t / np.sqrt(40))
    expected = jackknife_t(lambda kept: differences[kept].mean() / differences[kept].std(ddof=1), range(40))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize("rounding", [0.0, 1e-14])
def test_equal_differences_have_no_d_and_it_is_neither_infinite_nor_huge(rounding):
    found = paired_d(np.full(7, 0.1) + rounding * np.arange(7))
    assert found.value is None
    assert "do not vary" in found.note


# --- auc -------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
)
def test_auc_is_scipys_mann_whitney_u_over_the_number_of_pairs(first, second):
    u = scipy.stats.mannwhitneyu(first, second, method="asymptotic").statistic if set(first + second) else 0.0
    assert auc(np.array(first, float), np.array(second, float)) == pytest.approx(u / (len(first) * len(second)))


# --- groups ----------------------------------------------------------------------------------------------------------


def test_two_groups_by_hand():
    """Task by task: first (3 + 5) / 2 - 1 = 3, (4 + 4) / 2 - 2 = 2, (2 + 4) / 2 - 2 = 1."""
    values = np.array([[3.0, 5.0, 1.0, 99.0], [4.0, 4.0, 2.0, 99.0], [2.0, 4.0, 2.0, 99.0]])
    found = compare_groups(values, [0, 1], [2])
    assert (found.difference.value, found.d_task, found.difference.n) == (2.0, 2.0, 3)
    assert (found.n_first, found.n_second, found.notes) == (6, 3, ())
    assert found.d_response == pytest.approx(slow_smd([1, 2, 2], [3, 5, 4, 4, 2, 4]))
    # of 18 pairs the 2 of the third task ties twice with a 2; all others are above
    assert found.auc == pytest.approx(17 / 18)
    # within tasks: 1, 1, and (0.5 + 1) / 2
    assert found.auc_by_task.value == pytest.approx((1 + 1 + 0.75) / 3)
    assert found.difference.method == "t"
    reference = scipy.stats.ttest_1samp([3, 2, 1], 0).confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx((reference.low, reference.high))


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=2, max_size=12))
def test_the_auc_within_tasks_is_the_mean_of_scipys_over_tasks(rows):
    found = compare_groups(np.array(rows, float), [0, 3, 4], [1, 2], resamples=20).auc_by_task
    of_tasks = [
        scipy.stats.mannwhitneyu([row[i] for i in (0, 3, 4)], [row[i] for i in (1, 2)]).statistic / 6 for row in rows
    ]
    assert (found.value, found.n) == (pytest.approx(np.mean(of_tasks)), len(rows))
    assert found.low is None or 0 <= found.low <= found.value <= found.high <= 1
