"""Prediction-powered means: the formulas, other implementations, and draws with chances."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from goldless.errors import UserError
from goldless.statistics.prediction_powered import (
    check_proxies,
    corrected_share,
    draw_by_size,
    powered_mean,
)

LABELS = np.array([4.0, 3, 5, 2, 4, 3, 1, 5])
PROXY = np.array([3.5, 3, 4.5, 2.5, 4.5, 2, 1.5, 4])
OTHERS = np.array([3.0, 4, 2, 5, 3.5, 2.5, 4.5, 1, 3, 4, 2, 3.5])
ALL = np.r_[LABELS, np.full(len(OTHERS), np.nan)], np.r_[PROXY, OTHERS][:, None]


def test_the_mean_is_that_of_ppi_python_with_the_same_weight():
    """ppi-python 0.2.3: ppi_mean_pointestimate(LABELS, PROXY, OTHERS, lam=0.6846717534184482)."""
    found = powered_mean(*ALL)
    assert found.weights[0] == pytest.approx(0.6846717534184482)
    assert found.mean == pytest.approx(3.36073601, abs=5e-9)


def test_the_variance_is_that_of_ppi_python_but_for_degrees_of_freedom():
    """ppi-python 0.2.3: ppi_mean_ci(..., alpha=0.05) with the same weight; it divides by n where we divide by n - 2."""
    found, n = powered_mean(*ALL), len(LABELS)
    theirs = (4.03289934 - 2.68857267) / 2 / 1.9599639845
    rest = found.residual_variance * (n - 2) / n / n
    assert np.sqrt(rest + np.var(found.weights[0] * OTHERS) / len(OTHERS)) == pytest.approx(theirs, rel=1e-7)
    assert found.error > theirs
    assert found.estimate.high - found.estimate.low > 2 * 1.96 * found.error


def test_the_installed_ppi_python_agrees():
    ppi_py = pytest.importorskip("ppi_py")
    found = powered_mean(*ALL)
    theirs = ppi_py.ppi_mean_pointestimate(LABELS, PROXY, OTHERS, lam=float(found.weights[0]))
    assert found.mean == pytest.approx(float(theirs[0]))


def test_two_proxies_weigh_as_the_closed_form_says():
    random = np.random.default_rng(4)
    proxies = random.normal(size=(30, 2))
    labels = np.where(np.arange(30) < 12, proxies @ [1.0, -0.5] + random.normal(size=30), np.nan)
    shared = [np.cov(labels[:12], proxies[:12, k])[0, 1] for k in (0, 1)]
    expected = 18 / 30 * np.linalg.solve(np.cov(proxies, rowvar=False), shared)
    found = powered_mean(labels, proxies)
    assert found.weights == pytest.approx(expected)
    assert found.mean == pytest.approx(labels[:12].mean() + (proxies[12:].mean(0) - proxies[:12].mean(0)) @ expected)


def test_a_perfect_proxy_makes_the_labels_worth_all_tasks():
    """With u = s the regression estimate is the mean over all tasks, whose variance is Var / T."""
    values = np.linspace(1, 5, 40)
    proxies = np.random.default_rng(0).permutation(values)
    found = powered_mean(np.where(np.arange(40) < 20, proxies, np.nan), proxies[:, None])
    assert found.labels_worth == pytest.approx(40, rel=0.25)
    assert found.mean == pytest.approx(3.0, abs=0.05)


def test_a_proxy_that_is_constant_here_gives_the_mean_of_the_labels():
    labels, _ = ALL
    found = powered_mean(labels, np.column_stack([np.full(20, 7.0)]))
    assert found.mean == pytest.approx(labels[:8].mean())
    assert found.degrees == pytest.approx(7)


def test_equal_labels_have_the_exact_interval_of_a_share_at_their_limits():
    """Five labels of 1 on a scale from 0 to 1: the exact interval of 5 of 5, as ``scipy.stats.binomtest`` has it."""
    found = powered_mean(np.where(np.arange(12) < 5, 1.0, np.nan), np.arange(12.0)[:, None], limits=(0.0, 1.0))
    theirs = scipy.stats.binomtest(5, 5).proportion_ci(0.95, method="exact")
    assert (found.estimate.low, found.estimate.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(
    ("labelled", "k", "said"),
    [(2, 1, "at least 3 labelled tasks"), (5, 4, "with 4 proxies, got 5"), (19, 1, "at least 2 tasks without labels")],
)
def test_too_few_tasks_of_either_kind_are_refused(labelled, k, said):
    random = np.random.default_rng(0)
    with pytest.raises(UserError, match=said):
        powered_mean(np.where(np.arange(20) < labelled, random.normal(size=20), np.nan), random.normal(size=(20, k)))


def test_constant_and_collinear_proxies_are_refused_by_name():
    one = np.arange(9.0)
    with pytest.raises(UserError, match="flat: the same score"):
        check_proxies(np.column_stack([one, np.ones(9)]), ["good", "flat"])
    with pytest.raises(UserError, match="a, c: collinear"):
        check_proxies(np.column_stack([one, one**2, 3 - 2 * one]), ["a", "b", "c"])


def test_the_interval_covers_the_truth_with_few_labels():
    """95 % within Monte-Carlo error; benchmarks/method/calibration.py has the table."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        truth = random.normal(size=60)
        proxies = (0.7 * truth + 0.7 * random.normal(size=60))[:, None]
        found = powered_mean(np.where(np.arange(60) < 12, truth, np.nan), proxies)
        held += found.estimate.low <= 0 <= found.estimate.high
    assert 0.92 < held / 400 < 0.98


# --- drawn tasks -----------------------------------------------------------------------------------------------------


def test_a_draw_has_its_size_and_its_chances():
    sizes = np.array([1.0, 1, 2, 4, np.nan, 40, 3, 1])
    counts = np.zeros(8)
    for seed in range(1500):
        drawn = draw_by_size(sizes, 3, seed=seed)
        assert len(drawn.task) == 3
        counts[drawn.task] += 1
    # 40 is certain; two of the rest by size: 2 / 12 each unit
    assert counts / 1500 == pytest.approx([1 / 6, 1 / 6, 1 / 3, 2 / 3, 0, 1, 1 / 2, 1 / 6], abs=0.05)


def test_tasks_drawn_with_unequal_chances_do_not_bias_the_mean():
    """Over all draws of two of six tasks with these chances the mean of the estimates is that over all tasks."""
    random = np.random.default_rng(5)
    truth, proxies = random.normal(size=10) + np.arange(10), random.normal(size=(10, 1))
    first = np.arange(10) < 4
    sizes = np.where(first, np.nan, np.arange(10.0))
    alone = powered_mean(np.where(first, truth, np.nan), proxies)
    means = []
    for seed in range(500):
        drawn = draw_by_size(sizes, 3, seed=seed)
        labels = np.where(first, truth, np.nan)
        labels[drawn.task] = truth[drawn.task]
        both = powered_mean(labels, proxies, rounds=[drawn])
        means.append((both.mean - 4 / 7 * alone.mean) * 7 / 3)  # the round's own mean
    assert np.mean(means) == pytest.approx(truth.mean(), abs=0.15)


# --- shares ----------------------------------------------------------------------------------------------------------


def test_a_share_is_corrected_as_rogan_and_gladen_say():
    """(0.6 + 0.8 - 1) / (0.8 + 0.9 - 1) = 4 / 7."""
    found = corrected_share(passed=60, n=100, good_passed=18, good=20, bad_failed=8, bad=10)
    assert found.value == pytest.approx(4 / 7)
    assert found.low < 4 / 7 < found.high


def test_a_judge_no_better_than_chance_is_refused():
    found = corrected_share(passed=60, n=100, good_passed=10, good=20, bad_failed=5, bad=10)
    assert found.value is None
    assert "no better than chance" in found.note


def test_the_interval_of_a_corrected_share_covers_the_truth():
    random = np.random.default_rng(2)
    held = made = 0
    for _ in range(1500):
        good, passing = random.binomial(30, 0.6), random.binomial(80, 0.6)
        passed = random.binomial(passing, 0.9) + random.binomial(80 - passing, 0.25)
        right = random.binomial(good, 0.9), random.binomial(30 - good, 0.75)
        found = corrected_share(
            passed=passed, n=80, good_passed=right[0], good=good, bad_failed=right[1], bad=30 - good
        )
        made += 1
        held += found.low <= 0.6 <= found.high
    assert held / made > 0.94
