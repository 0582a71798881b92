"""Absent is not zero: over every fusion of values, what is missing shifts no level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from goldless.metrics.chair import panel_scores, panel_verdicts
from goldless.metrics.judgement_table import PairJudgements, ResponseRatings
from goldless.statistics.additive import contrast_by_task, scores_over_tasks
from goldless.statistics.comparisons import all_pairs, compare_pairs, compare_with
from goldless.statistics.effects import compare_groups

REVIEWERS, TASKS, AGENTS = 3, 12, 4


def ratings_of(values: np.ndarray) -> ResponseRatings:
    """Ratings [reviewers, tasks, agents], all of them requested."""
    names = [tuple(f"{kind}{i}" for i in range(n)) for kind, n in zip("rta", values.shape, strict=True)]
    return ResponseRatings(*names, values, np.ones(values.shape, dtype=bool))


def mean_of_panel(normalisation: str) -> Callable[[np.ndarray], np.ndarray]:
    def scores(values: np.ndarray) -> np.ndarray:
        return panel_scores(ratings_of(values), normalisation=normalisation).score

    return scores


def votes_of_panel(values: np.ndarray) -> np.ndarray:
    """The margins of all pairs of agents, where each reviewer prefers the response it rates higher in either order."""
    low, high = np.triu_indices(values.shape[2], 1)
    sides = np.sign(values[:, :, low] - values[:, :, high]).reshape(len(values), -1)
    value = np.repeat(((sides + 1) / 2)[:, :, None], 2, axis=2)
    task = np.repeat(np.arange(values.shape[1]), len(low))
    names = [tuple(f"{kind}{i}" for i in range(n)) for kind, n in zip("rta", values.shape, strict=True)]
    asked = np.ones(value.shape, dtype=bool)
    numbers = {"task": task, "low": np.tile(low, values.shape[1]), "high": np.tile(high, values.shape[1])}
    return panel_verdicts(PairJudgements(*names, value, asked, **numbers)).margin


def means_of_agents(values: np.ndarray) -> np.ndarray:
    """Each agent's score over tasks, a reviewer taken for an agent: rows of a table with levels of its own."""
    return scores_over_tasks(values.reshape(len(values), -1).T)


FUSIONS = {"raw": mean_of_panel("raw"), "z": mean_of_panel("z"), "votes": votes_of_panel, "additive": means_of_agents}
EACH = pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)


def truth(seed: int) -> np.ndarray:
    """Ratings on a scale from 1 to 5 by reviewers of different levels."""
    random = np.random.default_rng(seed)
    quality = random.normal(size=(TASKS, AGENTS))
    level = np.array([-1.0, 0.0, 1.0])[:, None, None]
    return np.clip(3 + 0.5 * (quality + level + 0.3 * random.normal(size=(REVIEWERS, TASKS, AGENTS))), 1, 5)


@EACH
def test_a_reviewer_without_any_value_changes_nothing(fusion):
    values = truth(1)
    silent = np.full((1, TASKS, AGENTS), np.nan)
    before, after = fusion(values), fusion(np.concatenate([values, silent]))
    assert after[: len(before)] == pytest.approx(before, nan_ok=True)
    assert np.isnan(after[len(before) :]).all()


@EACH
def test_values_removed_at_random_move_the_mean_score_by_noise_only(fusion):
    """Over 40 draws the shift of the mean score is within three standard errors of none."""
    shifts = []
    for seed in range(40):
        values = truth(seed)
        random = np.random.default_rng(1000 + seed)
        lost = random.random(values.shape) < 0.4
        lost[2] |= random.random(lost[2].shape) < 0.5  # the mildest reviewer loses most
        with_gaps = np.where(lost, np.nan, values)
        shifts.append(np.nanmean(fusion(with_gaps)) - np.nanmean(fusion(values)))
    error = np.std(shifts, ddof=1) / np.sqrt(len(shifts))
    assert abs(np.mean(shifts)) <= 3 * error + 1e-12


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_ratings_that_are_missing_because_they_are_high_move_no_raw_score_of_reviewers_that_differ_in_level(share):
    """Without noise the additive fit is exact, so a reviewer's level is not that of what it happened to rate."""
    quality = np.random.default_rng(4).uniform(2, 4, size=(TASKS, AGENTS))
    values = quality + np.array([-1.0, 0.0, 1.0])[:, None, None]
    with_gaps = values.copy()
    with_gaps[2, quality > np.quantile(quality, 1 - share)] = np.nan
    fusion = mean_of_panel("raw")
    on_scale = quality + 1 <= np.nanmax(with_gaps)
    assert fusion(with_gaps)[on_scale] == pytest.approx(quality[on_scale])
    assert on_scale.sum() > 2


@given(arrays(float, (3, 4, 3), elements=st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, np.nan])))
def test_a_raw_score_stays_on_the_scale_whatever_is_missing(values):
    scores = panel_scores(ratings_of(values), normalisation="raw").score
    assert np.isnan(scores[np.isnan(values).all(axis=0)]).all()
    present = scores[~np.isnan(scores)]
    assert ((present >= 1) & (present <= 5)).all()


def test_the_reviewer_that_refused_everything_leaves_the_ratings_of_the_other():
    """Two tasks by two agents; b refused all of it."""
    values = np.array([[[4.0, 5.0], [3.0, 4.0]], [[np.nan] * 2] * 2])
    assert panel_scores(ratings_of(values), normalisation="raw").score.tolist() == [[4.0, 5.0], [3.0, 4.0]]


@pytest.mark.parametrize("normalisation", ["raw", "z"])
@pytest.mark.parametrize("rating", [1.0, 3.0, 5.0])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_a_reviewer_that_gives_some_responses_the_same_rating_changes_no_order(normalisation, rating, share):
    """It prefers none, whatever it lacks: neither what it rated nor what it did not gains or loses a place."""
    values = truth(1)[:1]
    rates = np.random.default_rng(2).random(values.shape) <= share
    rates[0, 0, 0] = True
    indifferent = np.where(rates, rating, np.nan)
    before = mean_of_panel(normalisation)(values)
    after = mean_of_panel(normalisation)(np.concatenate([values, indifferent]))
    if normalisation == "raw":  # a rating as it is counts where it was given
        before, after = before[~rates[0]], after[~rates[0]]
    order = np.argsort(before, axis=None)
    steps_before, steps_after = np.diff(before.ravel()[order]), np.diff(after.ravel()[order])
    assert (np.sign(steps_before) == np.sign(steps_after)).all()


# --- pairs of agents -------------------------------------------------------------------------------------------------


def pairs_that_refuse(seed: int) -> np.ndarray:
    """Scores [tasks, agents] of which the second agent's are the first's, but for one, and missing on hard tasks.

    Agents suffer by hard tasks in different degrees, so the additive fit does not hold.
    """
    random = np.random.default_rng(seed)
    tasks, agents = int(random.integers(8, 31)), int(random.integers(3, 6))
    is_hard = random.random(tasks) < 0.5
    shape = random.lognormal if seed % 2 else random.normal
    values = shape(size=(tasks, agents)) + np.outer(is_hard, random.normal(0, 3, agents))
    values[:, 1] = values[:, 0]
    if seed % 3:
        values[random.integers(tasks), 1] += random.normal()
    values[is_hard, 1] = np.nan
    values[random.random(values.shape) < 0.1 * (seed % 4 == 3)] = np.nan
    return values


def test_no_difference_is_decided_against_what_both_agents_have():
    """Whoever lacks what others find hard is not shown to differ from its equal, nor from its better."""
    seen = 0
    for seed in range(20):
        values = pairs_that_refuse(seed)
        names = [str(agent) for agent in range(values.shape[1])]
        tests = {"seed": seed, "permutations": 499}
        compared = [*compare_pairs(names, all_pairs(values), **tests), *compare_with(names, values, "1", **tests)]
        for pair in compared:
            gaps = values[:, int(pair.first)] - values[:, int(pair.second)]
            if pair.p is not None and np.nanmean(gaps) * pair.difference <= 1e-12:
                seen += 1
                assert pair.p > 0.1
    assert seen > 40


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_strong_member_that_is_missing_on_half_of_the_tasks_does_not_move_the_difference_of_groups():
    """The first group's members have means 40 and 20, the second's 21 and 19, so the difference is 10."""
    random = np.random.default_rng(5)
    values = np.array([40.0, 20.0, 21.0, 19.0]) + random.normal(size=(200, 1)) + 0.1 * random.normal(size=(200, 4))
    complete = compare_groups(values, [0, 1], [2, 3]).difference
    with_gaps = values.copy()
    with_gaps[:100, 0] = np.nan
    found = compare_groups(with_gaps, [0, 1], [2, 3])
    assert complete.value == pytest.approx(10, abs=0.05)
    assert found.difference.value == pytest.approx(complete.value, abs=0.05)
    assert found.difference.low < 10 < found.difference.high
    assert "d_response and AUC are over 100 tasks" in found.notes[-1]


def test_a_group_is_not_shown_to_differ_from_its_equal_by_what_it_lacks():
    """The second agent's scores are the first's, and missing on hard tasks, which a third finds harder still."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        is_hard = np.arange(30) % 2 == 1
        values = random.normal(size=(30, 3)) * 0.1 + np.outer(is_hard, random.normal(0, 3, 3))
        values[:, 1] = np.where(is_hard, np.nan, values[:, 0])
        found = compare_groups(values, [0], [1], resamples=200).difference
        assert found.low <= 0 <= found.high


def test_a_member_without_any_score_counts_for_nothing():
    values = truth(3)[0]
    silent = np.column_stack([values, np.full(TASKS, np.nan)])
    assert compare_groups(silent, [0, 4], [1, 2]) == compare_groups(values, [0], [1, 2])


def test_a_contrast_without_gaps_is_the_weighted_sum_on_each_task():
    values, contrast = truth(4)[0], np.array([0.5, 0.5, -1.0, 0.0])
    assert contrast_by_task(values, contrast) == pytest.approx(values @ contrast)


def test_what_tasks_say_about_a_contrast_has_the_contrast_for_its_mean_and_its_spread():
    """The standard error of the mean is that of leaving out one task after the other."""
    values, contrast = truth(6)[0], np.array([0.5, 0.5, -1.0, 0.0])
    values[0, 0] = values[3, 2] = values[7, 1] = np.nan
    parts = contrast_by_task(values, contrast)
    assert parts.mean() == pytest.approx(scores_over_tasks(values) @ contrast)
    without = [scores_over_tasks(np.delete(values, task, axis=0)) @ contrast for task in range(TASKS)]
    jackknife = np.sqrt((TASKS - 1) / TASKS * np.sum((without - np.mean(without)) ** 2))
    assert parts.std(ddof=1) / np.sqrt(TASKS) == pytest.approx(jackknife, rel=0.2)


def test_where_the_data_chose_the_tasks_a_difference_of_groups_has_no_interval():
    found = compare_groups(truth(2)[0], [0, 1], [2, 3]).of_chosen_tasks()
    for estimate in (found.difference, found.auc_by_task):
        assert estimate.value is not None
        assert (estimate.low, estimate.high, estimate.method) == (None, None, None)
    assert "--until chose the tasks" in found.notes[0]
