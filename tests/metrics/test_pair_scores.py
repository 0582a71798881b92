"""Scores of pairs are arithmetic on stored evidence: worked out by hand, and by plain loops over rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.metrics import judged_metrics, likelihood, metric, tvd_mi
from goldless.metrics.likelihood import GEM, RELATIVES
from goldless.metrics.metric import over_peers
from goldless.metrics.tvd_mi import objective_critic
from goldless.records import CallFailure
from tests.support.evidence_frames import (
    Logprob,
    PairScore,
    ResponseScore,
    logprobs_frame,
    pair_rows,
    pairs_frame,
    response_rows,
    verdict,
    verdicts,
)


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
    # GEM takes the sums: a tells b 8 - 2, b tells a 6 - 4
    "gem": {"a": 6.0, "b": 2.0},
    # the same, of what is predicted: a explains 6 of b's 8 nats, b 2 of a's 6
    "covers": {"a": 6 / 8, "b": 2 / 6},
    "backed": {"a": 2 / 6, "b": 6 / 8},
}
KNOWN = {**RELATIVES, "gem": GEM}


def scores(metric, evidence=EVIDENCE):
    return {pair.agent: pair.score for pair in pair_scores(evidence, metric)}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_metric_gives_the_figures_worked_out_by_hand(name):
    assert scores(KNOWN[name]) == EXPECTED[name]


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


# --- contrasts -------------------------------------------------------------------------------------------------------


def contrasts(rows) -> list[PairScore]:
    return pair_rows(tvd_mi.contrasts(verdicts(*rows)))


def test_the_objective_critic_of_the_paper_is_a_mean_with_a_zero_diagonal():
    """The TVD-MI paper, table 1: six strategies' scores, and .191 as the mean of all pairwise scores."""
    scores = {"human": 0.3640, "rewrite": 0.2920, "shift": 0.3055, "standard": 0.2815, "brief": 0.1215, "null": 0.0080}
    rows = [{"task": "t", "agent": a, "peer": b, "score": scores[a]} for a in scores for b in scores if a != b]
    found = objective_critic(pl.DataFrame(rows))
    assert round(found["objective_critic"], 3) == 0.191
    assert found["mean_over_pairs"] == pytest.approx(sum(scores.values()) / 6)


def test_off_diagonal_shuffles_undo_the_factor_of_equation_3():
    """n = 4 tasks, all 12 shuffles: Eq. 3 takes all 16 pairs and is (1 - 1/4) of the mean contrast."""
    f = np.array([[0.9, 0.1, 0.2, 0.4], [0.3, 0.8, 0.0, 0.1], [0.2, 0.2, 0.7, 0.3], [0.0, 0.5, 0.1, 1.0]])
    said = [verdict(f[t, s], f"t{s}", task=f"t{t}") for t in range(4) for s in range(4)]
    mean = np.mean([pair.score for pair in contrasts(said)])
    equation_3 = np.trace(f) / 4 - f.sum() / 16
    assert equation_3 == pytest.approx((1 - 1 / 4) * mean)


# --- recorded comparisons --------------------------------------------------------------------------------------------

# a judge that always says the first is better, except that b beats a from either place
ROWS = [("t", "a", "b", 0.0), ("t", "b", "a", 1.0), ("t", "a", "c", 1.0), ("t", "c", "a", 1.0)]


def win_scores(rows, **options) -> list[PairScore]:
    names = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
    return pair_rows(judged_metrics.win_scores(pl.DataFrame(rows, schema=names, orient="row"), **options))


def test_both_orders_take_a_preference_for_the_first_place_out():
    found = {(p.agent, p.peer): p.score for p in win_scores(ROWS)}
    assert found == {("a", "b"): 0.0, ("b", "a"): 1.0, ("a", "c"): 0.5, ("c", "a"): 0.5}


def test_the_first_position_alone_keeps_it():
    found = {(p.agent, p.peer): p.score for p in win_scores(ROWS, both_orders=False)}
    assert found == {("a", "b"): 0.0, ("b", "a"): 1.0, ("a", "c"): 1.0, ("c", "a"): 1.0}


def test_a_pair_asked_in_one_order_only_is_missing_and_not_half():
    assert win_scores(ROWS[:1]) == [PairScore("t", "a", "b", None, "not_recorded")]
    assert win_scores([("t", "a", "b", None), ("t", "b", "a", 1.0)])[0].score is None


# --- against plain loops over rows -----------------------------------------------------------------------------------

TASKS, AGENTS = ("t", "u"), ("a", "b", "c")
nats = st.floats(-50, 0)
failures = st.sampled_from([CallFailure("timeout", "late"), CallFailure("refused", "no")])


def close(found, expected):
    """Equal rows in the same order, numbers but for rounding."""
    assert [tuple(row) for row in found] == [
        tuple(pytest.approx(cell, rel=1e-9, abs=1e-9) if isinstance(cell, float) else cell for cell in row)
        for row in expected
    ]


keys = [(t, y, x) for t in TASKS for y in AGENTS for x in (*AGENTS, None) if x != y]
logprobs = st.dictionaries(st.sampled_from(keys), st.lists(nats, min_size=1, max_size=4) | failures).map(
    lambda chosen: [Logprob(y, x, values, t) for (t, y, x), values in chosen.items()]
)


def looped_pairs(rows, metric) -> list[PairScore]:
    """The metric on each pair that its first direction names, one lookup after the other."""
    known = {(row.task, row.target, row.given): row for row in rows}
    found = []
    for task, target, other in known:
        if other is None:
            continue
        agent, peer = (target, other) if metric.predicted[0] == "agent" else (other, target)
        terms = []
        for predicted in metric.predicted:
            y, x = (peer, agent) if predicted == "peer" else (agent, peer)
            terms += [known.get((task, y, given)) for given in ((x, None) if metric.marginals else (x,))]
        causes = [row.values.kind for row in terms if row is not None and isinstance(row.values, CallFailure)]
        if None in terms or causes:
            found.append(PairScore(task, agent, peer, None, causes[0] if causes else None))
            continue
        values = [sum(row.values) / (len(row.values) if metric.per_token else 1) for row in terms]
        signs = (1, -1) if metric.marginals else (1,)
        total = sum(value * sign for value, sign in zip(values, signs * len(metric.predicted), strict=True))
        found.append(PairScore(task, agent, peer, total / len(metric.predicted)))
    return found


@given(logprobs, st.sampled_from(list(KNOWN.values())))
def test_pair_scores_are_those_of_a_loop(rows, metric):
    close(pair_rows(likelihood.pair_scores(logprobs_frame(rows), metric)), looped_pairs(rows, metric))


pair_keys = [(t, x, y) for t in TASKS for x in AGENTS for y in AGENTS if x != y]
scored = st.dictionaries(st.sampled_from(pair_keys), nats | st.sampled_from(["timeout", None])).map(
    lambda chosen: [
        PairScore(*key, value) if isinstance(value, float) else PairScore(*key, None, value)
        for key, value in chosen.items()
    ]
)


def looped_means(pairs) -> list[ResponseScore]:
    groups: dict[tuple[str, str], list[float | None]] = {}
    for pair in pairs:
        groups.setdefault((pair.task, pair.agent), []).append(pair.score)
    found = []
    for (task, agent), scores in groups.items():
        used = [score for score in scores if score is not None]
        mean = sum(used) / len(used) if used else None
        found.append(ResponseScore(task, agent, mean, len(scores), len(used)))
    return found


@given(scored)
def test_means_over_peers_are_those_of_a_loop(pairs):
    close(response_rows(over_peers(pairs_frame(pairs), "own")), looped_means(pairs))


@given(scored, st.sampled_from(["both", "given", "about"]), st.sets(st.sampled_from(AGENTS), min_size=1))
def test_scores_of_responses_in_either_direction_are_those_of_a_loop(pairs, direction, peers):
    sides: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    for pair in pairs:
        if direction != "about" and pair.peer in peers:
            sides.setdefault((pair.task, pair.agent), {}).setdefault("given", []).append(pair.score)
        if direction != "given" and pair.agent in peers:
            sides.setdefault((pair.task, pair.peer), {}).setdefault("about", []).append(pair.score)
    wanted = ("given", "about") if direction == "both" else (direction,)
    expected = {}
    for key, by_side in sides.items():
        used = [[score for score in by_side.get(side, ()) if score is not None] for side in wanted]
        score = sum(sum(side) / len(side) for side in used) / len(used) if all(used) else None
        asked = sum(map(len, by_side.values()))
        expected[key] = ResponseScore(*key, score, asked, sum(map(len, used)))
    found = tvd_mi.response_scores(
        pairs_frame(pairs),
        over="own",
        direction=direction,
        compared=lambda rows: rows.filter(rows["peer"].is_in(list(peers))),
    )
    by_response = {(row.task, row.agent): row for row in response_rows(found)}
    assert by_response.keys() == expected.keys()
    close([by_response[key] for key in expected], expected.values())


asked = [(t, x, y, s) for t in TASKS for x in AGENTS for y in AGENTS if x != y for s in (*TASKS, "v", "w")]
said = st.dictionaries(st.sampled_from(asked), st.floats(0, 1) | failures).map(
    lambda chosen: [
        verdict(value, other, task, first=first, second=second)
        for (task, first, second, other), value in chosen.items()
    ]
)


def looped_contrasts(rows) -> list[PairScore]:
    groups: dict[tuple[str, str, str], list] = {}
    for row in rows:
        groups.setdefault((row.task, row.first, row.second), []).append(row)
    found = []
    for key, mine in groups.items():
        matched = [row for row in mine if row.task == row.second_task]
        shuffled = [row.value for row in mine if row.task != row.second_task and row.value is not None]
        if matched and matched[0].value is not None and shuffled:
            score = matched[0].value - math.fsum(shuffled) / len(shuffled)
            found.append(PairScore(*key, score))
        else:
            causes = [row.failure.kind for row in (*matched, *mine) if row.failure is not None]
            found.append(PairScore(*key, None, causes[0] if causes else None))
    return found


@given(said)
def test_contrasts_are_those_of_a_loop(rows):
    close(pair_rows(tvd_mi.contrasts(verdicts(*rows))), looped_contrasts(rows))
