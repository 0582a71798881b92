"""In which order questions go to a server: each beginning once, then the questions that share it."""

from __future__ import annotations

from goldless.judging.asking import Question, VerdictRequest, _beginnings_first

REQUEST = VerdictRequest(role="critic", read=lambda _: None, restated="", allowed="", most_tokens=1)


def questions(*beginnings: str) -> dict[int, Question]:
    return {
        i: Question(lambda _: (), (), lambda _: 0, REQUEST, "task", beginning) for i, beginning in enumerate(beginnings)
    }


def test_one_of_each_beginning_goes_first():
    assert _beginnings_first(questions("a", "a", "a", "b", "b", "c"), 256) == [0, 3, 5, 1, 2, 4]


def test_the_others_follow_before_a_server_forgets():
    order = _beginnings_first(questions("a", "b", "c", "d", "a", "b", "c", "d"), 2)
    assert order == [0, 1, 4, 5, 2, 3, 6, 7]


def test_questions_without_a_common_beginning_keep_their_order():
    assert _beginnings_first(questions("", "", ""), 8) == [0, 1, 2]
