"""Who is crash-tested: candidates, their peers, and the study of originals and perturbed copies."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.errors import MetricError, UserError
from goldless.meta_evaluation.crash_test import choose_candidates, crash_study
from goldless.meta_evaluation.perturbations.catalogue import find_perturbation
from goldless.meta_evaluation.perturbations.perturbation import PerturbedText
from goldless.records import CallFailure
from goldless.studies import study_from_frame

AGENTS = ("ann", "bob", "cy", "dan")


def study_of(rows):
    frame = pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row")
    tasks = pl.DataFrame({"task": sorted({row[0] for row in rows}), "prompt": "why?"})
    return study_from_frame(frame, tasks=tasks, name="answers")


FOUR = study_of([(f"t{i}", agent, f"{agent} says {i}.") for i in range(5) for agent in AGENTS])


def test_every_response_has_two_peers_and_the_same_ones_on_every_task():
    chosen = choose_candidates(FOUR)
    assert len(chosen.peers) == chosen.of == 20
    for agent in AGENTS:
        peers = {chosen.peers[f"t{i}", agent] for i in range(5)}
        assert len(peers) == 1
        assert len(set(*peers)) == 2
        assert agent not in next(iter(peers))


def test_an_absent_peer_is_replaced_by_the_next_around_the_circle():
    rows = [(f"t{i}", agent, "text") for i in range(5) for agent in AGENTS if (i, agent) != (0, "bob")]
    full, gap = choose_candidates(FOUR, references=1), choose_candidates(study_of(rows), references=1)
    held = [agent for agent in AGENTS if full.peers["t0", agent] == ("bob",)]
    assert gap.peers["t0", held[0]] == full.peers["t0", "bob"]
    assert ("t0", "bob") not in gap.peers


def test_named_agents_are_perturbed_and_held_against_named_ones():
    chosen = choose_candidates(FOUR, agents=["bob"], references=["ann", "bob"])
    assert dict(chosen.peers) == {(f"t{i}", "bob"): ("ann",) for i in range(5)}


def test_a_draw_depends_on_the_seed_alone():
    first, again, other = (set(choose_candidates(FOUR, most=8, seed=seed).peers) for seed in (3, 3, 4))
    assert len(first) == 8
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": ["anne"]}, "unknown agent 'anne'. Did you mean 'ann'?"),
        ({"references": ["zed"]}, "unknown agent 'zed'"),
        ({"references": 0}, "references must be at least 1, got 0"),
        ({"most": 0}, "must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        choose_candidates(FOUR, **options)


def test_tasks_with_one_answer_cannot_be_crash_tested():
    with pytest.raises(MetricError, match="no response has a peer"):
        choose_candidates(study_of([("t1", "ann", "one"), ("t2", "bob", "two")]))


def changed(task, agent, name, text, *, unchanged=False):
    failure = CallFailure("not_recorded", "gone") if text is None else None
    return PerturbedText(task, agent, name, text, unchanged, failure)


def test_copies_of_candidates_keep_their_peers_and_unchanged_texts_have_no_copy():
    chosen = choose_candidates(FOUR, agents=["ann"], references=["bob"])
    texts = [
        changed("t0", "ann", "deletion", "shorter"),
        changed("t1", "ann", "deletion", "ann says 1.", unchanged=True),
        changed("t2", "ann", "deletion", None),
    ]
    made = crash_study(FOUR, chosen, {"deletion": (find_perturbation("deletion"), texts)})
    assert made.pairing["t0", "ann~deletion"] == ("bob",)
    assert ("t1", "ann~deletion") not in made.pairing
    assert ("t2", "ann~deletion") not in made.pairing
    assert made.study.response("t0", "ann~deletion").text == "shorter"
    assert [agent.agent for agent in made.study.agents] == ["ann", "bob", "ann~deletion"]
    assert made.study.task("t0").prompt == "why?"


def test_what_is_done_to_everybody_holds_copies_against_copies():
    chosen = choose_candidates(FOUR, agents=["ann"], references=["bob", "cy"])
    pattern = find_perturbation("pattern")
    wanted = [*chosen.peers, *chosen.references]
    assert {agent for _, agent in wanted} == {"ann", "bob", "cy"}
    texts = [changed(t, a, "pattern", None if (t, a) == ("t0", "cy") else f"# {a} #") for t, a in wanted]
    made = crash_study(FOUR, chosen, {"pattern": (pattern, texts)})
    assert set(made.pairing["t0", "ann~pattern"]) == {"bob~pattern"}
    assert set(made.pairing["t1", "ann~pattern"]) == {"bob~pattern", "cy~pattern"}


def test_an_agent_called_as_a_copy_would_be_is_refused():
    rows = [(f"t{i}", agent, "text") for i in range(2) for agent in ("ann", "ann~null")]
    study = study_of(rows)
    chosen = choose_candidates(study)
    texts = [changed("t0", "ann", "null", "nothing")]
    with pytest.raises(UserError, match="an agent 'ann~null'"):
        crash_study(study, chosen, {"null": (find_perturbation("null"), texts)})


def test_a_copy_is_known_by_what_it_was_made_of_whatever_agents_are_called():
    rows = [(f"t{i}", agent, f"{agent} {i}") for i in range(2) for agent in ("a~b", "c~null", "d")]
    chosen = choose_candidates(study_of(rows), agents=["a~b"], references=["c~null"])
    pattern = find_perturbation("pattern")
    texts = [changed("t0", agent, "pattern", "[x]") for agent in ("a~b", "c~null")] + [
        changed("t1", "a~b", "pattern", "[y]"),
        changed("t1", "c~null", "pattern", None),
    ]
    made = crash_study(study_of(rows), chosen, {"pattern": (pattern, texts)})
    assert [(c.task, c.agent, c.perturbation, c.name, dict(c.peers)) for c in made.copies] == [
        ("t0", "a~b", "pattern", "a~b~pattern", {"c~null": "c~null~pattern"}),
        ("t1", "a~b", "pattern", "a~b~pattern", {"c~null": None}),
    ]
    assert made.pairing["t1", "a~b~pattern"] == ()
