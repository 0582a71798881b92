"""A rewrite is a text or missing with a cause, never an empty string."""

from __future__ import annotations

import pytest

from goldless.generation import REWRITE_TOKENS, RewritingStage
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure, Response
from goldless.templates import GENERAL, PEER_REVIEW

pytestmark = pytest.mark.anyio

RESPONSE = Response("t", "ann", "Well, I think the method is fine.")


async def rewritten(answer, template=GENERAL):
    model = ScriptedModel(answers=lambda _: answer, name="w")
    return model, await RewritingStage(model, template).rewrite(RESPONSE)


@pytest.mark.parametrize("template", [GENERAL, PEER_REVIEW], ids=lambda template: template.name)
async def test_the_response_is_put_as_it_is_under_the_templates_instructions(template):
    model, _ = await rewritten("x", template)
    system, user = model.calls[0].messages
    assert (system.role, system.content) == ("system", template.rewrite)
    assert (user.role, user.content) == ("user", RESPONSE.text)
    assert (model.calls[0].temperature, model.calls[0].max_tokens) == (0.0, REWRITE_TOKENS)


async def test_a_rewrite_is_without_white_space_around_it():
    assert (await rewritten("  The method is fine.\n"))[1] == "The method is fine."


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("", "bad_reply"),
        (" \n\t", "bad_reply"),
        (ChatReply("The method is", "length"), "truncated"),
        (ChatReply("", "length"), "truncated"),
        (CallFailure("refused", "I cannot"), "refused"),
        (CallFailure("server_error", "down"), "server_error"),
    ],
)
async def test_an_empty_cut_or_failed_rewrite_is_missing_with_its_cause(answer, kind):
    _, failure = await rewritten(answer)
    assert failure.kind == kind
