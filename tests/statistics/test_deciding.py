"""Decisions: the confidence sequence against its martingale and Lambert's W, Student's interval, simulated errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import lambertw
from scipy.stats import nct, norm, t, ttest_1samp

from goldless.errors import UserError
from goldless.statistics.deciding import (
    ANYTIME,
    FIXED_SAMPLE,
    Anytime,
    more_tasks,
    outlook,
    p_values,
    radius,
    tasks_to_detect,
)


@pytest.mark.parametrize(("n", "alpha"), [(10, 0.05), (30, 0.05), (120, 0.2), (40, 0.05 / 435)])
def test_the_sequence_ends_where_the_t_tests_martingale_reaches_one_over_alpha(n, alpha):
    """Ville's inequality: noncentral over central t densities, integrated over effects d ~ N(0, rho²)."""
    rho = math.sqrt(ANYTIME.rho_squared(alpha))
    end = radius(n, 1.0, alpha=alpha) * math.sqrt(n)
    reached, _ = quad(
        lambda d: nct.pdf(end, n - 1, d * math.sqrt(n)) / t.pdf(end, n - 1) * norm.pdf(d, scale=rho),
        -1.0,
        end / math.sqrt(n) + 3.0,
        limit=200,
    )
    assert reached == pytest.approx(1 / alpha, rel=1e-4)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 435])
def test_for_many_tasks_it_is_the_asymptotic_sequence(alpha):
    """Waudby-Smith et al. (2024), theorem 2.2: sqrt(2 (t r + 1) / (t² r) ln(sqrt(t r + 1) / alpha)), r = rho²."""
    n, r = 20_000, ANYTIME.rho_squared(alpha)
    expected = math.sqrt(2 * (n * r + 1) / (n**2 * r) * math.log(math.sqrt(n * r + 1) / alpha))
    assert radius(n, 1.0, alpha=alpha) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_rho_is_the_closed_form_with_lamberts_w(alpha):
    """Howard et al. (2021), proposition 3: rho² t* = -W(-alpha² / e) - 1, by the lower branch."""
    expected = -lambertw(-(alpha**2) / math.e, -1).real - 1
    assert Anytime(tuned_at=70).rho_squared(alpha) * 70 == pytest.approx(expected)


def test_for_many_tasks_no_other_tuning_is_tighter_at_the_task_it_is_tuned_at():
    there = [radius(5000, 1.0, alpha=0.05, bound=Anytime(tuned_at)) for tuned_at in (2000, 4000, 5000, 6000, 12000)]
    assert min(there) == there[2]


def test_the_fixed_interval_is_students():
    low, high = t.interval(0.99, 11, scale=2.5 / math.sqrt(12))
    assert radius(12, 2.5, alpha=0.01, bound=FIXED_SAMPLE) == pytest.approx(high) == pytest.approx(-low)


def ever_decided(drawn, bound, alpha):
    """The share of studies [studies, tasks] that are decided at some task."""
    n = np.arange(1.0, drawn.shape[1] + 1)
    mean = np.cumsum(drawn, axis=1) / n
    sd = np.sqrt((np.cumsum(drawn**2, axis=1) - n * mean**2) / np.maximum(n - 1, 1))
    return (p_values(np.broadcast_to(n, sd.shape), mean, sd, alpha=alpha, bound=bound) < alpha).any(axis=1).mean()


def test_looking_after_every_task_is_wrong_for_ordinary_intervals_and_not_for_the_sequence():
    """3,000 studies of 300 tasks without a difference."""
    drawn = np.random.default_rng(7).normal(size=(3000, 300))
    assert ever_decided(drawn, ANYTIME, 0.05) <= 0.05
    assert ever_decided(drawn, FIXED_SAMPLE, 0.05) > 0.25


def test_a_small_alpha_is_kept_from_the_first_tasks_on():
    """20,000 studies of 60 tasks; the asymptotic sequence is wrong four times as often as it says there."""
    drawn = np.random.default_rng(8).normal(size=(20_000, 60))
    assert ever_decided(drawn, ANYTIME, 0.05 / 29) <= 0.05 / 29


@pytest.mark.parametrize("bound", [ANYTIME, FIXED_SAMPLE])
@pytest.mark.parametrize(("mean", "sd", "alpha"), [(0.4, 1.0, 0.05), (-0.2, 0.4, 0.05), (4.0, 9.0, 0.0001)])
def test_more_tasks_are_those_that_the_ends_of_the_means_interval_need(bound, mean, sd, alpha):
    n = 30
    low, high = more_tasks(n, mean, sd, alpha=alpha, bound=bound)
    unsure = t.ppf(0.81, n - 1) * sd / math.sqrt(n)
    for more, end in ((low, abs(mean) + unsure), (high, abs(mean) - unsure)):
        assert radius(n + more, sd, alpha=alpha, bound=bound) < end
        assert more == 1 or radius(n + more - 1, sd, alpha=alpha, bound=bound) >= end


def test_the_tasks_that_it_takes_are_in_the_range_in_four_of_five_cases():
    """Of true differences with a spread of 0.4 that 20 tasks leave undecided; what it takes has even odds."""
    random = np.random.default_rng(2)
    widths = FIXED_SAMPLE.width(np.arange(10.0, 4000.0), 0.05)
    inside = []
    for effect in random.normal(0, 0.4, size=700):
        drawn = random.normal(effect, 1.0, size=20)
        if ttest_1samp(drawn, 0.0).pvalue < 0.05:
            continue
        takes = max(1, 10 + int(np.sum(widths >= abs(effect))) - 20)
        low, high = more_tasks(20, drawn.mean(), drawn.std(ddof=1), alpha=0.05, bound=FIXED_SAMPLE)
        inside.append(low is not None and low <= takes and (high is None or takes <= high))
    assert np.mean(inside) == pytest.approx(0.8, abs=0.05)


def test_no_number_of_tasks_is_told_where_none_is_near():
    assert more_tasks(20, 0.0, 0.0, alpha=0.05) == (None, None)
    low, high = more_tasks(20, 1e-6, 1.0, alpha=0.05)
    assert low > 20
    assert high is None


@pytest.mark.parametrize(("effect", "tasks"), [(0.2, 199), (0.3, 90), (0.5, 34), (0.8, 15)])
def test_a_fixed_sample_needs_what_power_tables_say(effect, tasks):
    """statsmodels 0.15.0, TTestPower().solve_power, two-sided, alpha 0.05, power 0.80, rounded up."""
    assert tasks_to_detect(effect) == tasks


def test_the_sequence_detects_with_the_power_it_promises():
    tasks = tasks_to_detect(0.5, bound=ANYTIME)
    drawn = np.random.default_rng(3).normal(0.5, 1.0, size=(4000, tasks))
    n = np.full(4000, float(tasks))
    found = p_values(n, drawn.mean(axis=1), drawn.std(axis=1, ddof=1), alpha=0.05) < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((20, 3, 60), "3 to 60 more tasks"),
        ((20, 1, 1), "1 more task"),
        ((20, 5, None), "at least 5 more tasks"),
        ((20, None, None), "not with this study"),
        ((0, None, None), "no common task"),
        ((20, 3, 60, 0.5), "3 to 60 more tasks, 1.50 to 30.00 USD"),
        ((20, 3, None, 0.5), "at least 3 more tasks, 1.50 USD"),
    ],
)
def test_an_undecided_difference_says_what_it_would_take(given, words):
    assert outlook(*given) == words


def test_skewed_differences_say_so():
    assert outlook(12, 3, 60, skewed=True) == "not by 12 tasks: skewed scores could explain it"


def test_nothing_is_decided_on_fewer_than_ten_tasks_nor_where_equal_signs_may_be_chance():
    def p(n, alpha=0.05):
        return p_values(np.array([float(n)]), np.ones(1), np.zeros(1), alpha=alpha)[0]

    assert p(9) == 1.0
    assert p(10) < 0.05
    # 2 / 2^14 is above 0.05 / 435, 2 / 2^15 below
    assert p(14, 0.05 / 435) == 1.0
    assert p(15, 0.05 / 435) < 0.05 / 435


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_alpha_must_be_between_0_and_1(alpha):
    with pytest.raises(UserError, match="alpha must be between 0 and 1"):
        radius(20, 1.0, alpha=alpha)


@pytest.mark.parametrize(("effect", "power"), [(0.0, 0.8), (-1.0, 0.8), (math.inf, 0.8), (0.3, 1.0)])
def test_impossible_powers_are_refused(effect, power):
    with pytest.raises(UserError, match="must be"):
        tasks_to_detect(effect, power=power)


@pytest.mark.parametrize("bound", [ANYTIME, FIXED_SAMPLE])
def test_p_is_alpha_where_the_interval_ends_at_zero(bound):
    n, sd, alpha = np.array([12.0, 50.0, 400.0]), np.array([2.0, 0.1, 7.0]), 0.01
    found = p_values(n, radius(n, sd, alpha=alpha, bound=bound), sd, alpha=alpha, bound=bound)
    assert found == pytest.approx([alpha] * 3)


def test_the_fixed_p_is_scipys():
    drawn = np.random.default_rng(2).normal(0.2, 1.0, size=25)
    found = p_values(
        np.array([25.0]), drawn.mean(keepdims=True), drawn.std(ddof=1, keepdims=True), alpha=0.05, bound=FIXED_SAMPLE
    )
    assert found == pytest.approx([ttest_1samp(drawn, 0.0).pvalue])


def test_equal_differences_have_the_p_of_equal_signs_and_no_difference_has_none():
    n, mean, sd = np.array([10.0, 10.0, 9.0]), np.array([1.0, 0.0, 1.0]), np.zeros(3)
    assert p_values(n, mean, sd, alpha=0.05)[0] == pytest.approx(max(2.0**-9, 1 / _most(10)))
    assert p_values(n, mean, sd, alpha=0.05)[1:].tolist() == [1.0, 1.0]


def _most(n):
    """The martingale's limit for an infinite t: b^((1 - n) / 2)."""
    return (1 + n * ANYTIME.rho_squared(0.05)) ** ((n - 1) / 2)
