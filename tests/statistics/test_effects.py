"""Effect sizes: by hand, by scipy, and by jackknife loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
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


def test_a_standardised_difference_by_hand():
    """Means 2 and 4, variances 1 and 4: (4 - 2) / sqrt((1 + 4) / 2) = 2 / sqrt(2.5)."""
    found = pooled_smd(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    assert found.value == pytest.approx(2 / np.sqrt(2.5))
    assert found.n == 3


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


def test_a_sample_that_lacks_one_of_its_scores_is_left_out():
    nan = np.nan
    with_gaps = pooled_smd(np.array([1.0, 2.0, nan, 3.0, 5.0]), np.array([2.0, 4.0, 9.0, 6.0, nan]), clusters="aabcd")
    without = pooled_smd(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]), clusters="aac")
    assert with_gaps == without
    assert with_gaps.n == 2


def test_scores_without_spread_have_no_effect_size_and_say_why():
    found = pooled_smd(np.full(5, 0.1), np.full(5, 0.7))
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 5)
    assert "do not vary" in found.note


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_samples_have_no_effect_size(n):
    found = pooled_smd(np.ones(n), np.zeros(n))
    assert found.value is None
    assert f"n = {n}" in found.note


def test_samples_of_a_single_task_have_a_value_but_no_interval():
    found = pooled_smd(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]), clusters="aaa")
    assert found.value is not None
    assert (found.low, found.note) == (None, "no interval: n = 1")


def test_a_value_that_hangs_on_one_task_has_no_interval():
    """Without the last sample both sides are constant: nothing is left to standardise by."""
    found = pooled_smd(np.array([1.0, 1.0, 1.0, 5.0]), np.array([2.0, 2.0, 2.0, 7.0]))
    assert found.value == pytest.approx(slow_smd([1, 1, 1, 5], [2, 2, 2, 7]))
    assert (found.low, found.high, found.note) == (None, None, "no interval: one task carries all the spread")


# --- paired d --------------------------------------------------------------------------------------------------------


def test_a_paired_d_is_t_over_the_root_of_n():
    differences = np.random.default_rng(3).normal(0.5, 2.0, size=40)
    t = scipy.stats.ttest_1samp(differences, 0.0).statistic
    found = paired_d(differences)
    assert found.value == pytest.approx(t / np.sqrt(40))
    expected = jackknife_t(lambda kept: differences[kept].mean() / differences[kept].std(ddof=1), range(40))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


def test_equal_differences_have_no_d_and_it_is_not_infinite():
    found = paired_d(np.full(7, 0.1))
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


def test_missing_values_are_left_out_of_auc_and_none_left_gives_none():
    assert auc(np.array([2.0, np.nan, 5.0]), np.array([1.0, 2.0, np.nan])) == 3.5 / 4
    assert auc(np.array([np.nan]), np.array([1.0])) is None
    assert auc(np.array([]), np.array([1.0])) is None


# --- groups ----------------------------------------------------------------------------------------------------------


def test_two_groups_by_hand():
    """Task by task: first (3 + 5) / 2 - 1 = 3, first 4 - 2 = 2 (one missing), first (2 + 4) / 2 - 2 = 1."""
    nan = np.nan
    values = np.array([[3.0, 5.0, 1.0, 99.0], [nan, 4.0, 2.0, 99.0], [2.0, 4.0, 2.0, 99.0], [1.0, 1.0, nan, 99.0]])
    found = compare_groups(values, [0, 1], [2])
    assert (found.difference, found.d_task, found.n_tasks) == (2.0, 2.0, 3)
    assert (found.n_first, found.n_second) == (5, 3)
    assert found.d_response == pytest.approx(slow_smd([1, 2, 2], [3, 5, 4, 2, 4]))
    # of 15 pairs the 2 of the third task ties twice with a 2; all others are above
    assert found.auc == pytest.approx(14 / 15)
    assert found.method == "t"
    reference = scipy.stats.ttest_1samp([3, 2, 1], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))


def test_groups_without_spread_have_no_effect_size_and_say_why():
    found = compare_groups(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), [0], [1])
    assert (found.difference, found.d_task, found.d_response, found.auc) == (1.0, None, None, 1.0)
    assert [note.split(":")[0] for note in found.notes] == ["d_task", "d_response"]


def test_groups_without_a_common_task_have_nothing_to_compare():
    found = compare_groups(np.array([[1.0, np.nan], [np.nan, 2.0]]), [0], [1])
    assert (found.difference, found.low, found.d_task, found.d_response, found.auc) == (None,) * 5
    assert found.n_tasks == 0
    assert "no task was scored" in found.notes


def test_groups_that_overlap_are_refused():
    with pytest.raises(UserError, match=r"groups must not overlap, got columns \[1\] in both"):
        compare_groups(np.zeros((3, 3)), [0, 1], [1, 2])


def test_scores_that_do_not_fit_together_are_refused():
    with pytest.raises(UserError, match="same length, got 2 and 3 scores"):
        pooled_smd(np.zeros(2), np.zeros(3))
    with pytest.raises(UserError, match="got 1 for 2 scores"):
        pooled_smd(np.zeros(2), np.zeros(2), clusters="a")
    with pytest.raises(UserError, match="infinite"):
        auc(np.array([np.inf]), np.zeros(1))
    with pytest.raises(UserError, match="level"):
        paired_d(np.arange(5.0), level=1.5)
