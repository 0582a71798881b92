"""Pairs of the consistency and the human exam: which are asked, what is still missing, and what reviewers say."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from goldless.errors import UserError
from goldless.judging.exams import (
    ExamPair,
    all_pairs,
    both_orders,
    consistency_pairs,
    human_pairs,
    single_ratings,
)
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import find_scale
from goldless.models.scripted import ScriptedModel

PAIRWISE = find_scale("pairwise")
ANSWERED = {f"t{i}": ["ann", "bob", "cy"] for i in range(10)}


def stage(answer, **options):
    """A review stage whose model answers by a function of the question's text, or always the same."""
    said = answer if callable(answer) else lambda _: answer
    model = ScriptedModel(answers=lambda request: said(request.messages[-1].content), name="judge")
    return ReviewStage(model, options.pop("scale", PAIRWISE), verdicts="labels", **options)


# --- pairs ----------------------------------------------------------------------------------------------------------


def test_every_pair_of_agents_on_every_task_is_there_once():
    """3 agents make 3 pairs, on 10 tasks 30."""
    pairs = all_pairs(ANSWERED)
    assert len(pairs) == len(set(pairs)) == 30
    assert [(p.first, p.second) for p in pairs[:3]] == [("ann", "bob"), ("ann", "cy"), ("bob", "cy")]


def test_each_pair_is_asked_in_both_orders():
    asked = both_orders([ExamPair("t", "ann", "bob")])
    assert asked == [ReviewQuestion("t", "ann", "bob"), ReviewQuestion("t", "bob", "ann")]


def test_a_response_in_several_pairs_is_rated_once():
    asked = single_ratings(all_pairs({"t": ["ann", "bob", "cy"]}))
    assert asked == [ReviewQuestion("t", a) for a in ("ann", "bob", "cy")]


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_draw_does_not_depend_on_the_order_of_rows(seed):
    mixed = {task: list(reversed(names)) for task, names in reversed(ANSWERED.items())}
    assert set(consistency_pairs(ANSWERED, items=9, seed=seed)) == set(consistency_pairs(mixed, items=9, seed=seed))
    chosen = ["ann", "cy"]
    assert set(human_pairs(ANSWERED, chosen)) == set(human_pairs(mixed, chosen))


def test_a_larger_draw_holds_the_smaller_one_and_another_seed_draws_others():
    small, large = (set(consistency_pairs(ANSWERED, items=n)) for n in (5, 12))
    assert (len(small), len(large)) == (5, 12)
    assert small < large
    assert set(consistency_pairs(ANSWERED, items=5, seed=1)) != small


def test_a_study_of_single_responses_has_no_consistency_exam():
    with pytest.raises(UserError, match="no task of the study has two"):
        consistency_pairs({"t": ["ann"], "u": ["bob"]})


# --- the consistency exam -------------------------------------------------------------------------------------------

pytestmark = pytest.mark.anyio


# --- the human exam -------------------------------------------------------------------------------------------------


def test_the_questioners_pairs_are_the_exam():
    assert set(human_pairs(ANSWERED, ["cy", "ann"])) == {ExamPair(t, "ann", "cy") for t in ANSWERED}


@pytest.mark.parametrize(
    ("questioners", "said"),
    [
        (["ann"], "at least 2 questioners, got 1"),
        (["ann", "bub"], "no response of an agent 'bub' in the study. Did you mean 'bob'"),
        (["ann", "ann"], "got 'ann' twice"),
    ],
)
def test_an_exam_that_has_no_items_is_refused(questioners, said):
    with pytest.raises(UserError, match=said):
        human_pairs(ANSWERED, questioners)


def test_questioners_that_answered_no_task_in_common_have_no_exam():
    with pytest.raises(UserError, match="has no items"):
        human_pairs({"t": ["ann", "cy"], "u": ["bob", "cy"]}, ["ann", "bob"])


# --- recorded data --------------------------------------------------------------------------------------------------


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.recorded
def test_the_recorded_study_has_300_exam_pairs_of_2100(recorded):
    """7 agents make 21 pairs, 3 questioners make 3, on 100 tasks."""
    answered = {}
    for row in rows(recorded / "xsum_peer_review" / "responses.jsonl"):
        answered.setdefault(row["task"], []).append(row["agent"])
    agents = {name.casefold(): name for names in answered.values() for name in names}
    chosen = [agents[name] for name in agents if name.startswith(("chatgpt", "fastchat", "alpaca"))]
    assert len(list(combinations(chosen, 2))) == 3
    assert len(human_pairs(answered, chosen)) == 300
    assert len(both_orders(consistency_pairs(answered))) == 4200
