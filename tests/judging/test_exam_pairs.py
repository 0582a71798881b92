"""Pairs of the consistency and the human exam: which are asked, what is still missing, and what reviewers say."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from goldless.errors import UserError
from goldless.judging.exams.items import (
    ExamPair,
    all_pairs,
    both_orders,
    consistency_pairs,
    drawn_pairs,
    human_pairs,
    pair_of,
    single_ratings,
    sit_consistency,
    sit_human,
)
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import find_scale
from goldless.models.scripted import ScriptedModel

PAIRWISE = find_scale("pairwise")
ANSWERED = {f"t{i}": ["ann", "bob", "cy"] for i in range(10)}
TEXTS = {(t, a): f"{a} answers {t}" for t, names in ANSWERED.items() for a in names}
PROMPTS = dict.fromkeys(ANSWERED)
"""The study does not tell what was asked."""

ESSAY = (
    "Comparing answers is a subtle art. Each has its merits, and much depends on what a reader hopes to find. "
    "Weighing style against substance, I would rather leave the decision to you."
)
SPEECHLESS = {
    "another language": "Die erste Antwort ist besser.",
    "a refusal": "I'm sorry, but I can't compare people's work.",
    "an essay": ESSAY,
    "nothing": "",
}


def stage(answer, **options):
    """A review stage whose model answers by a function of the question's text, or always the same."""
    said = answer if callable(answer) else lambda _: answer
    model = ScriptedModel(answers=lambda request: said(request.messages[-1].content), name="judge")
    return ReviewStage(model, options.pop("scale", PAIRWISE), verdicts="labels", **options)


def honest(text):
    """Prefers ann to bob to cy, wherever they stand."""
    shown = sorted((text.index(f"{a} answers"), a) for a in ("ann", "bob", "cy") if f"{a} answers" in text)
    return "one" if shown[0][1] < shown[1][1] else "two"


# --- pairs ----------------------------------------------------------------------------------------------------------


def test_every_pair_of_agents_on_every_task_is_there_once():
    """3 agents make 3 pairs, on 10 tasks 30."""
    pairs = all_pairs(ANSWERED)
    assert len(pairs) == len(set(pairs)) == 30
    assert [(p.first, p.second) for p in pairs[:3]] == [("ann", "bob"), ("ann", "cy"), ("bob", "cy")]


def test_an_agent_that_did_not_answer_is_in_no_pair_of_the_task():
    assert all_pairs({"t": ["ann"], "u": ["bob", "ann"], "v": []}) == [ExamPair("u", "ann", "bob")]


def test_a_pair_is_the_same_whichever_agent_is_named_first():
    assert pair_of("t", "bob", "ann") == pair_of("t", "ann", "bob")
    with pytest.raises(UserError, match="got 'ann' twice"):
        pair_of("t", "ann", "ann")


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


def test_more_items_than_there_are_is_all_of_them():
    assert len(consistency_pairs(ANSWERED, items=1000)) == 30
    assert drawn_pairs([], 3, exam="consistency", seed=0) == []


@pytest.mark.parametrize("items", [0, -1])
def test_fewer_than_one_item_is_refused(items):
    with pytest.raises(UserError, match=f"at least 1 item, got {items}"):
        consistency_pairs(ANSWERED, items=items)


def test_a_study_of_single_responses_has_no_consistency_exam():
    with pytest.raises(UserError, match="no task of the study has two"):
        consistency_pairs({"t": ["ann"], "u": ["bob"]})


# --- the consistency exam -------------------------------------------------------------------------------------------

pytestmark = pytest.mark.anyio


def same_both_ways(answers):
    """Pairs on which the two orders name the same agent, by hand: one value is 1 where the other is 0."""
    values = {(a.evidence.task, a.evidence.first, a.evidence.second): a.evidence.value for a in answers}
    return [values[t, x, y] == 1 - values[t, y, x] for t, x, y in values if x < y]


async def test_an_honest_reviewer_says_the_same_of_both_orders():
    answers = await sit_consistency(stage(honest), consistency_pairs(ANSWERED), TEXTS, PROMPTS)
    assert len(answers) == 60
    assert same_both_ways(answers) == [True] * 30
    assert {a.exam for a in answers} == {"consistency"}


async def test_a_reviewer_that_always_says_one_contradicts_itself_on_every_pair():
    answers = await sit_consistency(stage("one"), consistency_pairs(ANSWERED), TEXTS, PROMPTS)
    assert {a.evidence.value for a in answers} == {1.0}
    assert same_both_ways(answers) == [False] * 30


@pytest.mark.parametrize("reply", SPEECHLESS.values(), ids=SPEECHLESS)
async def test_a_reply_without_a_verdict_is_missing_and_never_a_half(reply):
    answers = await sit_consistency(stage(reply), consistency_pairs(ANSWERED, items=2), TEXTS, PROMPTS)
    assert [(a.evidence.value, a.evidence.failure.kind) for a in answers] == [(None, "unparsable")] * 4


async def test_the_exam_can_be_sat_without_prompts_but_not_on_a_scale_of_single_ratings():
    with pytest.raises(UserError, match=r"rates one response at a time. Choose a pairwise scale"):
        await sit_consistency(stage("3", scale=find_scale("5-level")), consistency_pairs(ANSWERED), TEXTS, PROMPTS)


async def test_an_answer_is_a_row_of_the_exams_table():
    """The columns of the recorded exams, and what tells a missing value from none."""
    (answer, *_) = await sit_consistency(stage("one"), [ExamPair("t1", "ann", "bob")], TEXTS, PROMPTS)
    row = answer.as_row()
    wanted = {"reviewer": "scripted:judge", "exam": "consistency", "format": "pairwise", "task": "t1"}
    wanted |= {"first": "ann", "second": "bob", "output": "one", "value": 1.0, "failure": None}
    assert {name: row[name] for name in wanted} == wanted


# --- the human exam -------------------------------------------------------------------------------------------------


def test_the_questioners_pairs_are_the_exam():
    assert set(human_pairs(ANSWERED, ["cy", "ann"])) == {ExamPair(t, "ann", "cy") for t in ANSWERED}


def test_the_papers_setting_may_take_every_pair():
    assert len(human_pairs(ANSWERED, ["ann", "cy"], overlap=True)) == 10
    assert len(human_pairs(ANSWERED, ["ann", "bob", "cy"], overlap=True)) == 30


@pytest.mark.parametrize(
    ("questioners", "said"),
    [
        (["ann", "bob", "cy"], "all 30 pairs of the study are items"),
        (["ann"], "at least 2 questioners, got 1"),
        (["ann", "bub"], "no response of an agent 'bub' in the study. Did you mean 'bob'"),
        (["ann", "ann"], "got 'ann' twice"),
    ],
)
def test_an_exam_that_leaves_no_test_or_has_no_items_is_refused(questioners, said):
    with pytest.raises(UserError, match=said):
        human_pairs(ANSWERED, questioners)


def test_questioners_that_answered_no_task_in_common_have_no_exam():
    with pytest.raises(UserError, match="has no items"):
        human_pairs({"t": ["ann", "cy"], "u": ["bob", "cy"]}, ["ann", "bob"])


async def test_the_exam_is_asked_in_both_orders_or_as_single_ratings():
    pairs = human_pairs(ANSWERED, ["ann", "cy"])
    answers = await sit_human(stage(honest), pairs, TEXTS, PROMPTS)
    assert {(a.evidence.first, a.evidence.value) for a in answers} == {("ann", 1.0), ("cy", 0.0)}
    rated = await sit_human(stage("4", scale=find_scale("5-level")), pairs, TEXTS, PROMPTS)
    assert len(rated) == 20
    assert {(a.exam, a.evidence.second, a.evidence.value) for a in rated} == {("human", None, 4.0)}


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
