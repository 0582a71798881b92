"""The chair's verdicts and scores. Expected values are sums worked out beside each test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

from goldless.evidence import JudgementEvidence, judgements_frame
from goldless.metrics.chair import panel_scores, panel_verdicts, reviewer_scores
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.records import CallFailure

NO = CallFailure("refused", "no")


def said(reviewer, forward, backward):
    """One pair in both orders; None: refused. ``forward``: how far ann is better, shown first; backward: bob."""
    return [
        JudgementEvidence(reviewer, "pairwise", "t", first, second, value=value, failure=NO if value is None else None)
        for first, second, value in (("ann", "bob", forward), ("bob", "ann", backward))
    ]


def panel(*rows, **options):
    return panel_verdicts(pair_judgements(judgements_frame([row for some in rows for row in some])), **options)


def test_the_heavier_side_wins():
    """0.9 for ann; 0.4 + 0.4 for bob; margin 0.1 / 1.7."""
    found = panel(said("r", 1, 0), said("s", 0, 1), said("q", 0, 1), weights={"r": 0.9, "s": 0.4, "q": 0.4})
    assert found.margin.tolist() == pytest.approx([0.1 / 1.7])
    assert found.verdict.tolist() == [1]
    assert (found.asked.tolist(), found.used.tolist()) == ([6], [6])


def test_sums_that_differ_from_a_tie_by_rounding_only_are_ties():
    """0.1 + 0.2 against 0.3, which floating point makes 0.30000000000000004."""
    found = panel(said("r", 1, 0), said("s", 1, 0), said("q", 0, 1), weights={"r": 0.1, "s": 0.2, "q": 0.3})
    assert found.margin.tolist() == [0]
    assert found.verdict.tolist() == [0.5]


def test_who_lacks_one_order_abstains_by_default_and_has_half_a_say_in_the_papers():
    rows = said("r", 1, None), said("s", 0, 1)
    default, paper = panel(*rows), panel(*rows, convention="paper")
    assert (default.margin.tolist(), default.used.tolist(), default.asked.tolist()) == ([-1], [2], [4])
    assert paper.margin.tolist() == [-0.25]  # (1 + 0) / 2 and -1, halved
    assert paper.used.tolist() == [3]


def test_nobody_s_vote_is_missing_by_default_and_a_tie_in_the_papers():
    rows = [said("r", None, None)]
    assert math.isnan(panel(*rows).verdict[0])
    assert panel(*rows, convention="paper").verdict.tolist() == [0.5]


def rated(**scores):
    """Ratings of one task by each reviewer, agents in order."""
    rows = [
        JudgementEvidence(reviewer, "5-level", "t", f"a{i}", value=value, failure=NO if value is None else None)
        for reviewer, values in scores.items()
        for i, value in enumerate(values)
    ]
    return response_ratings(judgements_frame(rows))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), min_size=2, max_size=9))
def test_z_scores_are_those_of_scipy(pairs):
    first, second = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    if first.std() == 0 or second.std() == 0:
        return
    found = panel_scores(rated(r=first, s=second), weights={"r": 2, "s": 1})
    assert found.score[0] == pytest.approx((2 * zscore(first) + zscore(second)) / 3, abs=1e-8)


def test_a_missing_reviewer_does_not_move_the_level():
    """r rates 4 on average and s 2, so the level is 3. Of a2 only r spoke, 4 - 4 off its own average: 3 + 0."""
    found = panel_scores(rated(r=[3, 5, 4], s=[1, 3, None]), normalisation="raw")
    assert found.score[0].tolist() == pytest.approx([2, 4, 3])
    assert (found.asked[0].tolist(), found.used[0].tolist()) == ([2, 2, 2], [2, 2, 1])


def test_in_the_papers_a_missing_rating_counts_0():
    """Two reviewers of weights 3 and 1 on two responses: (3·4 + 1·2) / 4 and (3·0 + 1·3) / 4."""
    table = rated(a=[4, None], b=[2, 3])
    raw = panel_scores(table, weights={"a": 3, "b": 1}, normalisation="raw", convention="auto-pre")
    assert raw.score[0].tolist() == [3.5, 0.75]
    assert raw.used[0].tolist() == [2, 1]
    z = panel_scores(table, weights={"a": 3, "b": 1}, normalisation="z", convention="pre")
    assert z.score[0] == pytest.approx((3 * zscore([4, 0]) + zscore([2, 3])) / 4)
    assert reviewer_scores(table, "a", convention="paper").score[0].tolist() == [4, 0]
