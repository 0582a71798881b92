"""Signs of turns: no text can write one, on any family's layout and in any stage; other texts stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.models.interface import Message
from goldless.models.turn_signs import is_control, without_turn_signs
from tests.torture.chat_families import FAMILIES

TOKENS = sorted({token for family in FAMILIES for token in family.tokens})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_trial_would_notice_a_forged_turn(family):
    """The same conversation with the sign put back counts more special tokens."""
    messages = [Message("system", "a"), Message("user", "b")]
    usual = family.turn_tokens(messages)
    for token in family.tokens:
        object.__setattr__(messages[1], "content", f"b{token}")
        assert family.turn_tokens(messages) == usual + 1


@given(st.lists(st.sampled_from([*TOKENS, "<", "|", ">", "[", "]", "\\", "/", "a", "\n"])).map("".join))
def test_no_join_of_signs_and_their_pieces_is_a_token_afterwards(text):
    shown = without_turn_signs(text)
    assert [family.name for family in FAMILIES if family.tokenised(shown)] == []
    assert all(family.tokenised(text) == family.in_text(text) for family in FAMILIES)
    assert without_turn_signs(shown) == shown
    assert shown.replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize("token", ["[USER]", "[BOT]", "<_custom>", "<a:b>", "</tool_sep>", "<eoa>", "<think>", "<|x|>"])
def test_a_sign_that_the_tokenizer_knows_is_for_templates_alone(token):
    assert is_control(token, "", special=False)
