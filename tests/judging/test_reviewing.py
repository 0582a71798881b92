"""The review stage with scripted models: how judgements are read, and what is missing and why."""

from __future__ import annotations

import math
import re

import anyio
import pytest

from goldless.errors import CapabilityError, UserError
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import FIVE_LEVEL, HUNDRED_LEVEL, PAIRWISE, PAIRWISE_TIE
from goldless.models.interface import Capabilities, ChatReply, ChatRequest
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio

PAIR, SINGLE = ReviewQuestion("t", "ann", "bob"), ReviewQuestion("t", "ann")
TEXTS = {("t", "ann"): "a dog", ("t", "bob"): "the cat", ("u", "ann"): "a car", ("u", "bob"): "a bus"}
PROMPTS = {"t": "What do you see?", "u": None}


class WriterOnly(ScriptedModel):
    """A chat model that tells no probabilities."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(chat=True)


def replying(*answers, kind=ScriptedModel):
    """A chat model that gives one answer after the other."""
    queue = iter(answers)
    return kind(answers=lambda _: next(queue))


async def reviewed(model, scale=PAIRWISE, verdicts="labels", *, questions=None, texts=TEXTS, at_once=1, **options):
    questions = [PAIR if scale.pairwise else SINGLE] if questions is None else questions
    found = await ReviewStage(model, scale, verdicts=verdicts, **options).review(
        questions, texts, PROMPTS, at_once=at_once
    )
    return found[0] if len(questions) == 1 else found


# --- which way verdicts are read -----------------------------------------------------------------------------------

SCORES, CHATS = ScriptedModel(logprobs={}), ScriptedModel(answers={})
BOTH = ScriptedModel(logprobs={}, answers={})


@pytest.mark.parametrize(
    ("model", "scale", "verdicts", "reading"),
    [
        (SCORES, PAIRWISE, "auto", "probabilities-scored"),
        (BOTH, FIVE_LEVEL, "auto", "probabilities-scored"),
        (BOTH, PAIRWISE, "labels", "labels"),
        (CHATS, PAIRWISE, "auto", "probabilities-chosen"),
        (CHATS, FIVE_LEVEL, "probabilities", "probabilities-chosen"),
        (CHATS, HUNDRED_LEVEL, "auto", "labels"),
        (BOTH, HUNDRED_LEVEL, "auto", "labels"),
        (WriterOnly(answers={}), PAIRWISE, "auto", "labels"),
    ],
)
def test_verdicts_are_read_from_probabilities_where_model_and_scale_allow(model, scale, verdicts, reading):
    assert ReviewStage(model, scale, verdicts=verdicts).reading == reading


def test_a_stage_that_cannot_work_is_refused_when_it_is_made():
    with pytest.raises(UserError, match="100-level has too many verdicts"):
        ReviewStage(BOTH, HUNDRED_LEVEL, verdicts="probabilities")
    with pytest.raises(CapabilityError, match="writes no text, so it cannot be a reviewer"):
        ReviewStage(SCORES, HUNDRED_LEVEL)
    with pytest.raises(
        CapabilityError, match=r"does not return probabilities of its verdicts\. Reviewers that do: embedded"
    ):
        ReviewStage(WriterOnly(answers={}), PAIRWISE, verdicts="probabilities")
    with pytest.raises(UserError, match="auto, probabilities or labels, got 'votes'"):
        ReviewStage(CHATS, PAIRWISE, verdicts="votes")


# --- probabilities -------------------------------------------------------------------------------------------------


async def test_scored_labels_give_the_probability_that_the_first_is_better():
    """p(one) : p(two) = .3 : .1 before normalising, so .75; the likeliest label stands as the output."""
    model = ScriptedModel(logprobs=lambda _, target: [math.log({"one": 0.3, "two": 0.1}[target])])
    row = await reviewed(model, verdicts="auto")
    assert row.value == pytest.approx(0.75)
    assert (row.output, row.read_from, row.failure) == ("one", "probabilities", None)
    assert row.label_logprobs == pytest.approx({"one": math.log(0.75), "two": math.log(0.25)})


async def test_a_rating_from_probabilities_is_the_expected_one():
    """.1*1 + .2*2 + .3*3 + .4*4 + 0*5 = 3.0; a label of no probability keeps its log-probability."""
    shares = {"1": math.log(0.1), "2": math.log(0.2), "3": math.log(0.3), "4": math.log(0.4), "5": -math.inf}
    model = replying(ChatReply("4", "choice", choice_logprobs=shares))
    row = await reviewed(model, FIVE_LEVEL, "auto")
    assert row.value == pytest.approx(3.0)
    assert (row.output, row.label_logprobs["5"]) == ("4", -math.inf)
    assert model.calls[0].choices == ("1", "2", "3", "4", "5")


async def test_an_offered_tie_counts_half():
    """.5 * 1 + .2 * 0 + .3 * .5 = .65."""
    shares = {"one": math.log(0.5), "two": math.log(0.2), "tie": math.log(0.3)}
    row = await reviewed(replying(ChatReply("one", "choice", choice_logprobs=shares)), PAIRWISE_TIE, "auto")
    assert row.value == pytest.approx(0.65)


async def test_a_choice_without_probabilities_counts_as_its_label_and_says_so():
    row = await reviewed(replying("two"), verdicts="auto")
    assert (row.value, row.output, row.read_from, row.label_logprobs) == (0.0, "two", "label", None)


async def test_all_labels_of_all_questions_are_scored_in_one_batch():
    batches = []

    class Counting(ScriptedModel):
        async def score(self, requests, deliver):
            batches.append(len(requests))
            await super().score(requests, deliver)

    questions = [PAIR, ReviewQuestion("u", "ann", "bob"), ReviewQuestion("u", "bob", "ann")]
    await reviewed(Counting(logprobs=lambda *_: [-1.0]), verdicts="auto", questions=questions)
    assert batches == [6]


async def test_one_label_that_failed_makes_its_judgement_missing_and_no_other():
    def scripted(context, target):
        return CallFailure("timeout", "late") if "a car" in context and target == "two" else [-1.0]

    questions = [PAIR, ReviewQuestion("u", "ann", "bob")]
    known, missing = await reviewed(ScriptedModel(logprobs=scripted), verdicts="auto", questions=questions)
    assert known.value == pytest.approx(0.5)
    assert (missing.value, missing.output, missing.failure) == (None, None, CallFailure("timeout", "late"))


async def test_log_probabilities_that_are_no_numbers_are_a_bad_reply():
    row = await reviewed(ScriptedModel(logprobs=lambda *_: [math.nan]), verdicts="auto")
    assert (row.value, row.failure.kind) == (None, "bad_reply")


# --- written verdicts ----------------------------------------------------------------------------------------------


async def test_a_written_verdict_keeps_what_the_model_wrote():
    model = replying("Summary two better summarizes the passage.")
    row = await reviewed(model)
    assert (row.value, row.output, row.read_from) == (0.0, "Summary two better summarizes the passage.", "label")
    request = model.calls[0]
    assert (request.temperature, request.choices, request.max_tokens) == (0.0, (), 64)
    assert "What do you see?" in request.messages[1].content


async def test_an_explicit_tie_counts_half_though_it_was_not_offered():
    assert (await reviewed(replying("tie"))).value == 0.5


async def test_a_judgement_belongs_to_its_reviewer_scale_and_question():
    row = await reviewed(replying("85"), HUNDRED_LEVEL, questions=[ReviewQuestion("u", "bob")], reviewer="panel-1")
    assert (row.reviewer, row.scale, row.task, row.first, row.second) == ("panel-1", "100-level", "u", "bob", None)
    assert row.value == 85.0
    assert (await reviewed(replying("one"))).reviewer == "scripted"


async def test_a_reply_without_a_verdict_is_answered_by_the_labels_and_asked_about_once_more():
    model = replying("Hard to say.", "two")
    row = await reviewed(model)
    assert (row.value, row.output, row.failure) == (0.0, "two", None)
    first, again = model.calls
    assert again.messages[:2] == first.messages
    assert [(m.role, m.content) for m in again.messages[2:]] == [
        ("assistant", "Hard to say."),
        ("user", "Your reply holds no verdict that can be read. Reply with nothing but one of these: one or two."),
    ]


async def test_two_replies_without_a_verdict_are_missing_and_keep_what_was_written():
    model = replying("Neither.", "None of them.")
    row = await reviewed(model)
    assert (row.value, row.output, row.failure.kind) == (None, "None of them.", "unparsable")
    assert "the reviewer gave none of one of these: one or two, twice" in row.failure.message
    assert row.failure.attempts == len(model.calls) == 2


@pytest.mark.parametrize("output", ["0", "8", "-3"])
async def test_a_rating_outside_of_the_range_is_missing_and_never_a_value(output):
    row = await reviewed(replying(output, output), FIVE_LEVEL)
    assert (row.value, row.failure.kind) == (None, "unparsable")


async def test_a_reply_cut_before_its_verdict_is_truncated():
    cut = ChatReply("The first answer", "length")
    assert (await reviewed(replying(cut, cut))).failure.kind == "truncated"


@pytest.mark.parametrize("kind", ["refused", "timeout", "budget"])
async def test_a_failed_call_keeps_its_failure_and_is_not_asked_again(kind):
    model = replying(CallFailure(kind, "no"))
    assert (await reviewed(model)).failure == CallFailure(kind, "no")
    assert len(model.calls) == 1


async def test_a_failure_of_the_second_call_is_the_failure_and_the_first_reply_is_kept():
    row = await reviewed(replying("Hm.", CallFailure("timeout", "late")))
    assert (row.failure.kind, row.output) == ("timeout", "Hm.")


# --- questions and texts -------------------------------------------------------------------------------------------


async def test_a_missing_text_makes_its_questions_missing_with_its_failure_and_asks_nothing():
    model = ScriptedModel(answers=lambda _: "one")
    texts = {**TEXTS, ("t", "bob"): CallFailure("refused", "no answer")}
    found = await reviewed(model, questions=[PAIR, ReviewQuestion("u", "ann", "bob")], texts=texts)
    assert [row.failure and row.failure.kind for row in found] == ["refused", None]
    assert len(model.calls) == 1


async def test_a_question_about_a_response_that_is_not_there_is_an_error():
    with pytest.raises(UserError, match="no response of bob to task v"):
        await reviewed(CHATS, questions=[ReviewQuestion("v", "bob", "ann")], texts={("v", "ann"): "x"})


async def test_a_question_with_another_number_of_responses_than_the_scales_is_an_error():
    with pytest.raises(UserError, match="pairwise takes two responses"):
        await reviewed(CHATS, questions=[SINGLE])
    with pytest.raises(UserError, match="100-level takes one response"):
        await reviewed(CHATS, HUNDRED_LEVEL, questions=[PAIR])


async def test_a_task_without_a_prompt_is_reviewed_from_its_responses_alone():
    model = replying("one", "two")
    await reviewed(
        model,
        questions=[ReviewQuestion("u", "ann", "bob"), ReviewQuestion("w", "ann", "bob")],
        texts={**TEXTS, ("w", "ann"): "x", ("w", "bob"): "y"},
    )
    assert all("###Question: not shown" in call.messages[1].content for call in model.calls)


async def test_judgements_come_back_in_the_order_of_the_questions_however_long_each_took():
    class Slow(ScriptedModel):
        async def chat(self, request: ChatRequest):
            number = int(re.search(r"number (\d+)", request.messages[1].content)[1])
            for _ in range(20 - number):
                await anyio.lowlevel.checkpoint()
            return ChatReply(str(10 * number))

    texts = {(f"{i}", "bob"): f"number {i}" for i in range(10)}
    questions = [ReviewQuestion(f"{i}", "bob") for i in range(10)]
    found = await reviewed(Slow(answers={}), HUNDRED_LEVEL, questions=questions, texts=texts, at_once=4)
    assert [row.value for row in found] == [10.0 * i for i in range(10)]


async def test_less_than_one_request_at_once_is_refused():
    with pytest.raises(UserError, match="at_once must be at least 1"):
        await reviewed(CHATS, at_once=0)


async def test_nothing_asked_gives_nothing():
    assert await reviewed(CHATS, questions=[]) == []
    assert await reviewed(SCORES, verdicts="auto", questions=[]) == []


async def test_the_description_of_the_task_reaches_the_reviewer():
    model = replying("one")
    await reviewed(model, task_description="Judge two poems.")
    assert model.calls[0].messages[0].content.startswith("###Task: Judge two poems. You only need")


async def test_a_second_run_pays_for_nothing(journal):
    for round_ in range(2):
        model = replying("Hm.", "one")
        row = await reviewed(JournalledModel(model, journal, Ledger("m", None, None)))
        assert row.value == 1.0
        assert len(model.calls) == (2 if round_ == 0 else 0)
