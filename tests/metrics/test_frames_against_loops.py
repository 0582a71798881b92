"""Metrics on frames give what a plain loop over rows gives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_frames import (
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
from goldless.metrics import likelihood, tvd_mi
from goldless.metrics.likelihood import GEM, RELATIVES
from goldless.metrics.metric import over_peers
from goldless.records import CallFailure

TASKS, AGENTS = ("t", "u"), ("a", "b", "c")
nats = st.floats(-50, 0)
failures = st.sampled_from([CallFailure("timeout", "late"), CallFailure("refused", "no")])


def close(found, expected):
    """Equal rows in the same order, numbers but for rounding."""
    assert [tuple(row) for row in found] == [
        tuple(pytest.approx(cell, rel=1e-9, abs=1e-9) if isinstance(cell, float) else cell for cell in row)
        for row in expected
    ]


# --- log-probabilities -------------------------------------------------------------------------------------------

keys = [(t, y, x) for t in TASKS for y in AGENTS for x in (*AGENTS, None) if x != y]
logprobs = st.lists(st.sampled_from(keys), unique=True).flatmap(
    lambda chosen: st.tuples(
        *(
            (st.lists(nats, min_size=1, max_size=4) | failures).map(
                lambda values, key=key: Logprob(key[1], key[2], values, key[0])
            )
            for key in chosen
        )
    )
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


@given(logprobs, st.sampled_from([GEM, *RELATIVES.values()]))
def test_pair_scores_are_those_of_a_loop(rows, metric):
    close(pair_rows(likelihood.pair_scores(logprobs_frame(rows), metric)), looped_pairs(rows, metric))


# --- means -------------------------------------------------------------------------------------------------------

pair_keys = [(t, x, y) for t in TASKS for x in AGENTS for y in AGENTS if x != y]
scored = st.lists(st.sampled_from(pair_keys), unique=True).flatmap(
    lambda chosen: st.tuples(
        *(
            st.one_of(
                nats.map(lambda score, key=key: PairScore(*key, score)),
                st.sampled_from(["timeout", None]).map(lambda cause, key=key: PairScore(*key, None, cause)),
            )
            for key in chosen
        )
    )
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


# --- contrasts ---------------------------------------------------------------------------------------------------

asked = [(t, x, y, s) for t in TASKS for x in AGENTS for y in AGENTS if x != y for s in (*TASKS, "v", "w")]
said = st.lists(st.sampled_from(asked), unique=True).flatmap(
    lambda chosen: st.tuples(
        *(
            (st.floats(0, 1) | failures).map(
                lambda value, key=key: verdict(value, second_task=key[3], task=key[0], first=key[1], second=key[2])
            )
            for key in chosen
        )
    )
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
