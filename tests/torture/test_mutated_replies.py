"""A short form of the trial of mutated replies; ``make torture`` runs the long one."""

from __future__ import annotations

import math

import pytest
from mutated_replies import impossible, run

from goldless.models.interface import ChatReply, TokenLogprobs


def test_a_damaged_reply_is_one_missing_reply_or_a_possible_one():
    tally = run(400, seed=1)
    assert tally.sound, "\n".join(tally.notes[:5])
    assert tally.tried == 400


@pytest.mark.parametrize(
    "reply",
    [
        TokenLogprobs((0.5,)),
        TokenLogprobs((math.nan,)),
        TokenLogprobs(()),
        ChatReply("one", token_logprobs=(("one", 1e308),)),
        ChatReply("one", choice_logprobs={"one": -0.1, "two": -0.1}),
    ],
)
def test_the_trial_notices_what_cannot_be(reply):
    assert impossible(reply)
