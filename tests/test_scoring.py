"""Scoring puts every marginal and ordered pair to the scorer, at the same positions, and leaves gaps as gaps."""

from __future__ import annotations

import pytest

from goldless.errors import TextTooLongError
from goldless.models.interface import ScoreRequest, TokenLogprobs
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Task
from goldless.scoring import (
    ScoringJob,
    ScoringStage,
    questions,
    refuse_too_long,
    score_together,
    too_long,
    unfit,
)
from goldless.templates import GENERAL, PEER_REVIEW

pytestmark = pytest.mark.anyio

TASK = Task("t", synopses={"abstract": "an abstract"})


class Bytes(ScriptedModel):
    """A scorer asked by token ids, one a byte, with an end token, and room for ``room`` of them."""

    def __init__(self, room: int | None = None) -> None:
        super().__init__(logprobs={}, name="bytes")
        self.room = room

    @property
    def context_length(self):
        return self.room

    async def encode(self, messages, target):
        context = "\n\n".join(message.content for message in messages)
        return ScoreRequest(tuple(context.encode()), (*target.encode(), 256))

    async def score(self, requests, deliver):
        self.calls += requests
        deliver({i: TokenLogprobs(tuple(-1.0 for _ in r.target)) for i, r in enumerate(requests)})


def job(stage, texts):
    return ScoringJob(stage, TASK, texts, list(questions(list(texts))))


async def score_task(stage, texts):
    """Evidence for every marginal and ordered pair of the texts, one row after the other."""
    return (await score_together([job(stage, texts)])).to_dicts()


async def measure(stage, texts):
    return await unfit([job(stage, texts)])


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
    model = Bytes()
    await score_task(ScoringStage(model, GENERAL), {"a": "äö", "b": "b", "c": " c\n"})
    by_target: dict = {}
    for call in model.calls:
        by_target.setdefault(call.target, []).append(call.context)
    assert set(by_target) == {(*text.encode(), 256) for text in ("äö", "b", " c\n")}
    assert {len(contexts) for contexts in by_target.values()} == {3}
    assert all(len(set(contexts)) == 3 for contexts in by_target.values())


async def test_a_text_that_does_not_fit_is_not_asked_and_not_cut():
    shared = len(f"{GENERAL.predict}\n\n{GENERAL.question(None, '')}".removesuffix("Not available"))
    model = Bytes(room=shared + 40)
    evidence = await score_task(ScoringStage(model, GENERAL), {"a": "x" * 30, "b": "y" * 5})
    assert [(r["target"], r["given"], r["failure"]) for r in evidence] == [
        ("a", None, "too_long"),  # 13 characters of "Not available", 30 and the end
        ("a", "b", None),  # 5, 30 and the end
        ("b", None, None),
        ("b", "a", None),
    ]
    assert evidence[0]["failure_message"] == f"{shared + 13 + 31} tokens do not fit the context of {shared + 40}"
    assert len(model.calls) == 3


# --- refusing ----------------------------------------------------------------------------------------------------


async def test_refusing_names_every_task_agent_and_length_and_what_to_do_whether_or_not_the_scorer_was_asked():
    stage, texts = ScoringStage(Bytes(room=10), GENERAL), {"ann": "x", "bob": "y", "cy": CallFailure("timeout", "")}
    rows = await measure(stage, texts)
    assert stage.scorer.calls == []
    with pytest.raises(TextTooLongError) as caught:
        refuse_too_long(rows)
    text = str(caught.value)
    assert "4 log-probabilities" in text
    assert "task t: ann given bob: " in text
    assert "tokens do not fit the context of 10" in text
    assert "--on-too-long skip" in text
    found = too_long(await score_together([job(stage, texts)]))
    assert [(what, said.message) for what, said in found] == [(what, said.message) for what, said in rows]
