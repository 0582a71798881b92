"""Batches as trainers give them."""

from __future__ import annotations

import pytest

from goldless.errors import UserError
from goldless.rewarding.reward import message_text, read_batch


def test_a_completion_is_what_the_assistant_says():
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "content": "bluk"},
        {"role": "assistant", "content": "zarn"},
    ]
    assert message_text(turns, role="assistant").strip() == "zarn"
    assert "bluk" in message_text(turns)


def test_all_rows_that_cannot_be_read_are_named_at_once():
    with pytest.raises(UserError, match=r"(?s)row 1: must be text or a list.*got int.*row 3: a reference must be text"):
        read_batch([1, "p", "p"], ["a", "b", "c"], ["y", "y", [3]])
    with pytest.raises(UserError, match="2 prompts, 1 completions, 2 references"):
        read_batch(["p", "p"], ["a"], ["y", "y"])
