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
    FAR,
    FIXED_SAMPLE,
    Anytime,
    decide,
    least_tasks,
    more_tasks,
    p_values,
    radius,
    tasks_needed,
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
@pytest.mark.parametrize(("mean", "sd", "alpha"), [(0.3, 1.0, 0.05), (-0.02, 0.4, 0.05), (4.0, 9.0, 0.0001)])
def test_the_tasks_needed_are_the_first_number_that_excludes_zero(bound, mean, sd, alpha):
    needed = tasks_needed(mean, sd, alpha=alpha, bound=bound)
    assert radius(needed, sd, alpha=alpha, bound=bound) < abs(mean)
    assert needed == least_tasks(alpha) or radius(needed - 1, sd, alpha=alpha, bound=bound) >= abs(mean)


def test_no_number_of_tasks_shows_a_difference_of_zero():
    assert tasks_needed(0.0, 1.0, alpha=0.05) is None
    assert tasks_needed(0.0, 0.0, alpha=0.05) is None
    assert more_tasks(20, 1e-6, 1.0, alpha=0.05) is None


def test_more_tasks_are_those_needed_less_those_there():
    assert more_tasks(50, 0.3, 1.0, alpha=0.05) == tasks_needed(0.3, 1.0, alpha=0.05) - 50


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


def test_a_decision_names_the_better_agent_with_its_interval():
    drawn = np.random.default_rng(1).normal(-1.0, 1.0, size=40)
    found = decide("a", "b", np.append(drawn, [np.nan, np.nan]))
    assert (found.better, found.n, found.more_tasks) == ("b", 40, 0)
    assert found.high - found.difference == pytest.approx(radius(40, drawn.std(ddof=1), alpha=0.05))
    assert found.high < 0
    assert found.words() == "decided: b"


def test_an_undecided_difference_says_what_it_would_take():
    drawn = np.tile([1.0, -0.8], 10)
    found = decide("a", "b", drawn)
    needed = tasks_needed(0.1, drawn.std(ddof=1), alpha=0.05)
    assert found.more_tasks == needed - 20
    assert found.words(0.5) == f"undecided: about {needed - 20} more tasks, {(needed - 20) / 2:.2f} USD"


def test_nothing_is_decided_on_fewer_than_ten_tasks_nor_where_equal_signs_may_be_chance():
    assert decide("a", "b", np.ones(9)).more_tasks == 1
    assert decide("a", "b", np.ones(9)).words() == "undecided: about 1 more task"
    assert decide("a", "b", np.ones(10)).better == "a"
    # 2 / 2^14 is above 0.05 / 435, 2 / 2^15 below
    assert decide("a", "b", np.ones(14), alpha=0.05 / 435).better is None
    assert decide("a", "b", np.ones(15), alpha=0.05 / 435).better == "a"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "undecided: no common task"),
        ([0.0] * 30, f"undecided: far, more than {FAR} times these tasks"),
        ([1.0, -1.0] * 10, f"undecided: far, more than {FAR} times these tasks"),
    ],
)
def test_what_cannot_be_estimated_has_no_number(values, words):
    found = decide("a", "b", np.array(values))
    assert found.more_tasks is None
    assert found.words(1.0) == words


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_alpha_must_be_between_0_and_1(alpha):
    with pytest.raises(UserError, match="alpha must be between 0 and 1"):
        decide("a", "b", np.ones(20), alpha=alpha)


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
