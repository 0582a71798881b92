"""Judgements as arrays: nothing is lost, turned round, or made up."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.errors import MetricError
from goldless.evidence import JudgementEvidence
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.records import CallFailure
from judgement_columns import pair_judgements_from_columns, response_ratings_from_columns

NO = CallFailure("refused", "no")


def test_both_orders_of_a_pair_are_seen_from_the_same_side():
    rows = [
        JudgementEvidence("r", "pairwise", "t", "ann", "bob", value=1.0),
        JudgementEvidence("r", "pairwise", "t", "bob", "ann", value=0.25),
        JudgementEvidence("r", "pairwise", "t", "cy", "ann", failure=NO),
    ]
    found = pair_judgements(rows)
    assert (found.agents, found.low.tolist(), found.high.tolist()) == (("ann", "bob", "cy"), [0, 0], [1, 2])
    assert found.value[0, 0].tolist() == [1.0, 0.75]
    assert np.isnan(found.value[0, 1]).all()
    assert found.asked[0].tolist() == [[True, True], [False, True]]


def test_only_what_was_asked_becomes_no_preference_in_the_papers_convention():
    rows = [JudgementEvidence("r", "pairwise", "t", "ann", "bob", failure=NO)]
    filled = pair_judgements(rows).filled("paper")
    assert filled[0, 0, 0] == 0.5
    assert np.isnan(filled[0, 0, 1])


def test_ratings_stand_at_their_task_and_agent():
    rows = [
        JudgementEvidence("r", "5-level", "t1", "ann", value=4),
        JudgementEvidence("s", "5-level", "t2", "bob", failure=NO),
    ]
    found = response_ratings(rows, agents=["bob", "ann"])
    assert found.value[0, 0, 1] == 4
    assert np.isnan(found.value).sum() == 7
    assert np.argwhere(found.asked).tolist() == [[0, 0, 1], [1, 1, 0]]


def test_named_reviewers_tasks_and_agents_leave_out_the_others():
    found = pair_judgements_from_columns(
        ["r", "s", "r"], ["t", "t", "u"], ["ann", "ann", "ann"], ["bob", "bob", "bob"], [1, 0, 0.5], reviewers=["s"]
    )
    assert (found.reviewers, found.value[0, 0, 0]) == (("s",), 0)
    assert found.of(["s"]).value.shape == found.value.shape
    with pytest.raises(MetricError, match=r"no judgement by reviewer 'q'.*Found: s"):
        found.of(["q"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((["r"], ["t"], ["ann"], ["ann"], [1]), "ann is compared with itself"),
        ((["r"], ["t"], ["ann"], ["bob"], [2]), "between 0 and 1, got 2"),
        ((["r"], ["t"], ["ann"], ["bob"], [float("inf")]), "finite number or missing, got infinity"),
        ((["r"] * 2, ["t"] * 2, ["ann"] * 2, ["bob"] * 2, [1, 0]), "1 of 2 judgements repeat"),
    ],
)
def test_bad_comparisons_are_refused(columns, message):
    with pytest.raises(MetricError, match=message):
        pair_judgements_from_columns(*columns)


def test_a_reviewer_that_never_spoke_is_named():
    with pytest.raises(MetricError, match="no judgement by 's' on these tasks"):
        response_ratings_from_columns(["r"], ["t"], ["ann"], [3], reviewers=["r", "s"])


def test_scales_are_not_mixed():
    rows = [JudgementEvidence("r", scale, "t", "ann", value=4) for scale in ("5-level", "100-level")]
    with pytest.raises(MetricError, match=r"got 2 \(100-level, 5-level\)"):
        response_ratings(rows)
