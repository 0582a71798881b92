"""A model writes the synopsis of a task that has none; what fails is missing."""

from __future__ import annotations

import pytest

from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Task
from goldless.synopses import ABSTRACT, ASSW, SynopsisStage

pytestmark = pytest.mark.anyio
TASK = Task("t", prompt="The whole paper.")


def writer(**answers) -> ScriptedModel:
    """Answers by which prompt was asked."""
    return ScriptedModel(answers=lambda r: answers["assw" if r.messages[0].content == ASSW else "abstract"])


async def test_an_abstract_is_written_from_the_tasks_prompt():
    model = writer(abstract=" A short abstract. ")
    (row,) = await SynopsisStage(model).write(TASK, "abstract")
    assert (row.task, row.synopsis, row.text, row.failure) == ("t", "abstract", "A short abstract.", None)
    (call,) = model.calls
    assert [m.content for m in call.messages] == [ABSTRACT, "The whole paper."]


async def test_assw_is_the_abstract_followed_by_what_the_authors_claim():
    """The GEM paper: "an abstract supplemented with a summary of author-stated strengths and weaknesses"."""
    known = Task("t", prompt="The whole paper.", synopses={"abstract": "Given."})
    (row,) = await SynopsisStage(writer(assw="<strengths>fast</strengths>")).write(known, "assw")
    assert row.text == "Given.\n\n<strengths>fast</strengths>"
    rows = await SynopsisStage(writer(abstract="Written.", assw="claims")).write(TASK, "assw")
    assert [(r.synopsis, r.text) for r in rows] == [("abstract", "Written."), ("assw", "Written.\n\nclaims")]


async def test_the_prompt_for_assw_is_the_papers_c4():
    for words in (
        "Your goal is to identify and list the strengths and weaknesses that the paper claims about itself.",
        "<strengths_claimed_by_the_paper>",
        "Do not include the strengths and weaknesses of the baseline.",
    ):
        assert words in ASSW


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("", "bad_reply"),
        ("  \n", "bad_reply"),
        (ChatReply("cut off", "length"), "truncated"),
        (CallFailure("refused", "no"), "refused"),
    ],
)
async def test_what_fails_or_comes_back_empty_is_missing(answer, kind):
    (row,) = await SynopsisStage(writer(abstract=answer)).write(TASK, "abstract")
    assert (row.text, row.failure.kind) == (None, kind)


async def test_without_the_abstract_there_is_no_assw_and_nobody_is_asked_for_it():
    model = writer(abstract="", assw="claims")
    rows = await SynopsisStage(model).write(TASK, "assw")
    assert [(r.synopsis, r.text) for r in rows] == [("abstract", None), ("assw", None)]
    assert len(model.calls) == 1


async def test_a_task_without_a_prompt_has_no_synopsis():
    model = writer(abstract="invented")
    (row,) = await SynopsisStage(model).write(Task("t"), "abstract")
    assert (row.text, row.failure.kind, model.calls) == (None, "no_synopsis", [])
