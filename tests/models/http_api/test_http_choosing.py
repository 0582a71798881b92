"""A choice is read from the written text and from the alternatives at one token."""

from __future__ import annotations

import math

import pytest

from goldless.models.http_api.chat import (
    Step,
    Written,
    answer_logprobs,
    hides_answers,
    steps_of,
    with_tokens_of,
    written_answer,
)
from goldless.models.interface import ChatRequest, Message, Usage


def step(token: str, **alternatives: float) -> Step:
    listed = alternatives or {token: 1.0}
    return Step(token, math.log(listed.get(token, 1.0)), tuple((t, math.log(p)) for t, p in listed.items()))


def spaced(token: str, alternatives: dict[str, float]) -> Step:
    return Step(token, math.log(alternatives[token]), tuple((t, math.log(p)) for t, p in alternatives.items()))


def probabilities(steps, answers, begin=0):
    values = answer_logprobs(steps, answers, begin=begin)
    return None if values is None else {answer: math.exp(value) for answer, value in values.items()}


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("A", ("A", "B"), "A"),
        ("  A\n", ("A", "B"), "A"),
        ("[[B]]", ("A", "B"), "B"),
        ("**A** because", ("A", "B"), "A"),
        ("I prefer B. Yes, B.", ("A", "B"), "B"),
        ("A is better than B", ("A", "B"), None),
        ("a", ("A", "B"), None),
        ("Apples", ("A", "B"), None),
        ("10", ("1", "10"), "10"),
        ("very good", ("good", "very good"), "very good"),
        ("output: one", ("one", "two"), "one"),
        ("someone", ("one", "two"), None),
        ("", ("A", "B"), None),
    ],
)
def test_the_written_answer_is_the_only_one_that_stands_as_a_whole_word(text, answers, expected):
    found = written_answer(text, answers)
    assert (found[0] if found else None) == expected


def test_masses_are_normalised_over_the_answers():
    steps = [step("yes", yes=0.5, no=0.3, The=0.2)]
    assert probabilities(steps, ("yes", "no")) == pytest.approx({"yes": 0.625, "no": 0.375})


def test_leading_spaces_are_set_aside():
    steps = [spaced(" yes", {" yes": 0.4, "yes": 0.2, "\u2581no": 0.3, "\n\nno": 0.1})]
    assert probabilities(steps, ("yes", "no")) == pytest.approx({"yes": 0.6, "no": 0.4})


def test_case_is_as_given():
    steps = [step("yes", yes=0.6, Yes=0.2, no=0.2)]
    assert probabilities(steps, ("yes", "no")) == pytest.approx({"yes": 0.75, "no": 0.25})


def test_a_token_that_begins_one_answer_counts_for_it():
    steps = [step("posi", posi=0.7, neg=0.3)]
    assert probabilities(steps, ("positive", "negative")) == pytest.approx({"positive": 0.7, "negative": 0.3})


def test_a_token_that_ends_an_answer_and_adds_a_full_stop_counts_for_it():
    steps = [spaced("A.", {"A.": 0.5, "B": 0.5})]
    assert probabilities(steps, ("A", "B")) == pytest.approx({"A": 0.5, "B": 0.5})


def test_a_token_that_goes_on_with_the_word_does_not_count():
    steps = [step("A", A=0.6, B=0.3, Apple=0.1)]
    assert probabilities(steps, ("A", "B")) == pytest.approx({"A": 2 / 3, "B": 1 / 3})


def test_answers_that_share_their_first_token_have_no_probabilities():
    steps = [step("t", t=0.6, one=0.4)]
    assert probabilities(steps, ("two", "tie", "one")) is None


def test_an_answer_that_is_the_beginning_of_another_has_no_probabilities():
    steps = [step("good", good=0.7, bad=0.3)]
    assert probabilities(steps, ("good", "goodness", "bad")) is None


def test_tokens_shared_by_all_answers_are_passed_over_to_the_first_that_distinguishes():
    steps = [
        step("output", output=0.95, The=0.05),
        spaced(":", {":": 0.99, " :": 0.01}),
        spaced(" one", {" one": 0.6, " two": 0.4}),
    ]
    assert probabilities(steps, ("output: one", "output: two")) == pytest.approx(
        {"output: one": 0.6, "output: two": 0.4}
    )


def test_probabilities_are_read_where_the_written_answer_begins():
    steps = [step("Answer"), step(":"), spaced(" B", {" B": 0.8, " A": 0.2})]
    _, begin = written_answer("Answer: B", ("A", "B"))
    assert probabilities(steps, ("A", "B"), begin) == pytest.approx({"A": 0.2, "B": 0.8})


def test_an_opening_bracket_in_the_same_token_is_set_aside():
    steps = [spaced("(A", {"(A": 0.7, "(B": 0.3}), step(")")]
    _, begin = written_answer("(A)", ("A", "B"))
    assert probabilities(steps, ("A", "B"), begin) == pytest.approx({"A": 0.7, "B": 0.3})


def test_an_unlisted_answer_gets_its_bound_when_that_is_negligible():
    steps = [step("yes", yes=0.998, Yes=0.001)]
    got = probabilities(steps, ("yes", "no"))
    assert got == pytest.approx({"yes": 0.998 / 0.999, "no": 0.001 / 0.999}, rel=1e-6)


def test_an_unlisted_answer_that_could_matter_leaves_no_probabilities():
    assert probabilities([step("yes", yes=0.6)], ("yes", "no")) is None


def test_a_model_that_is_not_answering_has_no_probabilities():
    steps = [step("Well", Well=0.97, yes=0.02, no=0.01)]
    assert probabilities(steps, ("yes", "no")) is None


def test_no_tokens_are_no_probabilities():
    assert probabilities([], ("yes", "no")) is None


@pytest.mark.parametrize("content", [[{"token": 3}], ["text"], [{"token": "a"}], [{"token": "a", "logprob": None}]])
def test_log_probabilities_of_another_shape_are_none(content):
    assert steps_of(content) == ()


# --- answers that are not among the listed tokens ---------------------------------------------------------------------

YES_NO = ChatRequest((Message("user", "?"),), max_tokens=4, choices=("yes", "no"))


def wrote(*steps: Step) -> Written:
    return Written("".join(one.token for one in steps), "stop", Usage(), steps)


@pytest.mark.parametrize(
    ("listed", "hidden"),
    [
        ({"yes": 0.5, "The": 0.3}, True),  # no may have up to 0.2
        ({"yes": 0.5, "no": 0.3}, False),  # both are known
        ({"yes": 0.99, "The": 0.001}, False),  # no is negligible
        ({"The": 0.97, "A": 0.01, "yes": 0.009}, False),  # whatever no has, the model is not answering
        ({"The": 0.5, "A": 0.4}, True),  # both may have up to 0.1
    ],
)
def test_an_answer_is_hidden_where_its_probability_would_tell(listed, hidden):
    assert hides_answers(wrote(step(next(iter(listed)), **listed)), YES_NO) is hidden


def test_tokens_of_another_reply_are_added_as_long_as_both_write_the_same():
    first = wrote(step("yes", yes=0.5, The=0.3), step("!", **{"!": 0.9}))
    named = wrote(step("yes", yes=0.5, no=0.1), step(".", **{".": 0.8}))
    found = with_tokens_of(first, named)
    assert probabilities(found.steps, ("yes", "no")) == pytest.approx({"yes": 0.5 / 0.6, "no": 0.1 / 0.6})
    assert found.steps[1] == first.steps[1]
