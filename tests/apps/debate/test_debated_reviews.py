"""A review whose reviewers are debates: ``--debate`` is in what is asked, in the signature and in the refusals."""

from __future__ import annotations

import re

import pytest

import goldless
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.signature import Signature
from tests.support.marked_verdicts import verdict_reply

WORTH = {"ann": 9, "bob": 5, "cy": 2}
QUESTIONS = 36
"""Six tasks, three pairs of agents, both orders."""


def prefer_the_higher_number(request):
    text = request.messages[-1].content
    first, second = map(int, re.findall(r"Move \d is worth (\d) points", text)[:2])
    if "Do not give a verdict yet." in text:
        return "I am still thinking."
    return verdict_reply(request, "one" if first > second else "two", "The number decides.")


def review(**options):
    rows = [(f"t{i}", agent, f"Move {i} is worth {points} points") for i in range(6) for agent, points in WORTH.items()]
    responses = [dict(zip(("task", "agent", "text"), row, strict=True)) for row in rows]
    model = ScriptedModel(answers=prefer_the_higher_number, name="honest")
    study = goldless.study_from_frame(responses)
    found = goldless.review(study, reviewers={"h": model}, resamples=200, verdicts="labels", **options)
    return found, model


@pytest.mark.parametrize(("debate", "cost"), [("C1", 1), ("C2", 2), ("C3", 4)])
def test_a_review_by_debates_costs_as_many_calls_as_the_paper_says_and_ranks(debate, cost):
    """Auto-PRE, Table 12: 1, 2 and 4 times the price of one GPT-3.5-turbo."""
    found, model = review(debate=debate)
    assert len(model.calls) == QUESTIONS * cost
    assert [row.agent for row in found.ranking] == ["ann", "bob", "cy"]
    assert Signature.parse(found.signature).settings["debate"] == debate


def test_a_debate_is_no_single_model_that_could_have_a_licence(tmp_path):
    with pytest.raises(UserError, match="a licence is for a single model: leave out --debate"):
        review(debate="C1", licences=[tmp_path], task_kind="points")
