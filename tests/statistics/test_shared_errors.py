"""Effective votes: closed forms, and the correlations of numpy and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import pearsonr

from goldless.statistics.shared_errors import effective_votes, kish

FAST = {"resamples": 200}


def judged(seed=0, judges=4, tasks=12, each=5, shared=0.5):
    """Errors of judges, 0 or 1: some are everybody's, and the tasks they are on."""
    random = np.random.default_rng(seed)
    items = tasks * each
    common = random.random(items) < 0.4
    own = random.random((judges, items)) < 0.4
    values = np.where(random.random((judges, items)) < shared, common, own).astype(float)
    return values, np.repeat(np.arange(tasks), each)


def names(values):
    return [f"j{i}" for i in range(len(values))]


@pytest.mark.parametrize(
    ("judges", "correlation", "votes"), [(1, 0.7, 1), (10, 0, 10), (10, 1, 1), (9, 0.5, 9 / 5), (3, -0.4, 3)]
)
def test_kish_in_closed_form(judges, correlation, votes):
    assert kish(judges, correlation) == pytest.approx(votes)


def test_the_correlation_is_the_mean_of_numpys_over_all_two_judges():
    values, task = judged()
    expected = np.corrcoef(values)[np.triu_indices(4, 1)].mean()
    found = effective_votes(values, task, names(values), **FAST)
    assert found.correlation == pytest.approx(expected)
    assert found.votes.value == pytest.approx(4 / (1 + 3 * expected))
    assert (found.votes.n, found.votes.n_tasks, found.judges, found.votes.note) == (60, 12, 4, None)
    assert 1 <= found.votes.low < found.votes.value < found.votes.high <= 4


def test_two_judges_are_compared_on_what_both_judged():
    """scipy's Pearson correlation, pair of judges by pair of judges."""
    values, task = judged()
    values[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    both = [(a, b, ~np.isnan(a) & ~np.isnan(b)) for a, b in itertools.combinations(values, 2)]
    expected = np.mean([pearsonr(a[kept], b[kept])[0] for a, b, kept in both])
    found = effective_votes(values, task, names(values), **FAST)
    assert found.correlation == pytest.approx(expected)
    assert (found.between[0].first, found.between[0].second) == ("j0", "j1")
    assert found.between[0].n == both[0][2].sum()


def test_around_a_centre_it_does_not_matter_which_of_a_pair_is_named_first():
    values, task = judged()
    turned = np.random.default_rng(2).random(values.shape[1]) < 0.5
    other = np.where(turned, 1 - values, values)
    found = [effective_votes(one, task, names(one), centre=0.5, **FAST) for one in (values, other)]
    assert found[0].votes.value == pytest.approx(found[1].votes.value)
    mirrored = np.corrcoef(np.hstack([values, 1 - values]))[np.triu_indices(4, 1)].mean()
    assert found[0].correlation == pytest.approx(mirrored)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Two of these errors are equal with probability s^2 beyond chance, and that is their correlation."""
    truth, held = kish(4, 0.25), 0
    for seed in range(60):
        values, task = judged(seed=seed, tasks=30)
        found = effective_votes(values, task, names(values), **FAST)
        held += found.votes.low <= truth <= found.votes.high
    assert held >= 52, "95 % of 60 are 57; fewer than 52 happen once in a hundred times"


def test_a_judge_that_always_says_the_same_is_left_out_and_named():
    values, task = judged()
    values[2] = 0.5
    found = effective_votes(values, task, ["a", "b", "constant", "d"], **FAST)
    assert found.judges == 3
    assert "every pair: constant" in found.votes.note
