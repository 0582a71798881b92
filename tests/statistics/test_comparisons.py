"""Paired comparisons: sign flips as scipy counts them, and Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from goldless.statistics.standings import EXACT_UP_TO, compare_all, holm, sign_flip_p


@pytest.mark.parametrize("n", [2, 3, 5, 8, 11])
@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
def test_p_is_scipys_exact_permutation_test_of_paired_samples(n, shift):
    differences = np.random.default_rng(n).normal(shift, 1.0, size=n)
    reference = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative="two-sided", n_resamples=np.inf
    )
    # scipy doubles the smaller tail; with signs flipped the null distribution is symmetric, so that is the same
    assert sign_flip_p(differences) == pytest.approx(reference.pvalue)


def test_three_equal_differences_have_a_p_of_a_quarter():
    """Of 8 ways to flip 3 signs, only all and none are as far from zero: 2 / 8."""
    assert sign_flip_p(np.array([1.0, 1.0, 1.0])) == 0.25


def test_means_equal_but_for_the_last_digit_count_as_equal():
    """0.1 + 0.2 + 0.3 in another order is another float; all 8 flips of (0.1, 0.2, 0.3) that give ±0.6 count."""
    for order in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1]):
        assert sign_flip_p(np.array(order)) == 0.25


def test_no_difference_at_all_has_a_p_of_one():
    assert sign_flip_p(np.zeros(6)) == 1.0


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_tasks_have_no_p(n):
    assert sign_flip_p(np.ones(n)) is None


def test_beyond_the_exact_limit_random_flips_come_close_to_scipy_and_are_never_zero():
    differences = np.random.default_rng(0).normal(0.5, 1.0, size=EXACT_UP_TO + 5)
    reference = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=50_000, rng=3
    )
    found = sign_flip_p(differences, permutations=50_000)
    assert found == pytest.approx(reference.pvalue, abs=0.006)
    assert sign_flip_p(np.full(30, 5.0), permutations=999) == 1 / 1000


@pytest.mark.parametrize(("plus", "n"), [(15, 20), (10, 14), (26, 40)])
def test_differences_of_one_size_have_the_p_of_the_sign_test(plus, n):
    differences = np.array([1.0] * plus + [-1.0] * (n - plus))
    expected = scipy.stats.binomtest(plus, n).pvalue
    assert sign_flip_p(differences, permutations=50_000) == pytest.approx(expected, abs=0.006)


def test_the_sign_of_the_differences_does_not_matter():
    differences = np.random.default_rng(2).normal(0.4, 1.0, size=9)
    assert sign_flip_p(differences) == sign_flip_p(-differences)


# --- Holm --------------------------------------------------------------------------------------------------------


def test_holms_correction_of_a_worked_example():
    """0.01, 0.02, 0.03, 0.005 in order 0.005 x 4, 0.01 x 3, 0.02 x 2, 0.03 x 1, then never falling."""
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])


def test_corrected_values_do_not_exceed_one():
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def test_what_has_no_p_keeps_none_and_does_not_count():
    assert holm([None, 0.02, None, 0.04]) == pytest.approx([None, 0.04, None, 0.04])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1))
def test_a_hypothesis_is_rejected_at_a_level_exactly_when_holms_steps_reach_it(ps, level):
    """Holm (1979): go up the ordered p; stop at the first above level / (hypotheses left)."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    rejected = set()
    for rank, i in enumerate(order):
        if ps[i] * (len(ps) - rank) > level:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(ps)) if p <= level} == rejected | ({*order} if level == 1 else set())


# --- all pairs ---------------------------------------------------------------------------------------------------


def test_every_pair_is_compared_once_on_the_tasks_both_have():
    nan = np.nan
    values = np.array([[1.0, 0.0, nan], [2.0, nan, 5.0], [3.0, 1.0, 1.0], [6.0, 1.0, nan]])
    found = compare_all(["a", "b", "c"], values)
    assert [(c.first, c.second, c.n) for c in found] == [("a", "b", 3), ("a", "c", 2), ("b", "c", 1)]
    assert [c.difference for c in found] == pytest.approx([(1 + 2 + 5) / 3, (-3 + 2) / 2, 0.0])
    # (1, 2, 5): 2 of 8 flips reach 8. (-3, 2): all 4 flips reach 1. One task: no test
    assert [c.p for c in found] == [0.25, 1.0, None]
    assert [c.p_holm for c in found] == [0.5, 1.0, None]


def test_agents_without_a_common_task_have_no_difference():
    (comparison,) = compare_all(["a", "b"], np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert (comparison.difference, comparison.p, comparison.p_holm, comparison.n) == (None, None, None, 0)


def test_one_agent_is_compared_with_nobody():
    assert compare_all(["a"], np.ones((3, 1))) == []


def test_the_seed_decides_where_flips_are_random():
    values = np.random.default_rng(4).normal(size=(30, 2))
    first, again, other = (compare_all(["a", "b"], values, seed=s, permutations=500)[0].p for s in (1, 1, 2))
    assert first == again != other


def test_with_many_tasks_and_gaps_every_pair_has_scipys_p_on_its_common_tasks():
    values = np.random.default_rng(8).normal([0.0, 0.5, 0.3], 1.0, size=(25, 3))
    values[:8, 1] = np.nan
    values[20:, 2] = np.nan
    for comparison in compare_all(["0", "1", "2"], values, permutations=40_000):
        differences = values[:, int(comparison.first)] - values[:, int(comparison.second)]
        differences = differences[~np.isnan(differences)]
        reference = scipy.stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=40_000, rng=1
        )
        assert comparison.n == len(differences)
        assert comparison.p == pytest.approx(reference.pvalue, abs=0.012)


def test_comparing_in_several_parts_changes_nothing(monkeypatch):
    values = np.random.default_rng(9).normal(size=(20, 4))
    values[3, 2] = np.nan
    whole = compare_all(list("abcd"), values, permutations=700)
    monkeypatch.setattr("goldless.statistics.standings.ELEMENTS_AT_ONCE", 100)
    assert compare_all(list("abcd"), values, permutations=700) == whole
