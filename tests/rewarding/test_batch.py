"""Batches as trainers give them."""

from __future__ import annotations

import pytest

from goldless.errors import UserError
from goldless.rewarding.batch import Bank, grouped, message_text, read_batch


def test_a_completion_is_what_the_assistant_says():
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "content": "bluk"},
        {"role": "assistant", "content": "zarn"},
    ]
    assert message_text(turns, role="assistant").strip() == "zarn"
    assert "bluk" in message_text(turns)


def test_rows_of_one_prompt_with_the_same_references_are_a_group_with_equal_texts_once():
    rows = read_batch(["p", "p", "p", "q"], ["a", "b", "a", "a"], ["y", "y", "y", ["y", "x"]])
    groups = grouped(rows)
    assert [(group.completions, group.references) for group in groups] == [(("a", "b"), ("y",)), (("a",), ("y", "x"))]
    assert rows[0].task.task == rows[2].task.task != rows[3].task.task


def test_all_rows_that_cannot_be_read_are_named_at_once():
    with pytest.raises(UserError, match=r"(?s)row 1: must be text or a list.*got int.*row 3: a reference must be text"):
        read_batch([1, "p", "p"], ["a", "b", "c"], ["y", "y", [3]])
    with pytest.raises(UserError, match="2 prompts, 1 completions, 2 references"):
        read_batch(["p", "p"], ["a"], ["y", "y"])


def test_a_bank_gives_a_task_the_same_texts_whatever_else_is_in_the_batch_and_never_its_own():
    texts = [f"text {i}" for i in range(50)]
    rows = read_batch(["p", "q"], ["a", "a"], ["text 3", ["text 4", "text 5"]])
    first, second = grouped(rows)
    bank = Bank(texts, seed=0)
    assert bank.others(first, 4) == Bank(texts, seed=0).others(grouped(rows[:1])[0], 4)
    assert bank.others(first, 4) != Bank(texts, seed=1).others(first, 4)
    assert len(set(bank.others(second, 48))) == 48
    assert not set(bank.others(second, 50)) & {"text 4", "text 5"}
