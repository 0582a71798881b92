"""Canaries let a sane scorer through, with its noise, and stop one whose numbers cannot be trusted."""

from __future__ import annotations

import itertools
import math

import pytest

from goldless.errors import CanaryError
from goldless.models.canaries import TEXTS, check_scorer
from goldless.models.interface import ScoreRequest, TokenLogprobs
from goldless.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

CHARACTERS = [len(text) for text in TEXTS]
KNOWN, NEW = -0.5, -2.0


class Characters(ScriptedModel):
    """A scorer asked by token ids, one a character: -1/2 each where the context holds the whole target, else -2."""

    def __init__(self, spoil=lambda values, _batch, _place: values, name: str = "characters") -> None:
        super().__init__(logprobs={}, name=name)
        self._spoil = spoil

    async def encode(self, messages, target) -> ScoreRequest:
        context = "".join(message.content for message in messages)
        return ScoreRequest(tuple(map(ord, context)), tuple(map(ord, target)))

    async def score(self, requests, deliver) -> None:
        self.calls += requests
        for place, request in enumerate(requests):
            values = self._values("".join(map(chr, request.context)), "".join(map(chr, request.target)))
            deliver({place: TokenLogprobs(tuple(self._spoil(values, len(requests), place)))})

    def _values(self, context: str, target: str) -> list[float]:
        return [KNOWN if target in context else NEW] * len(target)


async def test_a_sane_scorer_passes_with_the_mean_sums_of_copied_and_of_other_texts():
    report = await check_scorer(Characters())
    assert report.passed
    assert report.tokens_counted
    assert report.copied_nats == pytest.approx(KNOWN * sum(CHARACTERS) / 3)
    assert report.shuffled_nats == pytest.approx(NEW * sum(CHARACTERS) / 3)
    assert report.noise_nats == 0.0


async def test_noise_is_the_largest_change_of_a_sum_between_alone_and_together():
    """One eighth of a nat is added where a text is scored alone; the third sum alone gets another quarter."""
    place_alone = itertools.count()

    def spoil(values, batch, _place):
        if batch > 1:
            return values
        return [*values[:-1], values[-1] + (0.375 if next(place_alone) == 2 else 0.125)]

    assert (await check_scorer(Characters(spoil))).noise_nats == pytest.approx(0.375, abs=1e-9)


BROKEN = {
    "one value too many": lambda values, _b, _p: [*values, -1.0],
    "one value too few": lambda values, _b, _p: values[:-1],
    "no values": lambda _v, _b, _p: [],
    "no number": lambda values, _b, _p: [math.nan, *values[1:]],
    "minus infinity": lambda values, _b, _p: [-math.inf, *values[1:]],
    "probabilities instead of their logarithms": lambda values, _b, _p: [math.exp(v) for v in values],
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
async def test_a_scorer_whose_values_are_not_one_log_probability_a_token_is_stopped(spoil, journal):
    with pytest.raises(CanaryError, match="returned invalid log-probabilities"):
        await check_scorer(Characters(spoil), journal)


@pytest.mark.parametrize("value", [-1.0, -0.1, -2.7182818])
async def test_a_scorer_that_does_not_read_its_context_is_stopped(value):
    class Deaf(Characters):
        def _values(self, context, target):
            return [value * (1 + 0.1 * (ord(c) % 7)) for c in target]

    with pytest.raises(CanaryError, match="does not read its context"):
        await check_scorer(Deaf())


async def test_a_report_is_kept_and_the_same_model_is_not_asked_again(journal):
    model = Characters()
    report = await check_scorer(model, journal)
    asked = len(model.calls)
    assert asked > 0
    assert await check_scorer(model, journal) == report
    assert len(model.calls) == asked
