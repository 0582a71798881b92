from __future__ import annotations

import math

import pytest

from goldless.apps.jury.panel import Juror, Jury, jury_worth
from goldless.errors import CapabilityError, UserError
from goldless.judging.licences import SharedErrors, issue
from goldless.judging.scales import find_scale
from goldless.models.interface import ChatRequest, ModelIdentity, Usage
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger
from tests.apps.jury.jury_models import always, juror, prefers

pytestmark = pytest.mark.anyio

ANSWERS = ("a text about zarn", "a text about bluk")


async def decide(*jurors: Juror, answers=ANSWERS):
    return await Jury(jurors).decide("What is it about?", answers)


# --- two answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ["one", "two"])
async def test_a_juror_who_only_looks_at_the_place_decides_nothing(reply):
    verdict = await decide(juror(always(reply)))
    assert verdict.winner is None
    assert verdict.shares == (0.5, 0.5)


async def test_probabilities_of_a_scoring_juror_are_its_share():
    """It gives the answer with zarn 0.8 in both orders."""

    def logprobs(context: str, target: str) -> list[float]:
        likely = "one" if context.index("zarn") < context.index("bluk") else "two"
        return [math.log(0.8 if target == likely else 0.2)]

    verdict = await decide(juror(ScriptedModel(logprobs=logprobs)))
    assert verdict.winner == 0
    assert verdict.shares == pytest.approx((0.8, 0.2))
    assert verdict.usage.input_tokens > 0


# --- more answers, ratings --------------------------------------------------------------------------------------


async def test_a_round_robin_ranks_by_the_mean_share_over_opponents():
    """The first beats both, the second beats one of two."""
    verdict = await decide(juror(prefers("zarn", "bluk", "mipo")), answers=("zarn", "bluk", "mipo"))
    assert verdict.winner == 0
    assert verdict.shares == (1.0, 0.5, 0.0)
    assert len(verdict.votes) == 6


async def test_a_juror_who_rates_votes_for_the_higher_rating_once():
    """Its vote weighs as much as both orders of a juror who compares: 1 against 1."""

    def rate(request: ChatRequest) -> str:
        return "4" if "zarn" in request.messages[-1].content else "2"

    rating = juror(ScriptedModel(answers=rate, name="rating"), "ann", scale="5-level")
    verdict = await decide(rating)
    assert [(vote.first, vote.second, vote.value) for vote in verdict.votes] == [("0", None, 4.0), ("1", None, 2.0)]
    assert verdict.shares == (1.0, 0.0)
    assert (await decide(rating, juror(prefers("bluk", "zarn"), "bob"))).winner is None


# --- hostile answers, the journal, usage ---------------------------------------------------------------------------


async def test_a_case_asked_again_is_answered_from_the_journal(journal):
    model = prefers("zarn", "bluk")
    chat = JournalledModel(model, journal, Ledger("scripted", None))
    first, second = [await decide(juror(chat)) for _ in range(2)]
    assert len(model.calls) == 2
    assert second.shares == first.shares
    assert first.usage != Usage()
    assert second.usage == Usage()


# --- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        *(
            (lambda weight=weight: juror(always("one"), weight=weight), UserError, "weight must be a number above 0")
            for weight in (0.0, -1.0, math.nan, math.inf)
        ),
        (lambda: Jury([]), UserError, "at least one juror"),
        (lambda: Jury([juror(always("one")), juror(always("two"))]), UserError, "ann is given more than once"),
        (lambda: Jury([juror(ScriptedModel())]), CapabilityError, "neither scores nor writes"),
    ],
)
def test_a_jury_that_cannot_decide_is_refused_when_it_is_formed(make, error, said):
    with pytest.raises(error, match=said):
        make()


# --- what a jury is worth ----------------------------------------------------------------------------------------


def licence(name, of="errors", study="f", **shared):
    return issue(
        ModelIdentity("scripted", name),
        find_scale("pairwise"),
        task_description="",
        task_kind="news",
        sittings=(),
        traits={},
        weight=1.0,
        study_fingerprint=study,
        shared={f"scripted:{other}": SharedErrors(value, 40, of) for other, value in shared.items()},
    )


def test_a_jury_is_worth_what_its_licences_say_of_shared_errors():
    """Mean correlation (.2 + .4 + .6) / 3 = .4 of three: 3 / (1 + 2 * .4) votes; of two: 2 / 1.2."""
    ann, bob, cy = licence("ann", bob=0.2, cy=0.4), licence("bob", ann=0.2, cy=0.6), licence("cy", ann=0.4, bob=0.6)
    worth = jury_worth([ann, bob, cy])
    assert worth.effective_votes == pytest.approx(3 / 1.8)
    assert (worth.correlation, worth.of) == (pytest.approx(0.4), "errors")
    assert jury_worth([ann, bob]).effective_votes == pytest.approx(2 / 1.2)
    assert jury_worth([ann]).effective_votes == 1.0
    assert jury_worth([licence("ann", of="votes", bob=0.5), licence("bob")]).of == "votes"
    assert "the 3 jurors are worth 1.67 independent votes" in str(worth)
