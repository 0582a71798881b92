"""Dawid and Skene's model against crowd-kit; judge-aware Bradley-Terry by its own first-order conditions."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from goldless.statistics.vote_models import both_sides, dawid_skene, judge_aware_bradley_terry

ACCURACIES = (0.85, 0.8, 0.8, 0.75, 0.7, 0.65, 0.6)
CROWD_KIT_HITS = (0.849993, 0.786401, 0.755110, 0.759712, 0.761068, 0.636966, 0.586991)
CROWD_KIT_FALSE_ALARMS = (0.159156, 0.220524, 0.266330, 0.343250, 0.273611, 0.325214, 0.324983)
CROWD_KIT_CHANCES = (0.994103, 0.934200, 0.058104, 0.009911, 0.003380)
"""Of crowd-kit 1.4.2, DawidSkene(n_iter=1000, tol=1e-12), on these votes; chances of the first five items."""


def share(*words) -> float:
    """A number between 0 and 1 that is the same everywhere."""
    return hashlib.sha256(" ".join(map(str, words)).encode()).digest()[0] / 256


def votes() -> np.ndarray:
    """Votes of seven judges on 300 items."""
    truth = [share("truth", i) < 0.45 for i in range(300)]
    said = [[t if share(i, j) < a else not t for j, a in enumerate(ACCURACIES)] for i, t in enumerate(truth)]
    return np.array(said, dtype=float)


def test_rates_and_posteriors_are_crowd_kits():
    found = dawid_skene(votes())
    assert found.hits == pytest.approx(CROWD_KIT_HITS, abs=1e-5)
    assert found.false_alarms == pytest.approx(CROWD_KIT_FALSE_ALARMS, abs=1e-5)
    assert found.chance[:5] == pytest.approx(CROWD_KIT_CHANCES, abs=1e-5)
    assert found.chance.mean() == pytest.approx(0.464428, abs=1e-5)


def test_the_same_with_crowd_kit_itself_where_votes_are_missing():
    aggregation = pytest.importorskip("crowdkit.aggregation")
    pandas = pytest.importorskip("pandas")
    said = votes()
    said[np.add.outer(np.arange(300), np.arange(7)) % 5 == 0] = np.nan
    rows = [(i, j, int(said[i, j])) for i, j in zip(*np.nonzero(~np.isnan(said)), strict=True)]
    theirs = aggregation.DawidSkene(n_iter=1000, tol=1e-12).fit(
        pandas.DataFrame(rows, columns=["task", "worker", "label"])
    )
    assert dawid_skene(said).chance == pytest.approx(theirs.probas_[1].to_numpy(), abs=1e-5)


def test_seen_from_both_sides_the_result_does_not_depend_on_who_is_named_first():
    said = votes()
    turned = np.array([share("turned", i) < 0.5 for i in range(len(said))])
    other = np.where(turned[:, None], 1 - said, said)
    ours, theirs = dawid_skene(both_sides(said)), dawid_skene(both_sides(other))
    assert ours.accuracy == pytest.approx(theirs.accuracy, abs=1e-6)
    assert ours.hits == pytest.approx(1 - ours.false_alarms, abs=1e-6)


def pairs():
    """Every two of five responses to each of 30 tasks, and votes of three judges: sharp, blunt, and a coin."""
    strength = np.array([2.0, 1.0, 0.0, -1.0, -2.0])
    low, high = np.triu_indices(5, 1)
    first = np.concatenate([5 * task + low for task in range(30)])
    second = np.concatenate([5 * task + high for task in range(30)])
    gap = np.tile(strength[low] - strength[high], 30)
    chance = 1 / (1 + np.exp(-gap[:, None] * np.array([3.0, 1.0, 0.0])))
    said = np.array([[share("bt", i, j) < p for j, p in enumerate(row)] for i, row in enumerate(chance)], dtype=float)
    return said, first, second


def test_a_sharp_judge_tells_responses_apart_better_than_a_blunt_one_and_a_coin_least():
    sharp, blunt, coin = judge_aware_bradley_terry(*pairs()).discrimination
    assert sharp > blunt > coin
