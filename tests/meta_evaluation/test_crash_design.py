"""Who is crash-tested: responses, their peers, and what perturbed copies are compared with."""

from __future__ import annotations

import anyio
import polars as pl
import pytest

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.crash_test import crash_test, find_peers
from goldless.runs.options import Options
from goldless.studies import study_from_frame

AGENTS = ("ann", "bob", "cy", "dan")


def study_of(rows):
    frame = pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row")
    tasks = pl.DataFrame({"task": sorted({row[0] for row in rows}), "prompt": "why?"})
    return study_from_frame(frame, tasks=tasks, name="answers")


FOUR = study_of([(f"t{i}", agent, f"{agent} says {i}.") for i in range(5) for agent in AGENTS])


def crashed(study, seed=0, **options):
    metrics = Options(metrics=["length"], resamples=100, seed=seed)
    return anyio.run(lambda: crash_test(study, metrics, perturbations=["null"], **options))


def test_every_response_has_two_peers_and_the_same_ones_on_every_task():
    chosen = crashed(FOUR).peers
    assert len(chosen) == 20
    for agent in AGENTS:
        (peers,) = {chosen[f"t{i}", agent] for i in range(5)}
        assert len(set(peers) - {agent}) == 2


def test_an_absent_peer_is_replaced_by_the_next_around_the_circle():
    rows = [(f"t{i}", agent, "text") for i in range(5) for agent in AGENTS if (i, agent) != (0, "bob")]
    full, gap = find_peers(FOUR, references=1), find_peers(study_of(rows), references=1)
    held = next(agent for agent in AGENTS if full["t0", agent] == ("bob",))
    assert gap["t0", held] == full["t0", "bob"]
    assert ("t0", "bob") not in gap


def test_named_agents_are_perturbed_and_held_against_named_ones():
    chosen = crashed(FOUR, agents=["bob"], references=["ann", "bob"]).peers
    assert dict(chosen) == {(f"t{i}", "bob"): ("ann",) for i in range(5)}


def test_a_draw_depends_on_the_seed_alone():
    first, again, other = (set(crashed(FOUR, responses=8, seed=seed).peers) for seed in (3, 3, 4))
    assert len(first) == 8
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": ["anne"]}, "unknown agent 'anne'. Did you mean 'ann'?"),
        ({"references": ["zed"]}, "unknown agent 'zed'"),
        ({"references": 0}, "references must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        crashed(FOUR, **options)


def test_tasks_with_one_answer_cannot_be_crash_tested():
    with pytest.raises(MetricError, match="no response has a peer"):
        crashed(study_of([("t1", "ann", "one"), ("t2", "bob", "two")]))


def test_an_agent_called_as_a_copy_would_be_is_refused():
    with pytest.raises(UserError, match="an agent 'ann~null'"):
        crashed(study_of([(f"t{i}", agent, "text") for i in range(2) for agent in ("ann", "ann~null")]))
