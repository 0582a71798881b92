"""Correlations over few agents, against SciPy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from goldless.errors import UserError
from goldless.gre_bench.agent_statistics import Inference, agent_correlations, corrected, fisher_interval

FAST = {"inference": Inference(permutations=500)}


def columns(n, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    y = x + random.normal(size=n)
    names = [f"a{i}" for i in range(n)]
    return dict(zip(names, x.tolist(), strict=True)), dict(zip(names, y.tolist(), strict=True))


def test_values_and_pearsons_interval_are_scipys():
    x, y = columns(12)
    pearson, spearman, kendall = agent_correlations(x, y, **FAST)
    first, second = list(x.values()), list(y.values())
    expected = stats.pearsonr(first, second)
    assert pearson.value == pytest.approx(expected.statistic)
    assert (pearson.low, pearson.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert spearman.value == pytest.approx(stats.spearmanr(first, second).statistic)
    assert kendall.value == pytest.approx(stats.kendalltau(first, second).statistic)


def test_intervals_of_ranks_are_those_of_bonett_and_wright_and_of_fieller():
    """By hand for r = .5, n = 13: artanh .5 = .549306; 1.959964 times the root of 1.125 / 10, and of .437 / 9."""
    middle, quantile = 0.549306, 1.959964
    for coefficient, variance in (("spearman", 0.1125), ("kendall", 0.437 / 9)):
        low, high, note = fisher_interval(0.5, 13, coefficient, level=0.95)
        assert low == pytest.approx(math.tanh(middle - quantile * math.sqrt(variance)), abs=1e-6)
        assert high == pytest.approx(math.tanh(middle + quantile * math.sqrt(variance)), abs=1e-6)
        assert note is None


def test_p_of_few_agents_is_that_of_all_pairings():
    """SciPy tries all pairings of 6 agents, too."""
    x, y = columns(6, seed=3)
    found = agent_correlations(x, y, **FAST)
    expected = stats.permutation_test(
        (list(x.values()),),
        lambda a: stats.pearsonr(a, list(y.values())).statistic,
        permutation_type="pairings",
        alternative="two-sided",
        n_resamples=np.inf,
    )
    both_sides = np.mean(np.abs(expected.null_distribution) >= abs(expected.statistic) - 1e-9)
    assert found[0].p == pytest.approx(both_sides)
    # 3 agents in perfect order: of 6 pairings 2 are perfect, one each way
    assert agent_correlations({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}, **FAST)[1].p == pytest.approx(1 / 3)


def test_p_of_random_pairings_is_never_zero_and_the_same_for_the_same_seed():
    x = {f"a{i}": float(i) for i in range(12)}
    found = agent_correlations(x, x, **FAST)
    assert found[0].p == pytest.approx(1 / 501)
    assert agent_correlations(*columns(12), **FAST) == agent_correlations(*columns(12), **FAST)


def test_the_order_in_which_agents_come_changes_nothing():
    x, y = columns(12)
    turned = dict(reversed(x.items()))
    assert agent_correlations(turned, y, **FAST) == agent_correlations(x, y, **FAST)


def test_what_is_not_defined_or_has_no_interval_says_why():
    flat = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert (
        agent_correlations(flat, {"a": 1, "b": 2, "c": 3}, **FAST)[0].note
        == "not defined: all agents have the same value"
    )
    assert agent_correlations({"a": 1, "b": 2}, flat, **FAST)[0].note == "fewer than 3 agents in both"
    assert fisher_interval(0.5, 3, "pearson", level=0.95) == (None, None, "no interval: n = 3")
    assert fisher_interval(1.0, 9, "pearson", level=0.95) == (None, None, "no interval: the coefficient is 1")


def test_holm_corrects_each_coefficient_by_itself():
    """Two tests: the smaller p counts twice, by hand."""
    one, other = agent_correlations(*columns(12), **FAST), agent_correlations(*columns(12, seed=5), **FAST)
    first, second = corrected([one, other])
    for a, b in zip(first, second, strict=True):
        assert min(a.p_holm, b.p_holm) == pytest.approx(min(1, 2 * min(a.p, b.p)))


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"permutations": 0}, {"seed": -1}])
def test_settings_that_make_no_sense_are_told(wrong):
    with pytest.raises(UserError, match=r"must be .*, got"):
        Inference(**wrong)
