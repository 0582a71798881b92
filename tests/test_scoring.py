"""Scoring puts every marginal and ordered pair to the scorer, at the same positions."""

from __future__ import annotations

import pytest

from goldless.models.scripted import ScriptedModel
from goldless.records import Task
from goldless.scoring import (
    ScoringJob,
    ScoringStage,
    questions,
    score_together,
)
from goldless.templates import GENERAL, PEER_REVIEW
from tests.support.study_files import ByteScorer

pytestmark = pytest.mark.anyio

TASK = Task("t", synopses={"abstract": "an abstract"})


async def score_task(stage, texts):
    """Evidence for every marginal and ordered pair of the texts, one row after the other."""
    return (await score_together([ScoringJob(stage, TASK, texts, list(questions(list(texts))))])).to_dicts()


async def test_the_prompt_is_the_templates_and_the_marginal_has_not_available_in_place_of_the_candidate():
    model = ScriptedModel(logprobs=lambda _c, _t: [-1.0])
    await score_task(ScoringStage(model, PEER_REVIEW), {"a": "text of a", "b": "text of b"})
    start = f"{PEER_REVIEW.predict}\n\n[Abstract of the paper]\n\nNot available\n\n"
    heading = "[Review judgments from the first reviewer]\n\n"
    assert [(call.context, call.target) for call in model.calls] == [
        (f"{start}{heading}Not available", "text of a"),
        (f"{start}{heading}text of b", "text of a"),
        (f"{start}{heading}Not available", "text of b"),
        (f"{start}{heading}text of a", "text of b"),
    ]


async def test_the_scored_positions_of_a_target_are_the_same_whatever_is_given():
    model = ByteScorer()
    await score_task(ScoringStage(model, GENERAL), {"a": "äö", "b": "b", "c": " c\n"})
    by_target: dict = {}
    for call in model.calls:
        by_target.setdefault(call.target, []).append(call.context)
    assert set(by_target) == {tuple(text.encode()) for text in ("äö", "b", " c\n")}
    assert {len(contexts) for contexts in by_target.values()} == {3}
    assert all(len(set(contexts)) == 3 for contexts in by_target.values())


# --- refusing ----------------------------------------------------------------------------------------------------
