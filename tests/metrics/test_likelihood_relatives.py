"""The relatives of GEM are arithmetic on stored log-probabilities, worked out here by hand."""

from __future__ import annotations

import polars as pl
import pytest

import goldless
from evidence_frames import Logprob, PairScore, logprobs_frame, pair_rows, pairs_frame
from goldless.evidence import Evidence
from goldless.metrics import likelihood, metric
from goldless.metrics.likelihood import GEM, RELATIVES, LikelihoodMetric
from goldless.metrics.metric import Given


def pair_scores(evidence, metric) -> list[PairScore]:
    return pair_rows(likelihood.pair_scores(logprobs_frame(evidence), metric))


# a's response has 2 tokens: -6 nats alone, -4 given b's; b's has 4: -8 alone, -2 given a's
EVIDENCE = [
    Logprob("a", None, (-2.0, -4.0)),
    Logprob("a", "b", (-1.0, -3.0)),
    Logprob("b", None, (-2.0, -2.0, -2.0, -2.0)),
    Logprob("b", "a", (-0.5, -0.5, -0.5, -0.5)),
]
EXPECTED = {
    # per token: a tells b 2 - .5 = 1.5, b tells a 3 - 2 = 1; their mean is 1.25 both ways
    "mi": {"a": 1.25, "b": 1.25},
    "gppm": {"a": -0.5, "b": -2.0},
    "bartscore-recall": {"a": -2.0, "b": -4.0},
    "bartscore-precision": {"a": -4.0, "b": -2.0},
    "bartscore": {"a": -3.0, "b": -3.0},
    "gptscore": {"a": -2.0, "b": -0.5},
}


def scores(metric, evidence=EVIDENCE):
    return {pair.agent: pair.score for pair in pair_scores(evidence, metric)}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_relative_gives_the_figures_worked_out_by_hand(name):
    assert scores(RELATIVES[name]) == EXPECTED[name]


def test_gem_takes_sums_of_the_same_evidence():
    assert scores(GEM) == {"a": 6.0, "b": 2.0}


def test_only_named_peers_serve_as_peers_in_either_direction():
    """With b as the only peer, a and c are scored against b, and b against nobody."""
    study = goldless.study_from_frame(pl.DataFrame([{"task": "t", "agent": a, "text": "x"} for a in "abc"]))
    evidence = [Logprob(t, g, (-1.0,)) for t in "abc" for g in ("a", "b", "c", None) if g != t]
    given = Given(study, Evidence(logprobs=logprobs_frame(evidence)), peers=("b",))
    for one in (GEM, *RELATIVES.values()):
        found = LikelihoodMetric("toy", one).scores(given)
        assert {(p.agent, p.peer) for p in pair_rows(found.pairs)} == {("a", "b"), ("c", "b")}


def test_a_recorded_mean_serves_metrics_per_token_and_a_recorded_sum_the_others():
    means = [Logprob("b", None, None, mean=-2.0), Logprob("b", "a", None, mean=-0.5)]
    assert scores(RELATIVES["gppm"], means) == {"a": -0.5}
    assert scores(GEM, means) == {"a": None}
    sums = [Logprob("b", None, None, total=-8.0), Logprob("b", "a", None, total=-2.0)]
    assert scores(GEM, sums) == {"a": 6.0}


def test_the_mean_over_wordings_is_missing_where_one_wording_is():
    first = [PairScore("t", "a", "b", 1.0), PairScore("t", "b", "a", 2.0)]
    second = [PairScore("t", "a", "b", 3.0), PairScore("t", "b", "a", None, "timeout")]
    assert pair_rows(metric.mean_over_variants([pairs_frame(first), pairs_frame(second)])) == [
        PairScore("t", "a", "b", 2.0),
        PairScore("t", "b", "a", None, "timeout"),
    ]
