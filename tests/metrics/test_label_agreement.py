"""Agreement with labels, against hand-worked credits, scipy, and a bootstrap written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from goldless.metrics.chair import PanelScores, reviewer_scores
from goldless.metrics.label_agreement import (
    Judge,
    accuracies,
    compare_all_credits,
    panel_judge,
    rank_agreement,
    reviewer_judges,
)
from goldless.records import Rating
from goldless.statistics.comparisons import holm
from tests.support.evidence_frames import pair_judgements_from_columns, pair_labels_of, response_ratings_from_columns


def accuracy_of(earned, **draws):
    return accuracies([earned], **draws)[0]


def credits_of_r(table, labels, convention="default"):
    """Of a table of one reviewer."""
    (judge,) = reviewer_judges(table, convention=convention)
    return judge.credits(labels, convention)


LABELS = pair_labels_of([Rating("t", a, "p", s) for a, s in (("ann", 3), ("bob", 2), ("cy", 1), ("di", 1))])
"""ann above bob above cy and di, who tie."""
NAMES = {"tasks": LABELS.tasks, "agents": LABELS.agents}


def compared(rows):
    """(first, second, value) on task t by reviewer r."""
    first, second, value = zip(*rows, strict=True)
    return pair_judgements_from_columns(["r"] * len(rows), ["t"] * len(rows), first, second, value, **NAMES)


def test_each_order_of_a_reviewer_is_scored_on_its_own():
    """ann-bob 1 and 1; ann-cy 1 and 0; bob-cy 0.5 and 1, so (1 + 0.5 + 0.75) / 3. cy-di is a tie and not asked."""
    rows = [
        ("ann", "bob", 1),
        ("bob", "ann", 0),
        ("ann", "cy", 1),
        ("cy", "ann", 1),
        ("bob", "cy", 0.5),
        ("cy", "bob", 0),
        ("cy", "di", 1),
        ("di", "cy", 1),
    ]
    found = accuracy_of(credits_of_r(compared(rows), LABELS))
    assert found.share.value == pytest.approx(2.25 / 3)
    assert (found.n_pairs, found.asked, found.share.n, found.tied) == (5, 3, 3, 1)
    # one vote of both orders: 1, a tie, 1
    assert accuracy_of(panel_judge(compared(rows)).credits(LABELS)).share.value == pytest.approx(2.5 / 3)


def test_a_panel_s_votes_in_each_order_are_scored_on_their_own():
    """Three reviewers on ann-bob: two of three right with ann first (1), one of three with bob first (0).

    Both orders together: three votes of six, a tie. One reviewer alone is scored as a single reviewer is.
    """
    first, second = ["ann", "bob"] * 3, ["bob", "ann"] * 3
    reviewers = ["r", "r", "s", "s", "q", "q"]
    rows = pair_judgements_from_columns(reviewers, ["t"] * 6, first, second, [1, 1, 1, 1, 0, 0], **NAMES)
    found = accuracy_of(panel_judge(rows).credits(LABELS))
    assert (found.share.value, found.each_order) == (0.5, (1 + 0) / 2)
    alone = accuracy_of(panel_judge(rows, weights={"r": 1.0}).credits(LABELS))
    assert alone.each_order == accuracy_of(credits_of_r(rows.of(["r"]), LABELS)).share.value == 0.5


def test_accuracy_by_task_counts_every_task_alike():
    """Task t: ann over bob, cy and di, bob over cy and di right: 5 of 5. Task u: its only pair wrong."""
    labels = pair_labels_of(
        [Rating("t", a, "p", s) for a, s in (("ann", 3), ("bob", 2), ("cy", 1), ("di", 1))]
        + [Rating("u", a, "p", s) for a, s in (("ann", 1), ("bob", 2))]
    )
    scores = PanelScores(
        ("t", "u"),
        ("ann", "bob", "cy", "di"),
        np.array([[4.0, 3, 2, 1], [2, 1, np.nan, np.nan]]),
        np.ones((2, 4), dtype=np.int64),
        np.ones((2, 4), dtype=np.int64),
    )
    found = accuracy_of(Judge("m", "scores", scores).credits(labels))
    assert (found.share.value, found.by_task) == (5 / 6, (1 + 0) / 2)


def test_a_missing_order_is_left_out_by_default_and_half_right_in_the_papers():
    rows = compared([("ann", "bob", 1), ("bob", "ann", None), ("ann", "cy", 1), ("cy", "ann", 0)])
    default = accuracy_of(credits_of_r(rows, LABELS))
    assert (default.share.value, default.asked, default.share.n, default.missing) == (1, 2, 1, 1)
    paper = accuracy_of(credits_of_r(rows, LABELS, "paper"))
    assert (paper.share.value, paper.share.n, paper.missing) == ((0.75 + 1) / 2, 2, 0)


def test_of_two_ratings_the_higher_is_better_and_equal_ones_are_half_right():
    """ann-bob right, ann-cy tied, ann-di missing, bob-cy wrong, bob-di missing; in the papers di has 0: both right."""
    ratings = response_ratings_from_columns(["r"] * 4, ["t"] * 4, ["ann", "bob", "cy", "di"], [4, 3, 4, None])
    default = accuracy_of(credits_of_r(ratings, LABELS))
    assert (default.share.value, default.asked, default.share.n, default.tied) == (0.5, 5, 3, 1)
    paper = accuracy_of(credits_of_r(ratings, LABELS, "paper"))
    assert (paper.share.value, paper.share.n) == ((1 + 0.5 + 1 + 0 + 1) / 5, 5)
    assert accuracy_of(Judge("m", "scores", reviewer_scores(ratings, "r")).credits(LABELS)).share.value == 0.5


def many_tasks(seed, tasks=60, right=0.7):
    """Labels of three agents on many tasks, and a reviewer that is right in clumps."""
    random = np.random.default_rng(seed)
    rows, human = [], []
    for t in range(tasks):
        luck = random.uniform(right - 0.3, right + 0.3)
        human += [Rating(f"t{t}", agent, "p", score) for agent, score in (("ann", 3), ("bob", 2), ("cy", 1))]
        for first, second in (("ann", "bob"), ("ann", "cy"), ("bob", "cy"))[: random.integers(1, 4)]:
            rows.append((f"t{t}", first, second, float(random.uniform() < luck)))
    task, first, second, value = zip(*rows, strict=True)
    labels = pair_labels_of(human)
    names = {"tasks": labels.tasks, "agents": labels.agents}
    return pair_judgements_from_columns(["r"] * len(rows), task, first, second, value, **names), labels


def test_the_interval_is_wider_than_if_pairs_were_independent_and_near_the_plain_task_bootstrap():
    judgements, labels = many_tasks(1)
    own = credits_of_r(judgements, labels)
    found = accuracy_of(own, resamples=4000)
    random = np.random.default_rng(5)
    groups = [own.credit[(labels.task == t) & ~np.isnan(own.credit)] for t in range(60)]
    drawn = [np.concatenate([groups[t] for t in random.integers(60, size=60)]).mean() for _ in range(4000)]
    assert (found.share.low, found.share.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)
    assert found.share.value == pytest.approx(np.nanmean(own.credit))
    assert found.share.n_tasks == 60


def test_a_judge_is_not_compared_with_itself_by_a_test():
    judgements, labels = many_tasks(1)
    own = credits_of_r(judgements, labels)
    (found,) = compare_all_credits([own, own], resamples=100)
    assert (found.difference.value, found.p_pairs) == (0, None)


def scores(table):
    table = np.array(table, dtype=float)
    tasks, agents = (tuple(f"{letter}{i}" for i in range(n)) for letter, n in zip("ta", table.shape, strict=True))
    ones = np.ones(table.shape, dtype=np.int64)
    return PanelScores(tasks, agents, table, ones, ones)


def human(table):
    like = scores(table)
    return like.score


def test_a_task_without_a_correlation_is_left_out_by_default_and_zero_in_the_papers():
    first, second = scores([[1, 2, 3], [2, 2, 2], [3, 2, 1]]), human([[1, 2, 3], [1, 2, 3], [3, 2, np.nan]])
    assert rank_agreement(first, second) == 1
    assert rank_agreement(first, second, convention="paper") == pytest.approx(2 / 3)
    assert rank_agreement(first, second, coefficient="kendall") == pytest.approx(2 / 3)


def test_all_judges_are_compared_two_by_two_with_a_test_over_tasks():
    """Twelve tasks: all 4096 flips of the tasks' sums, written out."""
    labels = pair_labels_of([Rating(f"t{t}", a, "p", s) for t in range(12) for a, s in (("x", 3), ("y", 2), ("z", 1))])
    random = np.random.default_rng(4)
    judges = []
    for name, right in (("good", 0.9), ("fair", 0.6), ("poor", 0.3)):
        rows = [(f"t{t}", a, b) for t in range(12) for a, b in (("x", "y"), ("x", "z"), ("y", "z"))]
        task, first, second = zip(*rows, strict=True)
        value = (random.random(36) < right).astype(float)
        names = {"tasks": labels.tasks, "agents": labels.agents}
        own = pair_judgements_from_columns([name] * 36, task, first, second, value, **names)
        judges.append(credits_of_r(own, labels))
    found = compare_all_credits(judges, resamples=300)
    assert [(c.first, c.second) for c in found] == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    ps = []
    for c in found:
        one, other = ({j.name: j for j in judges}[name] for name in (c.first, c.second))
        sums = (one.credit - other.credit).reshape(12, 3).sum(axis=1)
        flips = np.array([[1 - 2 * (i >> k & 1) for k in range(12)] for i in range(4096)]) @ sums
        ps.append(np.mean(np.abs(flips) >= abs(sums.sum()) - 1e-9))
        assert c.difference.value == pytest.approx(sums.sum() / 36)
        assert c.p_pairs == pytest.approx(ttest_rel(one.credit, other.credit).pvalue)
        assert (c.difference.n, c.difference.n_tasks) == (36, 12)
    assert [c.p for c in found] == pytest.approx(ps)
    assert [c.p_holm for c in found] == pytest.approx(holm(ps))
    assert compare_all_credits(judges[:1]) == []
