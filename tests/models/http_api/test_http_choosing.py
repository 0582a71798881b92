"""A choice is read from the written text and from the alternatives at one token."""

from __future__ import annotations

import math

import pytest

from goldless.models.http_api.formats import Step, Written, chosen, steps_of

YES = ("yes", "no")


def step(token: str, listed: dict[str, float] | None = None) -> Step:
    logprobs = {one: math.log(p) for one, p in (listed or {token: 1.0}).items()}
    return Step(token, logprobs[token], logprobs)


def wrote(*steps: Step) -> Written:
    return Written("".join(one.token for one in steps), cut=False, steps=steps)


def probabilities(written, answers):
    logprobs = chosen(written, answers)[1]
    return logprobs and {answer: math.exp(value) for answer, value in logprobs.items()}


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
    assert chosen(Written(text, cut=False), answers) == (expected, None)


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
    found = probabilities(wrote(step(next(iter(listed)), listed)), answers)
    assert found == (None if expected is None else pytest.approx(dict(zip(answers, expected, strict=True)), rel=1e-6))


@pytest.mark.parametrize(
    ("steps", "answers", "expected"),
    [
        ([step("Answer"), step(":"), step(" B", {" B": 0.8, " A": 0.2})], ("A", "B"), (0.2, 0.8)),
        ([step("(B", {"(B": 0.8, "(A": 0.2}), step(")")], ("A", "B"), (0.2, 0.8)),
        # tokens that all answers share are passed over
        (
            [step("output", {"output": 0.95, "The": 0.05}), step(":"), step(" one", {" one": 0.6, " two": 0.4})],
            ("output: one", "output: two"),
            (0.6, 0.4),
        ),
    ],
)
def test_probabilities_are_read_where_the_written_answer_begins(steps, answers, expected):
    found = probabilities(wrote(*steps), answers)
    assert found == pytest.approx(dict(zip(answers, expected, strict=True)))


@pytest.mark.parametrize("content", [[{"token": 3}], ["text"], [{"token": "a"}], [{"token": "a", "logprob": None}]])
def test_log_probabilities_of_another_shape_are_none(content):
    assert steps_of(content) == ()
