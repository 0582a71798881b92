"""A model writes the synopsis of a task or rewrites a response, or says why not: cut, empty, failed."""

from __future__ import annotations

import pytest

from goldless.generation import REWRITE_TOKENS, rewrite, write_synopsis
from goldless.models.interface import ChatReply, Message
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Response, Task
from goldless.templates import ASSW, GENERAL, PEER_REVIEW

pytestmark = pytest.mark.anyio

TASK = Task("t", prompt="w0 w1 w2")
RESPONSE = Response("t", "ann", "Well, I think the method is fine.")


def writer(answer) -> ScriptedModel:
    return ScriptedModel(answers=lambda _: answer)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("", "bad_reply"),
        (" \n", "bad_reply"),
        (ChatReply("cut off", "length"), "truncated"),
        (CallFailure("refused", "no"), "refused"),
    ],
)
async def test_what_cannot_be_used_is_missing_with_its_cause(answer, kind):
    assert (await write_synopsis(writer(answer), TASK, "abstract")).kind == kind
    assert (await rewrite(writer(answer), GENERAL, RESPONSE)).kind == kind


async def test_a_task_without_a_prompt_is_not_asked():
    model = writer("A synopsis.")
    found = await write_synopsis(model, Task("t"), "abstract")
    assert (found.kind, model.calls) == ("no_synopsis", [])


def author(**answers) -> ScriptedModel:
    """Answers by which prompt was asked."""
    return ScriptedModel(answers=lambda r: answers["assw" if r.messages[0].content == ASSW else "abstract"])


async def test_assw_is_the_abstract_followed_by_what_the_authors_claim():
    """The GEM paper: "an abstract supplemented with a summary of author-stated strengths and weaknesses"."""
    known = Task("t", prompt="The whole paper.", synopses={"abstract": "Given."})
    text = await write_synopsis(author(assw="<strengths>fast</strengths>"), known, "assw")
    assert text == "Given.\n\n<strengths>fast</strengths>"
    assert await write_synopsis(author(abstract="Written.", assw="claims"), TASK, "assw") == "Written.\n\nclaims"
    without = author(abstract="", assw="claims")
    assert (await write_synopsis(without, TASK, "assw")).kind == "bad_reply"
    assert len(without.calls) == 1


@pytest.mark.parametrize(
    "words",
    [
        "Your goal is to identify and list the strengths and weaknesses that the paper claims about itself.",
        "<strengths_claimed_by_the_paper>",
        "Do not include the strengths and weaknesses of the baseline.",
    ],
)
async def test_the_prompt_for_assw_is_the_papers_c4(words):
    assert words in ASSW


@pytest.mark.parametrize("template", [GENERAL, PEER_REVIEW], ids=lambda template: template.name)
async def test_a_response_is_rewritten_as_it_is_under_the_templates_instructions(template):
    model = writer("  The method is fine.\n")
    assert await rewrite(model, template, RESPONSE) == "The method is fine."
    (call,) = model.calls
    assert call.messages == (Message("system", template.rewrite), Message("user", RESPONSE.text))
    assert (call.temperature, call.max_tokens) == (0.0, REWRITE_TOKENS)
