"""The review stage with scripted models: how judgements are read, and what is missing and why."""

from __future__ import annotations

import math

import pytest

from goldless.errors import CapabilityError, UserError
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import FIVE_LEVEL, HUNDRED_LEVEL, PAIRWISE, PAIRWISE_TIE
from goldless.models.interface import Capabilities, ChatReply
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


# --- written verdicts ----------------------------------------------------------------------------------------------


async def test_a_written_verdict_keeps_what_the_model_wrote():
    model = replying("Summary two better summarizes the passage.")
    row = await reviewed(model)
    assert (row.value, row.output, row.read_from) == (0.0, "Summary two better summarizes the passage.", "label")
    request = model.calls[0]
    assert (request.temperature, request.choices, request.max_tokens) == (0.0, (), 64)
    assert "What do you see?" in request.messages[1].content


@pytest.mark.parametrize("output", ["0", "8", "-3"])
async def test_a_rating_outside_of_the_range_is_missing_and_never_a_value(output):
    row = await reviewed(replying(output, output), FIVE_LEVEL)
    assert (row.value, row.failure.kind) == (None, "unparsable")


# --- questions and texts -------------------------------------------------------------------------------------------


async def test_a_missing_text_makes_its_questions_missing_with_its_failure_and_asks_nothing():
    model = ScriptedModel(answers=lambda _: "one")
    texts = {**TEXTS, ("t", "bob"): CallFailure("refused", "no answer")}
    found = await reviewed(model, questions=[PAIR, ReviewQuestion("u", "ann", "bob")], texts=texts)
    assert [row.failure and row.failure.kind for row in found] == ["refused", None]
    assert len(model.calls) == 1


async def test_a_task_without_a_prompt_is_reviewed_from_its_responses_alone():
    model = replying("one", "two")
    await reviewed(
        model,
        questions=[ReviewQuestion("u", "ann", "bob"), ReviewQuestion("w", "ann", "bob")],
        texts={**TEXTS, ("w", "ann"): "x", ("w", "bob"): "y"},
    )
    assert all("###Question: not shown" in call.messages[1].content for call in model.calls)


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
