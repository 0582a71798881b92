"""Decisions: the confidence sequence against its martingale and Lambert's W, Student's interval, simulated errors."""

from __future__ import annotations

import math
import runpy
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import nct, norm, t, ttest_1samp

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


@pytest.mark.parametrize(("effect", "tasks"), [(0.2, 199), (0.3, 90), (0.5, 34), (0.8, 15)])
def test_a_fixed_sample_needs_what_power_tables_say(effect, tasks):
    """statsmodels 0.15.0, TTestPower().solve_power, two-sided, alpha 0.05, power 0.80, rounded up."""
    assert tasks_to_detect(effect) == tasks


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
