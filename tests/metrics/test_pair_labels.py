"""Which of two responses people found better. Expected labels are worked out by hand from the few labels given."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import MetricError
from goldless.metrics.pair_labels import median_ratings, usual_margin
from goldless.records import Preference, Rating
from tests.support.evidence_frames import label_columns, pair_labels_of


def ratings(task, **scores):
    return [
        Rating(task, agent, f"r{i}", score) for agent, given in scores.items() for i, score in enumerate(given, start=1)
    ]


def votes(task, first, second, *preferences):
    return [Preference(task, first, second, f"r{i}", value) for i, value in enumerate(preferences, start=1)]


def signs(labels):
    return {
        (labels.tasks[t], labels.agents[a], labels.agents[b]): s
        for t, a, b, s in zip(labels.task, labels.low, labels.high, labels.sign.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("preferences", "sign"),
    [
        ((0.6, 0.6, 0.0, 0.0, 0.0), 1),  # two for ann
        ((0.6, 0.5, 0.5, 0.5, 0.5), 0),  # one: 0.5 is not beyond 0.5
        ((-1, -1, -1, 2.9, 0.0), -1),  # three less one, however strong
        ((-1, -1, 1, 0.2, 0.1), 0),  # two less one
    ],
)
def test_preferences_vote_where_medians_tie(preferences, sign):
    found = pair_labels_of(ratings("t", ann=[3], bob=[3]) + votes("t", "ann", "bob", *preferences))
    assert signs(found) == {("t", "ann", "bob"): sign}
    assert found.by_preference.tolist() == [sign != 0]


def test_a_preference_counts_from_the_side_it_was_given():
    found = pair_labels_of(ratings("t", ann=[3], bob=[3]) + votes("t", "bob", "ann", 1, 1))
    assert signs(found) == {("t", "ann", "bob"): -1}


def test_the_margin_of_votes_is_an_option():
    rated, compared = ratings("t", ann=[3], bob=[3]), votes("t", "ann", "bob", 0.6)
    assert signs(pair_labels_of(rated + compared)) == {("t", "ann", "bob"): 0}
    found = pair_labels_of(rated + compared, least_margin=1)
    assert signs(found) == {("t", "ann", "bob"): 1}


def test_labels_that_contradict_each_other_are_marked_and_ratings_hold():
    rated, compared = ratings("t", ann=[5], bob=[1]), votes("t", "ann", "bob", -1, -1)
    found = pair_labels_of(rated + compared)
    assert (signs(found)["t", "ann", "bob"], found.n_contradicted) == (1, 1)


def test_a_rater_who_says_both_has_no_vote_and_one_who_repeats_has_one():
    rated = ratings("t", ann=[3], bob=[3])
    both = [Preference("t", "ann", "bob", "r1", 1), Preference("t", "bob", "ann", "r1", 1)]
    twice = [Preference("t", "ann", "bob", "r1", 1)] * 2
    assert signs(pair_labels_of(rated + both, least_margin=1)) == {("t", "ann", "bob"): 0}
    assert signs(pair_labels_of(rated + twice)) == {("t", "ann", "bob"): 0}


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=2, max_size=5))
def test_medians_are_those_of_the_statistics_module(given_scores):
    rows = ratings("t", **{f"a{i}": scores for i, scores in enumerate(given_scores)})
    agents = [f"a{i}" for i in range(len(given_scores))]
    table = median_ratings(label_columns(*rows), tasks=["t"], agents=agents)
    assert table[0].tolist() == [statistics.median(scores) for scores in given_scores]


# --- margin --------------------------------------------------------------------------------------------------------


def agreed(*counts):
    """So many raters on the pair of each task."""
    return label_columns(
        *(
            Preference(f"t{task}", "ann", "bob", f"p{rater}", 1.0)
            for task, count in enumerate(counts)
            for rater in range(count)
        )
    )


def test_most_pairs_with_fewer_than_three_votes_are_decided_by_one_and_always_by_two_in_the_papers():
    assert usual_margin(agreed(1, 1, 5)) == 1
    assert usual_margin(agreed(2, 3, 3)) == 2
    assert usual_margin(agreed(1, 1, 5), convention="paper") == 2
    assert usual_margin(agreed()) == 2


def test_labels_of_several_criteria_are_refused():
    labels = [Rating("t", "ann", "r", 1.0, criterion) for criterion in ("depth", "style")]
    with pytest.raises(MetricError, match=r"2 criteria \(depth, style\)"):
        pair_labels_of(labels)
