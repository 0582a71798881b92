"""Answers are kept whole, found by their addresses, and forgotten on request."""

from __future__ import annotations

import pytest

from goldless.gre_bench.polite_session import KeptAnswer, KeptAnswers

ANSWER = KeptAnswer("http://h/v2/pdf?id=a", 200, "application/pdf", b"\n\x00{}\n%PDF-1.4\n")


def test_kept_answers_come_back_byte_for_byte_and_leave_nothing_else_behind(tmp_path):
    answers = KeptAnswers(tmp_path / "kept")
    assert answers.read(ANSWER.address) is None
    answers.keep(ANSWER)
    assert answers.read(ANSWER.address) == ANSWER
    assert answers.read("http://h/v2/pdf?id=b") is None
    assert len(list((tmp_path / "kept").iterdir())) == 1
    answers.forget(ANSWER.address)
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"[1]\nx", b"no JSON\nx", b'{"address": "http://h/v2/pdf?id=a"'])
def test_a_damaged_file_is_no_answer(tmp_path, damage):
    answers = KeptAnswers(tmp_path)
    answers.keep(ANSWER)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert answers.read(ANSWER.address) is None


def test_an_answer_that_was_cut_or_belongs_to_another_address_is_no_answer(tmp_path):
    answers = KeptAnswers(tmp_path)
    answers.keep(ANSWER)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert answers.read(ANSWER.address) is None
    file.write_bytes(whole.replace(b"id=a", b"id=b"))
    assert answers.read(ANSWER.address) is None
