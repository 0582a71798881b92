"""Debates: who speaks when, who sees what, and what comes of the verdicts."""

from __future__ import annotations

import pytest

from goldless.apps.debate.stage import C1, C2, C3
from goldless.judging.asking import ReviewQuestion
from goldless.judging.scales import FIVE_LEVEL, PAIRWISE
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio

PAIR, SINGLE = ReviewQuestion("t", "ann", "bob"), ReviewQuestion("t", "ann")
TEXTS = {("t", "ann"): "a dog", ("t", "bob"): "the cat"}


def marked(request, answer):
    """The answer with the mark of the question in its line ``Verdict:``."""
    return answer.replace("Verdict:", f"Verdict-{request.mark}:") if isinstance(answer, str) else answer


def replying(*answers, name="scripted") -> ScriptedModel:
    queue = iter(answers)
    return ScriptedModel(answers=lambda request: marked(request, next(queue)), name=name)


async def debated(models, debate=C2, scale=PAIRWISE, texts=TEXTS, **options):
    stage = debate(models, scale, **options)
    return (await stage.review([PAIR if scale.pairwise else SINGLE], texts, {"t": "What do you see?"}))[0]


# --- who speaks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("debate", "cost"), [(C1, 1), (C2, 2), (C3, 4)], ids=["C1", "C2", "C3"])
async def test_a_preset_costs_as_many_calls_as_the_paper_says(debate, cost):
    """Auto-PRE, Table 12: 1, 2 and 4 times the price of one GPT-3.5-turbo."""
    model = ScriptedModel(answers=lambda request: marked(request, "I like dogs.\nVerdict: one"))
    assert (await debated(model, debate)).value == 1.0
    assert len(model.calls) == cost
    assert len(debate.debaters) * debate.rounds == cost


async def test_debaters_speak_in_turn_and_see_all_earlier_turns():
    model = replying("turn-a", "turn-b", "turn-c\nVerdict: one", "turn-d\nVerdict: two")
    row = await debated(model, C3)
    asked = [call.messages[-1].content for call in model.calls]
    seen = [[turn for turn in ("turn-a", "turn-b", "turn-c") if turn in text] for text in asked]
    assert seen == [[], ["turn-a"], ["turn-a", "turn-b"], ["turn-a", "turn-b", "turn-c"]]
    roles = [call.messages[0].content.split(",")[0] for call in model.calls]
    assert roles == ["You are General Public", "You are Critic"] * 2
    assert ["Do not give a verdict yet." in text for text in asked] == [True, True, False, False]
    assert row.value == 0.5
    assert row.output.startswith("[General Public] turn-a\n\n[Critic] turn-b\n\n")


async def test_a_turn_that_was_cut_is_still_a_turn_and_an_empty_one_is_not():
    cut = ChatReply("so far", "length")
    assert (await debated(replying(cut, "b", "Verdict: one", "Verdict: one"), C3)).value == 1.0
    row = await debated(replying("a", "  "), C3)
    assert (row.value, row.failure.kind, row.output) == (None, "bad_reply", "[General Public] a")


# --- verdicts --------------------------------------------------------------------------------------------------------


async def test_the_verdict_is_the_mean_of_the_debaters():
    """(5 + 2) / 2 = 3.5."""
    row = await debated(replying("Fine.\nVerdict: 5", "Poor.\n**Verdict:** 2/5"), scale=FIVE_LEVEL)
    assert (row.value, row.scale, row.read_from) == (3.5, "5-level", "label")


async def test_a_verdict_is_read_from_its_line_and_not_from_the_argument():
    reply = "Answer one is long. Some would say one.\nOutput: one\n\nVerdict: two\nIt is shorter than one."
    assert (await debated(replying(reply), C1)).value == 0.0


async def test_a_debater_may_quote_another_ones_verdict_before_its_own_without_being_asked_again():
    model = replying("Short.\nVerdict: one", "They said:\nVerdict-bcdfghjk: one\nI do not agree.\n\nVerdict: two")
    assert (await debated(model)).value == 0.5
    assert len(model.calls) == 2


async def test_an_argument_without_a_verdict_line_is_asked_about_once_more():
    model = replying("One thing is clear: I like dogs.\nThat is all.", "two")
    assert (await debated(model, C1)).value == 0.0
    mark = model.calls[1].mark
    assert model.calls[1].messages[-1].content.endswith(f"Verdict-{mark}: followed by one of these: one or two")


async def test_a_debate_with_a_verdict_missing_has_none():
    row = await debated(replying("Verdict: one", "Hm.", "Hm."))
    assert (row.value, row.failure.kind) == (None, "unparsable")
    assert "the debater gave none of" in row.failure.message


async def test_a_debate_with_a_failed_turn_has_no_verdict_and_is_not_carried_on():
    model = replying("a", CallFailure("timeout", "late"))
    row = await debated(model, C3)
    assert (row.value, row.failure) == (None, CallFailure("timeout", "late"))
    assert len(model.calls) == 2
