"""Length and format: what is counted in a text, and whether judges prefer it at equal human label."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr

from goldless.meta_evaluation.bias.features import (
    Feature,
    People,
    count_format_marks,
    count_words,
    feature_rows,
    within_correlation,
)
from goldless.meta_evaluation.bias.votes import PairGrid, Verdicts, Votes, votes_of
from goldless.meta_evaluation.judges import scoring_judge

DRAWS = {"seed": 0, "resamples": 300, "level": 0.95}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("One, two - three.", 3),
        ("Don't count well-known words twice", 5),
        ("\u8fd9\u662f good", 3),
        ("a_b 3.5", 3),
    ],
)
def test_words_are_counted_as_a_reader_would(text, words):
    assert count_words(text) == words


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Plain text. 2 * 3 * 4 = 24, snake__case__name, - dash in a line.", 0),
        ("# Title\n\n## Part\ntext", 2),
        ("- one\n* two\n+ three\n\u2022 four\n1. five\n12) six", 6),
        ("2016. A year is no list item, nor is #hashtag", 0),
        ("**bold** and __also bold__ and <strong>this</strong>", 3),
        ("| a | b |\n| c | d |", 2),
        ("- **both** a list item and bold", 2),
        ("---\n***", 0),
    ],
)
def test_format_marks_are_headings_list_items_bold_and_table_rows(text, marks):
    assert count_format_marks(text) == marks


@pytest.mark.parametrize("text", ["**" * 50_000, "| " * 50_000, "- " * 50_000, "__a" * 50_000, " " * 100_000])
def test_hostile_texts_are_counted_without_trouble(text):
    assert count_format_marks(text) >= 0
    assert count_words(text) >= 0


# --- three tasks repeated four times: in each a is longest, c shortest -------------------------------------------

TIMES = 4
LENGTHS = np.array([[3.0, 2.0, 1.0]] * 3 * TIMES)
GRID = PairGrid(tuple(f"t{i}" for i in range(3 * TIMES)), ("a", "b", "c"))  # pairs: ab, ac, bc


def length():
    return Feature("length", "longer", "log words", LENGTHS)


def judge(vote, name="j"):
    value = np.tile(np.array(vote, dtype=float), (TIMES, 1))
    asked = np.ones(value.shape, dtype=bool)
    return Votes(name, "reviewer", value, asked, (Verdicts(value, asked),))


def people(verdicts):
    return People(np.tile(np.array(verdicts, dtype=float), (TIMES, 1)), None)


def found(judges, said):
    rows, unavailable = feature_rows(length(), GRID, judges, said, draws=DRAWS)
    return {(row.judge, row.measure.partition(", ")[2]): row for row in rows}, unavailable


def test_the_longer_one_winning_is_counted_among_ties_and_balanced_over_what_people_prefer():
    # people: t0 ab tied, ac longer, bc shorter; t1 all tied; t2 longer, longer, no label
    said = people([[0.5, 1, 0], [0.5, 0.5, 0.5], [1, 1, np.nan]])
    # the judge: t0 longer, longer, longer; t1 longer, tie, shorter; t2 longer, missing, longer
    rows, unavailable = found([judge([[1, 1, 1], [1, 0.5, 0], [1, np.nan, 1]])], said)
    tied, adjusted, raw = rows["j", "tied by people"], rows["j", "adjusted"], rows["j", "all pairs"]
    assert not unavailable
    assert (tied.value, tied.used, tied.asked) == (pytest.approx((1 + 1 + 0.5 + 0) / 4), 16, 16)
    # where people prefer the longer: t0 ac 1, t2 ab 1; the shorter: t0 bc 1: the mean of 1 and 1
    assert (adjusted.value, adjusted.used, adjusted.asked) == (pytest.approx(1.0), 12, 16)
    assert adjusted.neutral == tied.neutral == 0.5
    assert (raw.value, raw.used, raw.neutral) == (pytest.approx(6.5 / 8), 32, None)
    own = rows["people", "all pairs"]
    assert (own.value, own.used) == (pytest.approx((0.5 + 1 + 0 + 1.5 + 1 + 1) / 8), 32)


def test_a_judge_that_errs_alike_in_both_directions_is_balanced_however_often_it_errs():
    said = people([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
    # people find the longer better 6 times and the shorter 3 times; the judge errs on 2 of 6 and on 1 of 3
    rows, _ = found([judge([[0, 1, 0], [0, 1, 0], [1, 1, 1]])], said)
    assert rows["j", "adjusted"].value == pytest.approx((4 / 6 + 1 / 3) / 2)
    assert not rows["j", "adjusted"].shown


def test_without_labels_only_the_raw_rate_is_shown_and_the_reason_said():
    rows, (unavailable,) = found([judge([[1, 1, 1]] * 3)], None)
    assert set(rows) == {("j", "all pairs")}
    assert rows["j", "all pairs"].neutral is None
    assert rows["j", "all pairs"].shown is None
    assert "no labels" in unavailable.reason


def test_where_no_two_responses_differ_there_is_nothing_to_measure():
    same = Feature("format", "more marked-up", "format marks", np.zeros(LENGTHS.shape))
    rows, (unavailable,) = feature_rows(same, GRID, [judge([[1, 1, 1]] * 3)], None, draws=DRAWS)
    assert not rows
    assert "no two responses to a task differ in format marks" in unavailable.reason


def test_a_metric_that_is_length_itself_always_prefers_the_longer_at_equal_label():
    scores = {(t, a): LENGTHS[0][i] for t in GRID.tasks for i, a in enumerate(GRID.agents)}
    metric = votes_of(scoring_judge("length", "metric", scores, tasks=GRID.tasks, agents=GRID.agents), GRID)
    flat = People(np.full(GRID.shape, 0.5), np.ones(LENGTHS.shape))
    rows, _ = feature_rows(length(), GRID, [metric], flat, draws=DRAWS)
    by_measure = {row.measure: row for row in rows if row.judge == "length"}
    assert by_measure["longer wins, tied by people"].value == 1
    assert by_measure["longer wins, tied by people"].shown is True
    assert by_measure["correlation with log words, at equal rating"].value == pytest.approx(1)


def simulated(tasks=60, agents=7, seed=3):
    random = np.random.default_rng(seed)
    ratings = random.integers(1, 4, (tasks, agents)).astype(float)
    feature = random.normal(size=(tasks, agents)) + 0.5 * ratings
    scores = 0.4 * feature + ratings + random.normal(size=(tasks, 1)) + random.normal(size=(tasks, agents))
    scores[random.random((tasks, agents)) < 0.1] = np.nan
    return scores, feature, ratings


def dummy_residuals(scores, feature, ratings):
    """Task of each response, and residuals of least squares of feature and score on a dummy for each task and rating.

    Responses alone in their group are left out.
    """
    at = [(task, agent) for task, agent in np.ndindex(scores.shape) if not np.isnan(scores[task, agent])]
    groups = {name: i for i, name in enumerate(dict.fromkeys((task, ratings[task, agent]) for task, agent in at))}
    dummies = np.zeros((len(at), len(groups)))
    dummies[np.arange(len(at)), [groups[task, ratings[task, agent]] for task, agent in at]] = 1
    kept = dummies[:, dummies.sum(axis=0) > 1].any(axis=1)
    dummies = dummies[kept]
    columns = [np.array([table[cell] for cell in at])[kept] for table in (feature, scores)]
    left = [column - dummies @ np.linalg.lstsq(dummies, column, rcond=None)[0] for column in columns]
    return np.array([task for task, _ in at])[kept], *left


def test_the_correlation_at_equal_rating_is_that_of_residuals_on_dummies():
    scores, feature, ratings = simulated()
    share, asked = within_correlation(scores, feature, ratings, draws=DRAWS)
    _, x, y = dummy_residuals(scores, feature, ratings)
    assert share.value == pytest.approx(pearsonr(x, y).statistic)
    assert share.n == len(x)
    assert asked > len(x)


def test_the_interval_of_the_correlation_is_near_a_plain_bootstrap_of_whole_tasks():
    scores, feature, ratings = simulated()
    share, _ = within_correlation(scores, feature, ratings, draws={"seed": 0, "resamples": 2000, "level": 0.9})
    task, x, y = dummy_residuals(scores, feature, ratings)
    places = [np.flatnonzero(task == one) for one in range(len(scores))]
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(1000):
        chosen = np.concatenate([places[one] for one in random.integers(len(places), size=len(places))])
        drawn.append(x[chosen] @ y[chosen] / np.sqrt((x[chosen] @ x[chosen]) * (y[chosen] @ y[chosen])))
    assert (share.low, share.high) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])), abs=0.03)


def test_groups_in_which_the_feature_is_the_same_for_all_say_nothing():
    scores, feature = np.array([[1.0, 2.0], [5.0, 9.0]]), np.array([[1.0, 2.0], [3.0, 3.0]])
    share, asked = within_correlation(scores, feature, None, draws=DRAWS)
    assert (share.value, share.n, share.n_tasks, asked) == (pytest.approx(1.0), 2, 1, 2)
    assert share.low is None
    assert "exact function of the feature" in share.note


def test_a_score_that_does_not_vary_has_no_correlation():
    share, _ = within_correlation(np.ones((3, 2)), np.array([[1.0, 2.0]] * 3), None, draws=DRAWS)
    assert share.value is None
    assert "does not vary" in share.note
