"""TVD-MI between raters: tables by hand, scipy's expected counts, exact permutations, and recorded clinicians."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats.contingency import crosstab, expected_freq

from goldless.errors import MetricError
from goldless.metrics.label_information import category_labels, label_information
from goldless.studies import read_study
from goldless.studies.frames import NO_LABELS


def labels_frame(*labels) -> pl.DataFrame:
    """Rater, task, agent and category of each label."""
    rows = [(rater, task, f"{task}\n{agent}", float(category)) for rater, task, agent, category in labels]
    names = dict.fromkeys(("rater", "task", "item"), pl.String)
    return pl.DataFrame(rows, {**names, "category": pl.Float64}, orient="row")


def labelled(**by_rater) -> pl.DataFrame:
    """Labels of each rater, item after item; None: not labelled."""
    return labels_frame(
        *(
            (rater, f"t{i}", "x", category)
            for rater, row in by_rater.items()
            for i, category in enumerate(row)
            if category is not None
        )
    )


def label_table(*rows) -> pl.DataFrame:
    """A study's labels."""
    return pl.DataFrame(rows, NO_LABELS.schema)


def of_criterion(study, criterion) -> pl.DataFrame:
    return category_labels(study.label_table).filter(criterion=criterion)


def overall(permutations=200, **by_rater):
    return label_information(labelled(**by_rater), permutations=permutations).overall


# --- groups of raters -----------------------------------------------------------------------------------


def test_a_group_is_the_mean_over_its_raters_of_their_mean_with_all_others():
    """The TVD-MI paper, table 3: All is the mean over the raters, (5 x .110 + .035 + .020) / 7 = .086 on correctness.

    Here a, b and m: pairs a-b ½ (the same), a-m and b-m 0 (independent): a and b ¼ each, m 0, all (¼ + ¼ + 0) / 3.
    """
    rows = {"a": [0, 0, 1, 1] * 6, "b": [0, 0, 1, 1] * 6, "m": [0, 1, 0, 1] * 6}
    groups = {"a": "people", "b": "people", "m": "model"}
    found = label_information(labelled(**rows), permutations=200, groups=groups).groups
    values = {one.group: one.information.value for one in found}
    assert values == pytest.approx({None: 0.5 / 3, "people": 0.25, "model": 0})
    assert [one.raters for one in found] == [3, 2, 1]
    # the design is balanced: without any one of the tasks all values are the same
    assert {(one.estimate.low, one.estimate.note) for one in found} == {
        (None, "no interval: all tasks give the same value")
    }
    people = next(one for one in found if one.group == "people")
    assert people.information.p < 0.05 < next(one for one in found if one.group == "model").information.p
    with pytest.raises(MetricError, match="no label by rater 'x'"):
        label_information(labelled(**rows), permutations=200, groups={"x": "people"})


def test_all_clinicians_as_one_group_have_the_mean_over_their_pairs(recorded):
    """With all raters alike in partners, the mean over raters is the mean over pairs: completeness .143."""
    labels = of_criterion(read_study(recorded / "chq_readers"), "completeness")
    groups = dict.fromkeys(labels["rater"], "Human")
    whole, human = label_information(labels, items="complete", permutations=200, groups=groups).groups
    assert round(whole.information.value, 3) == 0.143
    assert (whole.information, whole.raters) == (human.information, human.raters)
    assert human.estimate.low < 0.143 < human.estimate.high


# --- the value ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_the_value_is_the_one_that_scipys_expected_counts_give(pairs):
    a, b = zip(*pairs, strict=True)
    counts = np.atleast_2d(crosstab(a, b).count)
    expected = np.abs(counts - expected_freq(counts)).sum() / 2 / len(pairs)
    assert overall(permutations=1, a=a, b=b).value == pytest.approx(expected, abs=1e-12)


# --- its null -------------------------------------------------------------------------------------------


def exactly(first, second) -> list[float]:
    """The value at every order of the first rater's labels."""
    k = max(*first, *second) + 1
    found = []
    for order in itertools.permutations(first):
        table = np.zeros((k, k))
        np.add.at(table, (list(order), list(second)), 1 / len(first))
        found.append(float(np.abs(table - np.outer(table.sum(1), table.sum(0))).sum() / 2))
    return found


def test_null_and_p_are_those_of_all_permutations():
    """7 labels have 5,040 orders; 20,000 random ones come within 4 standard errors."""
    first, second = [0, 0, 1, 1, 2, 2, 2], [0, 0, 1, 1, 2, 2, 1]
    every = exactly(first, second)
    found = overall(permutations=20_000, a=first, b=second)
    share = np.mean(np.array(every) >= found.value - 1e-9)
    assert found.null == pytest.approx(np.mean(every), abs=4 * np.std(every) / math.sqrt(20_000))
    assert found.p == pytest.approx(share, abs=4 * math.sqrt(share / 20_000))
    assert found.excess == found.value - found.null


def test_random_raters_score_above_zero_by_what_the_null_says():
    """5 raters x 100 items x 3 categories at random: the value is positive, the excess is not far from 0."""
    random = np.random.default_rng(3)
    found = overall(permutations=1000, **{name: random.integers(0, 3, 100) for name in "abcde"})
    assert 0.04 < found.null < 0.09
    assert abs(found.excess) < 0.02
    assert found.p > 0.01


# --- raters and pairs -----------------------------------------------------------------------------------


def test_pairs_are_compared_on_the_items_both_labelled():
    """a and b share the first four items (0.5), a and c the last four (0, independent); b and c none."""
    labels = labelled(a=[0, 0, 1, 1, 0, 0, 1, 1], b=[0, 0, 1, 1, None, None, None, None], c=[None] * 4 + [0, 1, 0, 1])
    found = label_information(labels, permutations=50)
    assert [(p.items, p.information and p.information.value) for p in found.pairs] == [(4, 0.5), (4, 0.0), (0, None)]
    assert [r.partners for r in found.raters] == [2, 1, 1]
    assert found.overall.value == 0.25


def test_complete_items_are_those_that_every_rater_labelled():
    """Only the first four items have three labels: (a, b) .5, (a, c) 0, (b, c) 0."""
    labels = labelled(a=[0, 0, 1, 1, 1], b=[0, 0, 1, 1, 0], c=[0, 1, 0, 1, None])
    found = label_information(labels, items="complete", permutations=50)
    assert [(p.items, p.information.value) for p in found.pairs] == [(4, 0.5), (4, 0.0), (4, 0.0)]


# --- labels ---------------------------------------------------------------------------------------------


def test_preferences_become_their_sign_and_a_swapped_pair_is_the_same_item():
    found = category_labels(
        label_table(
            {"task": "t", "first": "human", "second": "model", "rater": "ann", "preference": 2},
            {"task": "t", "first": "model", "second": "human", "rater": "bob", "preference": -1},
            {"task": "u", "first": "model", "second": "human", "rater": "bob", "preference": 0, "criterion": "style"},
        )
    )
    assert found.rows() == [
        (None, "ann", "t", "t\nhuman\nmodel", 1.0),
        (None, "bob", "t", "t\nhuman\nmodel", 1.0),
        ("style", "bob", "u", "u\nhuman\nmodel", 0.0),
    ]


def test_ratings_are_categories():
    found = category_labels(label_table({"task": "t", "agent": "x", "rater": "ann", "score": 2.5}))
    assert found.rows() == [(None, "ann", "t", "t\nx", 2.5)]


# --- what cannot be computed ----------------------------------------------------------------------------


def test_more_than_twelve_values_are_refused_by_name():
    with pytest.raises(MetricError, match=r"at most 12 different values, got 13 \(0, 1, 2.*Bin them"):
        overall(a=range(13), b=range(13))
    assert overall(permutations=1, a=range(12), b=range(12)).value == pytest.approx(11 / 12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (labels_frame(), "at least two raters, got no labels"),
        (labelled(a=[1, 2]), "at least two raters, got only a"),
        (labelled(a=[1, None], b=[None, 1]), "no item was labelled by two raters"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(labels, message):
    with pytest.raises(MetricError, match=message):
        label_information(labels)


def test_two_different_labels_of_one_rater_for_one_item_are_refused_and_a_repeated_one_is_not():
    one, other, partner = ("a", "t", "x", 1), ("a", "t", "x", 2), ("b", "t", "x", 1)
    with pytest.raises(MetricError, match="a labelled t, x as 1 and as 2"):
        label_information(labels_frame(one, other, partner))
    assert label_information(labels_frame(one, one, partner), permutations=1).pairs[0].items == 1
