"""Where texts are cut into sentences; expected cuts are done by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.sentences import split_sentences


def texts_of(text: str, **options) -> list[str]:
    return [sentence.text for sentence in split_sentences(text, **options)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Smith agreed.",
        "Miller et al. said so, e.g. in the U.S. rules.",
        "See Sec. 3.2 for the proof.",
        "It costs 3.5 dollars.",
        "J. K. Rowling wrote it.",
    ],
)
def test_abbreviations_and_numbers_do_not_end_a_sentence(sentence):
    assert texts_of(f"{sentence} Then it rained.") == [sentence, "Then it rained."]


def test_lines_and_list_items_are_cut_and_keep_their_marks():
    text = "Points:\n- First point.\n- Second point. More?\n\n1. Item one. Two.\n2) no stop\n  (a) inner\n# Head"
    assert texts_of(text) == [
        "Points:",
        "- First point.",
        "- Second point.",
        "More?",
        "1. Item one.",
        "Two.",
        "2) no stop",
        "(a) inner",
        "# Head",
    ]


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_code_block_is_one_sentence(fence):
    block = f"{fence}python\nx = a.b. c\n\n# No. Yes.\n{fence}"
    assert texts_of(f"Before. See:\n{block}\nAfter it. End.") == ["Before.", "See:", block, "After it.", "End."]


def test_a_code_block_that_is_never_closed_runs_to_the_end():
    assert texts_of("Look.\n```\na. b.\nc. d.") == ["Look.", "```\na. b.\nc. d."]


pieces = st.sampled_from(
    [*".?!…\"')(-*#>`~ \n\r\t\u2028\x85", "```", "\n- ", "1. ", "Dr. ", "e.g. ", "你好。", "😀", "e\u0301"]
)
anything = st.one_of(st.text(), st.lists(st.one_of(pieces, st.text(max_size=4))).map("".join))


@given(anything, st.sampled_from(["default", "paper"]))
def test_sentences_are_in_order_and_nothing_but_white_space_stands_outside(text, mode):
    place = 0
    for sentence in split_sentences(text, mode=mode):
        assert place <= sentence.start < sentence.end
        assert not text[place : sentence.start].strip()
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
        place = sentence.end
    assert not text[place:].strip()


@given(anything)
def test_the_papers_mode_is_a_walk_over_the_characters(text):
    walked, current = [], ""
    for character in text:
        current += character
        if character in ".?!\n":
            walked.append(current.strip())
            current = ""
    assert texts_of(text, mode="paper") == [piece for piece in [*walked, current.strip()] if piece]
