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


YES = ("yes", "no")
FIRST = {
    "masses are normalised over the answers": (YES, {"yes": 0.5, "no": 0.3, "The": 0.2}, (0.625, 0.375)),
    "leading spaces do not count": (YES, {" yes": 0.4, "yes": 0.2, "\u2581no": 0.3, "\n\nno": 0.1}, (0.6, 0.4)),
    "case is as given": (YES, {"yes": 0.6, "Yes": 0.2, "no": 0.2}, (0.75, 0.25)),
    "a beginning counts for its answer": (("positive", "negative"), {"posi": 0.7, "neg": 0.3}, (0.7, 0.3)),
    "a full stop after an answer does not matter": (("A", "B"), {"A.": 0.5, "B": 0.5}, (0.5, 0.5)),
    "another word does not count": (("A", "B"), {"A": 0.6, "B": 0.3, "Apple": 0.1}, (2 / 3, 1 / 3)),
    "a shared first token tells nothing": (("two", "tie", "one"), {"t": 0.6, "one": 0.4}, None),
    "a beginning of another tells nothing": (("good", "goodness", "bad"), {"good": 0.7, "bad": 0.3}, None),
    "an unlisted answer gets a negligible bound": (YES, {"yes": 0.998, "Yes": 0.001}, (0.998 / 0.999, 0.001 / 0.999)),
    "an unlisted answer could matter": (YES, {"yes": 0.6}, None),
    "the model is not answering": (YES, {"Well": 0.97, "yes": 0.02, "no": 0.01}, None),
}


@pytest.mark.parametrize(("answers", "listed", "expected"), FIRST.values(), ids=FIRST)
def test_probabilities_are_those_of_the_tokens_that_begin_an_answer(answers, listed, expected):
    found = probabilities([spaced(next(iter(listed)), listed)], answers)
    assert found == (None if expected is None else pytest.approx(dict(zip(answers, expected, strict=True)), rel=1e-6))


def test_tokens_shared_by_all_answers_are_passed_over_to_the_first_that_distinguishes():
    steps = [
        step("output", output=0.95, The=0.05),
        spaced(":", {":": 0.99, " :": 0.01}),
        spaced(" one", {" one": 0.6, " two": 0.4}),
    ]
    assert probabilities(steps, ("output: one", "output: two")) == pytest.approx(
        {"output: one": 0.6, "output: two": 0.4}
    )
    assert probabilities([], YES) is None


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Answer: B", [step("Answer"), step(":"), spaced(" B", {" B": 0.8, " A": 0.2})]),
        ("(B)", [spaced("(B", {"(B": 0.8, "(A": 0.2}), step(")")]),
    ],
)
def test_probabilities_are_read_where_the_written_answer_begins(text, steps):
    _, begin = written_answer(text, ("A", "B"))
    assert probabilities(steps, ("A", "B"), begin) == pytest.approx({"A": 0.2, "B": 0.8})


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
