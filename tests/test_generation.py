"""A model answers a task, writes its synopsis or rewrites a response, or says why not: too long, cut, empty, failed.

Nothing is cut unless it is said.
"""

from __future__ import annotations

import pytest

from goldless.generation import ABSTRACT, ASSW, REWRITE_TOKENS, GenerationStage, RewritingStage, SynopsisStage
from goldless.models.interface import ChatReply, Message, ModelIdentity, Usage
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger, Price
from goldless.records import CallFailure, Response, Task
from goldless.templates import GENERAL, PEER_REVIEW

pytestmark = pytest.mark.anyio

SYSTEM = "Review this paper"
TEN_WORDS = "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9"
TASK = Task("t", prompt=TEN_WORDS)
RESPONSE = Response("t", "ann", "Well, I think the method is fine.")


def writer(answer="A review.", **options) -> ScriptedModel:
    return ScriptedModel(answers=lambda _: answer, **options)


class Silent:
    """A chat model that neither knows its context nor counts."""

    identity = ModelIdentity("http", "silent")

    def __init__(self):
        self.calls = []

    async def chat(self, request):
        self.calls.append(request)
        return ChatReply("A review.")


async def test_a_task_is_put_under_the_system_prompt_as_it_is():
    model = writer("  A review.\n")
    found = await GenerationStage(model, SYSTEM, max_tokens=7, temperature=0.5, seed=3).write(TASK)
    (call,) = model.calls
    assert call.messages == (Message("system", SYSTEM), Message("user", TEN_WORDS))
    assert (call.max_tokens, call.temperature, call.seed) == (7, 0.5, 3)
    assert (found.writer, found.task, found.text) == ("scripted", "t", "  A review.\n")
    assert (found.finish, found.failure, found.characters_cut) == ("stop", None, 0)


@pytest.mark.parametrize(("context", "fits"), [(17, False), (18, True), (None, True)])
async def test_request_and_whole_reply_must_fit_the_context(context, fits):
    """3 words of the system prompt, 10 of the task and 5 for the reply are 18."""
    model = writer(context_length=context)
    found = await GenerationStage(model, SYSTEM, max_tokens=5).write(TASK)
    assert (found.text is not None, len(model.calls)) == (fits, int(fits))
    if not fits:
        assert (found.failure.kind, found.reply, found.characters_cut) == ("too_long", None, 0)
        assert "13 tokens and 5 for the text do not fit the context of 17" in found.failure.message


async def test_cutting_keeps_as_much_of_the_beginning_as_fits():
    """15 less 5 for the reply and 3 of the system prompt leaves 7 words, which are 21 of 29 characters."""
    model = writer(context_length=15)
    found = await GenerationStage(model, SYSTEM, max_tokens=5, truncate=True).write(TASK)
    assert model.calls[0].messages[1].content == "w0 w1 w2 w3 w4 w5 w6 "
    assert (found.text, found.characters_cut) == ("A review.", 8)


async def test_where_nothing_of_a_task_fits_it_is_too_long_even_when_cut():
    model = writer(context_length=8)
    found = await GenerationStage(model, SYSTEM, max_tokens=5, truncate=True).write(TASK)
    assert (found.failure.kind, model.calls) == ("too_long", [])


@pytest.mark.parametrize(("context", "fits"), [(466, False), (467, True)])
async def test_where_a_model_cannot_count_its_tokens_are_estimated_and_said_to_be(context, fits):
    """1000 letters at 3 a token are 334, one is 1; 16 around each of two messages, 100 for the reply: 467."""
    model = Silent()
    stage = GenerationStage(model, "S", max_tokens=100, context_length=context)
    found = await stage.write(Task("t", prompt="x" * 1000))
    assert (found.text is not None, len(model.calls)) == (fits, int(fits))
    if not fits:
        assert "about 367 tokens (estimated)" in found.failure.message


@pytest.mark.parametrize(
    ("answer", "kind", "reply"),
    [
        ("", "bad_reply", ""),
        (" \n", "bad_reply", " \n"),
        (ChatReply("cut off", "length"), "truncated", "cut off"),
        (CallFailure("refused", "no"), "refused", None),
        (CallFailure("server_error", "down"), "server_error", None),
    ],
)
async def test_what_cannot_be_used_is_missing_and_what_came_is_kept_beside_it(answer, kind, reply):
    found = await GenerationStage(writer(answer), SYSTEM).write(TASK)
    assert (found.text, found.failure.kind, found.reply) == (None, kind, reply)
    assert (await SynopsisStage(writer(answer)).write(TASK, "abstract")).kind == kind
    assert (await RewritingStage(writer(answer), GENERAL).rewrite(RESPONSE)).kind == kind


async def test_a_cut_reply_is_kept_where_that_is_asked_for():
    found = await GenerationStage(writer(ChatReply("as far as", "length")), SYSTEM, cut="keep").write(TASK)
    assert (found.text, found.failure, found.finish) == ("as far as", None, "length")
    empty = await GenerationStage(writer(ChatReply("", "length")), SYSTEM, cut="keep").write(TASK)
    assert empty.failure.kind == "truncated"


async def test_a_task_without_a_prompt_is_not_asked():
    model = writer()
    found = await GenerationStage(model, SYSTEM).write(Task("t"))
    synopsis = await SynopsisStage(model).write(Task("t"), "abstract")
    assert (found.failure.kind, synopsis.kind, model.calls) == ("not_recorded", "no_synopsis", [])


async def test_a_reply_out_of_the_journal_says_what_it_cost_then_and_costs_nothing_now(journal):
    ledger = Ledger("toy", Price(1.0, 1.0))
    stage = GenerationStage(
        JournalledModel(writer(ChatReply("A review.", usage=Usage(13, 2))), journal, ledger), SYSTEM
    )
    first, second = await stage.write(TASK), await stage.write(TASK)
    assert (first.input_tokens, first.output_tokens) == (13, 2)
    assert second == first
    assert (ledger.calls, ledger.usage) == (1, Usage(13, 2))


async def test_tokens_that_nobody_counted_are_absent_not_zero():
    found = await GenerationStage(Silent(), SYSTEM).write(TASK)
    assert (found.input_tokens, found.output_tokens) == (None, None)


# --- synopses and rewrites -------------------------------------------------------------------------------------------


def author(**answers) -> ScriptedModel:
    """Answers by which prompt was asked."""
    return ScriptedModel(answers=lambda r: answers["assw" if r.messages[0].content == ASSW else "abstract"])


async def test_an_abstract_is_written_from_the_tasks_prompt():
    model = author(abstract=" A short abstract. ")
    assert await SynopsisStage(model).write(TASK, "abstract") == "A short abstract."
    assert [message.content for message in model.calls[0].messages] == [ABSTRACT, TEN_WORDS]


async def test_assw_is_the_abstract_followed_by_what_the_authors_claim():
    """The GEM paper: "an abstract supplemented with a summary of author-stated strengths and weaknesses"."""
    known = Task("t", prompt="The whole paper.", synopses={"abstract": "Given."})
    text = await SynopsisStage(author(assw="<strengths>fast</strengths>")).write(known, "assw")
    assert text == "Given.\n\n<strengths>fast</strengths>"
    assert await SynopsisStage(author(abstract="Written.", assw="claims")).write(TASK, "assw") == "Written.\n\nclaims"
    without = author(abstract="", assw="claims")
    assert (await SynopsisStage(without).write(TASK, "assw")).kind == "bad_reply"
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
    assert await RewritingStage(model, template).rewrite(RESPONSE) == "The method is fine."
    (call,) = model.calls
    assert call.messages == (Message("system", template.rewrite), Message("user", RESPONSE.text))
    assert (call.temperature, call.max_tokens) == (0.0, REWRITE_TOKENS)
