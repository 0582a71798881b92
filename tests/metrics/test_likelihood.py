"""GEM's arithmetic on evidence made by hand (the paper's section 3: PMI, sums over tokens, mean over peers)."""

from __future__ import annotations

import pytest

from evidence_frames import Logprob, PairScore, ResponseScore, logprobs_frame, pair_rows, pairs_frame, response_rows
from goldless.metrics import likelihood, metric
from goldless.records import CallFailure

TIMEOUT = CallFailure("timeout", "late")
TOO_LONG = CallFailure("too_long", "9000 tokens")


def pair_scores(evidence) -> list[PairScore]:
    return pair_rows(likelihood.pair_scores(logprobs_frame(evidence)))


def mean_over_peers(pairs) -> list[ResponseScore]:
    return response_rows(metric.over_peers(pairs_frame(pairs), "own"))


def scores(evidence) -> dict[tuple[str, str], float | None]:
    return {(pair.agent, pair.peer): pair.score for pair in pair_scores(evidence)}


def test_a_pair_scores_log_p_of_the_peer_given_the_agent_less_log_p_of_the_peer_alone():
    """a's response: -3 alone, -1 after b's, so b tells 2 nats about a. b's: -4 alone, -5 after a's: a tells -1."""
    evidence = [
        Logprob("a", None, [-1.0, -2.0]),
        Logprob("a", "b", [-0.5, -0.5]),
        Logprob("b", None, [-4.0]),
        Logprob("b", "a", [-5.0]),
    ]
    assert pair_scores(evidence) == [PairScore("t", "b", "a", 2.0), PairScore("t", "a", "b", -1.0)]


def test_nats_are_summed_over_the_tokens_and_not_divided_by_their_number():
    """Each of 100 tokens becomes a quarter nat likelier: 25 nats, not 0.25."""
    evidence = [Logprob("a", None, [-1.0] * 100), Logprob("a", "b", [-0.75] * 100)]
    assert scores(evidence) == {("b", "a"): 25.0}


def test_marginals_belong_to_their_task_and_target():
    evidence = [
        Logprob("a", None, [-10.0], "one"),
        Logprob("a", None, [-20.0], "two"),
        Logprob("a", "b", [-8.0], "one"),
        Logprob("a", "b", [-8.0], "two"),
    ]
    assert [(p.task, p.score) for p in pair_scores(evidence)] == [("one", 2.0), ("two", 12.0)]


def test_a_missing_pair_is_missing_with_its_cause_and_the_others_are_not():
    evidence = [
        Logprob("a", None, [-3.0]),
        Logprob("a", "b", TIMEOUT),
        Logprob("a", "c", [-1.0]),
        Logprob("b", None, [-3.0]),
        Logprob("b", "c", [-2.0]),
    ]
    assert pair_scores(evidence) == [
        PairScore("t", "b", "a", None, "timeout"),
        PairScore("t", "c", "a", 2.0),
        PairScore("t", "c", "b", 1.0),
    ]


def test_a_missing_marginal_makes_every_pair_about_that_target_missing():
    evidence = [
        Logprob("a", None, TOO_LONG),
        Logprob("a", "b", [-1.0]),
        Logprob("a", "c", TIMEOUT),
        Logprob("b", None, [-1.0]),
    ]
    assert pair_scores(evidence) == [
        PairScore("t", "b", "a", None, "too_long"),
        PairScore("t", "c", "a", None, "timeout"),
    ]


def test_a_marginal_nobody_asked_for_leaves_the_pair_missing_rather_than_scored_against_nothing():
    assert pair_scores([Logprob("a", "b", [-1.0])]) == [PairScore("t", "b", "a", None, None)]


def test_a_responses_score_is_the_mean_over_its_peers():
    pairs = [PairScore("t", "a", "b", 2.0), PairScore("t", "a", "c", -5.0), PairScore("t", "b", "a", 4.0)]
    assert mean_over_peers(pairs) == [
        ResponseScore("t", "a", -1.5, asked=2, used=2),
        ResponseScore("t", "b", 4.0, asked=1, used=1),
    ]


def test_a_missing_pair_is_left_out_of_the_mean_and_counted():
    pairs = [PairScore("t", "a", "b", 2.0), PairScore("t", "a", "c", None, "timeout"), PairScore("t", "a", "d", 6.0)]
    assert mean_over_peers(pairs) == [ResponseScore("t", "a", 4.0, asked=3, used=2)]


def test_where_all_pairs_are_missing_the_response_is_missing_and_not_zero():
    pairs = [PairScore("t", "a", "b", None, "timeout"), PairScore("t", "a", "c", None, "budget")]
    assert mean_over_peers(pairs) == [ResponseScore("t", "a", None, asked=2, used=0)]


def test_the_same_agent_is_scored_in_each_task_apart():
    pairs = [PairScore("one", "a", "b", 1.0), PairScore("two", "a", "b", 3.0)]
    assert [(r.task, r.score) for r in mean_over_peers(pairs)] == [("one", 1.0), ("two", 3.0)]


def test_evidence_in_any_order_gives_the_same_scores():
    evidence = [
        Logprob(t, g, [-float(ord(t)), -float(ord(g or "z"))]) for t in "abc" for g in ["a", "b", "c", None] if g != t
    ]
    assert scores(evidence) == scores(reversed(evidence))
    assert scores(evidence)["a", "b"] == pytest.approx(ord("z") - ord("a"))
