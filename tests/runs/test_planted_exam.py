"""The exam planted: a reviewer who judges by looks fails it, one who reads passes, and the worst kind decides."""

from __future__ import annotations

import re

import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.judging.planted_pairs import CONTROL, KINDS
from goldless.models.scripted import ScriptedModel
from goldless.runs.store import save_review

CITIES = ("Paris", "Rome", "Oslo", "Bern", "Cairo", "Lima", "Quito", "Delhi", "Tokyo", "Seoul", "Kyiv", "Riga")
JOBS = (
    *("bake bread", "fix a bike", "grow roses", "paint walls", "learn chess", "train dogs"),
    *("write code", "swim fast", "ski safely", "cook rice", "build huts", "fly kites"),
)
PROMPTS = {
    f"t{number}": f"Say how to {job} in {city}." for number, (job, city) in enumerate(zip(JOBS, CITIES, strict=True))
}
MORE = " That is all there is to say about it, and it has always been so."
RESPONSES = [
    {
        "task": task,
        "agent": agent,
        "prompt": prompt,
        "text": f"{agent}: {prompt[8:-1]} by taking {number + 2} tools and working for {minutes} minutes.{more}",
    }
    for number, (task, prompt) in enumerate(PROMPTS.items())
    for agent, minutes, more in (("Anna", 10 + number, ""), ("Berta", 40 + number, ""), ("Carla", 70 + number, MORE))
]
OWN_TEXTS = {(row["prompt"], row["text"]) for row in RESPONSES}


def shown_texts(request):
    """The prompt and the two texts that a question shows, between lines of its fence."""
    question = request.messages[-1].content
    fence_line = re.search(r"^[=#]{6,}.*$", question, re.MULTILINE)[0]
    return [part.strip("\n") for part in question.split(fence_line)[1::2]]


def reviewer(name, is_better):
    """A reviewer that prefers the first text where ``is_better(prompt, first, second)``."""
    return ScriptedModel(answers=lambda request: "one" if is_better(*shown_texts(request)) else "two", name=name)


def reads(prompt, first, _second):
    """Whether the first text is what an agent answered to this prompt, unaltered."""
    return (prompt, first) in OWN_TEXTS


REVIEWERS = {
    "reads": reviewer("reads", reads),
    "longest": reviewer("longest", lambda _prompt, first, second: len(first) > len(second)),
    "shortest": reviewer("shortest", lambda _prompt, first, second: len(first) < len(second)),
    "first": reviewer("first", lambda *_: True),
}


def review(reviewers=REVIEWERS, **options):
    study = goldless.study_from_frame(pl.DataFrame(RESPONSES))
    settings = {"resamples": 200, "verdicts": "labels", "exams": ("planted",), "exam_items": 50}
    return goldless.review(study, reviewers=reviewers, **(settings | options))


@pytest.fixture(scope="module")
def reviewed():
    return {row.name: row for row in review().reviewers}


def test_only_the_reviewer_who_reads_may_vote(reviewed):
    assert {name for name, row in reviewed.items() if row.passed} == {"reads"}


def test_the_worst_kind_decides(reviewed):
    for row in reviewed.values():
        kinds = [trait.value for name, trait in row.traits.items() if name.startswith("planted: ")]
        assert len(kinds) == len(KINDS)
        assert row.traits["planted"].value == min(kinds)


def test_a_love_of_length_fails_neighbours_and_altered_texts_and_its_opposite_the_control(reviewed):
    longest, shortest = reviewed["longest"].traits, reviewed["shortest"].traits
    assert longest["planted: neighbour"].value == longest["planted: altered"].value == 0
    assert longest[f"planted: {CONTROL}"].value == 1
    assert shortest[f"planted: {CONTROL}"].value == 0


def test_whoever_prefers_a_position_is_right_on_half_of_each_kind(reviewed):
    assert {trait.value for trait in reviewed["first"].traits.values()} == {0.5}


def test_each_pair_is_shown_in_both_orders_and_the_exam_costs_what_the_plan_says():
    model = reviewer("reads", reads)
    result = review({"reads": model})
    exam_calls = len(result.answers)
    assert exam_calls == 2 * len(KINDS) * 5
    sides = result.answers.group_by("difficulty", "task").agg(pl.col("first").unique().sort())
    assert set(map(tuple, sides["first"])) == {("right", "wrong")}


def test_recorded_answers_give_those_who_voted_the_same_traits(tmp_path):
    live = review()
    save_review(live, tmp_path / "run")
    recorded = goldless.review(tmp_path / "run", recorded=True, resamples=200, exams=("planted",))
    assert recorded.voters == live.voters == ("reads",)
    (live_traits,) = (row.traits for row in live.reviewers if row.passed)
    (recorded_traits,) = (row.traits for row in recorded.reviewers if row.passed)
    assert recorded_traits == live_traits


def test_a_study_of_one_prompt_is_refused_before_any_call():
    model = reviewer("reads", reads)
    same_prompt = pl.DataFrame([row | {"prompt": "Say something."} for row in RESPONSES])
    with pytest.raises(UserError, match="cannot make pairs of the kind neighbour"):
        goldless.review(goldless.study_from_frame(same_prompt), reviewers={"reads": model}, exams=("planted",))
    assert model.calls == []
