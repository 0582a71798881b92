"""Decisions: the confidence sequence against its martingale and Lambert's W, Student's interval, simulated errors."""

from __future__ import annotations

import math
import runpy
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import nct, norm, skew, t, ttest_1samp

from goldless.statistics.deciding import (
    ANYTIME,
    FIXED_SAMPLE,
    more_tasks,
    outlook,
    p_values,
    radius,
    tasks_to_detect,
)
from tests.support.paths import BENCHMARKS


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


def symmetric(n, mean, sd):
    """Differences without skewness."""
    steps = np.linspace(-1, 1, n)
    return mean + sd * steps / steps.std(ddof=1)


@pytest.mark.parametrize("bound", [ANYTIME, FIXED_SAMPLE])
@pytest.mark.parametrize(("mean", "sd", "alpha"), [(0.5, 1.0, 0.05), (-0.2, 0.4, 0.05), (5.0, 9.0, 0.01)])
def test_more_tasks_have_a_power_of_80_percent_at_the_lower_20_percent_end(bound, mean, sd, alpha):
    n = 30
    more = more_tasks(symmetric(n, mean, sd), alpha=alpha, bound=bound)
    effect = abs(mean) / sd - norm.ppf(0.8) / math.sqrt(n)

    def power(tasks):
        width = float(bound.width(np.asarray(float(tasks)), alpha))
        return nct.sf(width * math.sqrt(tasks), tasks - 1, effect * math.sqrt(tasks))

    assert power(n + more) >= 0.8
    assert more == 1 or power(n + more - 1) < 0.8


@pytest.mark.parametrize(("mean", "known"), [(0.36, True), (0.3, False), (0.1, False), (0.0, False)])
def test_beyond_ten_times_the_tasks_no_number_is_given(mean, known):
    """30 tasks, so at most 300; the usual (2.8 / effect)² + 2 says 187 for .36 - .154 and 370 for .3 - .154."""
    assert (more_tasks(symmetric(30, mean, 1.0), alpha=0.05) is not None) == known


def test_a_difference_away_from_its_tail_needs_more_tasks_than_one_towards_it():
    away = np.array([0.5] * 18 + [0.1, -2.0, 0.2, 0.4])
    towards = 2 * away.mean() - away
    assert more_tasks(towards, alpha=0.05) < more_tasks(away, alpha=0.05)


def test_the_number_of_a_pair_takes_off_half_of_what_skewness_may_have_added_by_the_test_of_the_pair():
    """Johnson's t = t' + w (1 / 6 + t'² / 3) with w = (3 + 80 / n) |g| / √n, solved for t' by bisection."""
    away = np.array([0.5] * 18 + [0.1, -2.0, 0.2, 0.4])
    n, mean, sd = len(away), away.mean(), away.std(ddof=1)
    weight = (3 + 80 / n) * abs(skew(away, bias=False)) / math.sqrt(n)
    observed = mean / sd * math.sqrt(n)
    without_skewness = brentq(lambda less: less + weight * (1 / 6 + less**2 / 3) - observed, 0, observed)
    likely = (mean / sd + without_skewness / math.sqrt(n)) / 2
    needed = tasks_to_detect(likely - norm.ppf(0.8) / math.sqrt(n), at_least=n + 1)
    assert more_tasks(away, alpha=0.05) == needed - n


@pytest.mark.parametrize("studies", [1000, pytest.param(4000, marks=pytest.mark.nightly)])
def test_the_number_of_tasks_decides_in_about_four_of_five_cases(studies):
    """Of true differences with a spread of 0.4 that 20 tasks leave undecided; the goal is .80 to .92."""
    random = np.random.default_rng(2)
    decided = []
    for effect in random.normal(0, 0.4, size=studies):
        drawn = random.normal(effect, 1.0, size=20)
        if ttest_1samp(drawn, 0.0).pvalue < 0.05:
            continue
        more = more_tasks(drawn, alpha=0.05)
        if more is not None:
            whole = np.concatenate([drawn, random.normal(effect, 1.0, size=more)])
            decided.append(ttest_1samp(whole, 0.0).pvalue < 0.05)
    assert 0.77 <= np.mean(decided) <= 0.92


@pytest.mark.parametrize(("effect", "tasks"), [(0.2, 199), (0.3, 90), (0.5, 34), (0.8, 15)])
def test_a_fixed_sample_needs_what_power_tables_say(effect, tasks):
    """statsmodels 0.15.0, TTestPower().solve_power, two-sided, alpha 0.05, power 0.80, rounded up."""
    assert tasks_to_detect(effect) == tasks


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((20, 3), "about 3 more tasks"),
        ((20, 1), "about 1 more task"),
        ((20, None), "20 tasks cannot tell how many more it would take"),
        ((0, None), "no common task"),
        ((20, 3, 0.5), "about 3 more tasks, 1.50 USD"),
    ],
)
def test_an_undecided_difference_says_what_it_would_take(given, words):
    assert outlook(*given) == words


def test_nothing_is_decided_on_fewer_than_ten_tasks_nor_where_equal_signs_may_be_chance():
    def p(n, alpha=0.05):
        return p_values(np.array([float(n)]), np.ones(1), np.zeros(1), alpha=alpha)[0]

    assert p(9) == 1.0
    assert p(10) < 0.05
    # 2 / 2^14 is above 0.05 / 435, 2 / 2^15 below
    assert p(14, 0.05 / 435) == 1.0
    assert p(15, 0.05 / 435) < 0.05 / 435


@pytest.mark.parametrize("bound", [ANYTIME, FIXED_SAMPLE])
def test_p_is_alpha_where_the_interval_ends_at_zero(bound):
    n, sd, alpha = np.array([12.0, 50.0, 400.0]), np.array([2.0, 0.1, 7.0]), 0.01
    found = p_values(n, radius(n, sd, alpha=alpha, bound=bound), sd, alpha=alpha, bound=bound)
    assert found == pytest.approx([alpha] * 3)


# --- stopping on recorded data ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="installed without the benchmarks")
@pytest.mark.nightly
def test_questions_need_part_of_the_tasks_and_a_ranking_needs_all(recorded, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS / "method"), *sys.path])
    benchmark = runpy.run_path(str(BENCHMARKS / "method" / "stopping.py"), run_name="benchmark")
    values = benchmark["read_contrasts"](recorded / "samsum_peer_prediction")
    (wrong, peeking), rows = benchmark["measure"](values, 4)
    assert float(wrong) <= 0.05
    assert float(peeking) > 0.25
    baseline, best, top, ranking = (float(row[1]) for row in rows)
    # with 40 orders 0.29, 0.13, 0.36 and 0.97
    assert (baseline < 0.33, best < 0.25, top < 0.45, ranking > 0.9) == (True,) * 4
    assert all(row[3] == "0.0000" for row in rows)
