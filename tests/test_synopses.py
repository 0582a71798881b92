"""A model writes the synopsis of a task that has none; what fails is missing."""

from __future__ import annotations

import pytest

from goldless.generation import ABSTRACT, ASSW, SynopsisStage
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Task

pytestmark = pytest.mark.anyio
TASK = Task("t", prompt="The whole paper.")


def writer(**answers) -> ScriptedModel:
    """Answers by which prompt was asked."""
    return ScriptedModel(answers=lambda r: answers["assw" if r.messages[0].content == ASSW else "abstract"])


async def test_an_abstract_is_written_from_the_tasks_prompt():
    model = writer(abstract=" A short abstract. ")
    assert await SynopsisStage(model).write(TASK, "abstract") == "A short abstract."
    (call,) = model.calls
    assert [m.content for m in call.messages] == [ABSTRACT, "The whole paper."]


async def test_assw_is_the_abstract_followed_by_what_the_authors_claim():
    """The GEM paper: "an abstract supplemented with a summary of author-stated strengths and weaknesses"."""
    known = Task("t", prompt="The whole paper.", synopses={"abstract": "Given."})
    text = await SynopsisStage(writer(assw="<strengths>fast</strengths>")).write(known, "assw")
    assert text == "Given.\n\n<strengths>fast</strengths>"
    assert await SynopsisStage(writer(abstract="Written.", assw="claims")).write(TASK, "assw") == "Written.\n\nclaims"


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
    assert (await SynopsisStage(writer(abstract=answer)).write(TASK, "abstract")).kind == kind


async def test_without_the_abstract_there_is_no_assw_and_nobody_is_asked_for_it():
    model = writer(abstract="", assw="claims")
    assert (await SynopsisStage(model).write(TASK, "assw")).kind == "bad_reply"
    assert len(model.calls) == 1


async def test_a_task_without_a_prompt_has_no_synopsis():
    model = writer(abstract="x")
    assert (await SynopsisStage(model).write(Task("t"), "abstract")).kind == "no_synopsis"
    assert model.calls == []
