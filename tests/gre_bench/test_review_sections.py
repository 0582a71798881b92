"""A review's sections are what stands between the tags that the prompt asks for; what is missing is flagged."""

from __future__ import annotations

import pytest

from goldless.apps.gre.review_form import REVIEW_PROMPT, noticed, parse_review

ALL = {"Summary": "A", "Strengths": "B", "Weaknesses": "C", "Questions": "D"}
TAGGED = "<summary>A</summary>\n<strengths>B</strengths>\n<weaknesses>C</weaknesses>\n<questions>D</questions>"


@pytest.mark.parametrize(
    "words",
    [
        "You are given a paper submission for a top-tier Machine Learning conference which you need to write",
        "First, write a concise summary of the key points and contributions of the paper inside <summary> tags.",
        "Inside <strengths> tags, give a numbered list of at least 4 key reasons why this paper should potentially be",
        "Then, inside <weaknesses> tags, give a numbered list of at least 4 key reasons",
        "List your questions inside <questions> tags.",
        "and justify your points carefully with reference to the content of the paper.",
    ],
)
def test_the_prompt_is_the_papers_c3(words):
    """GEM paper, appendix C.3."""
    assert words in REVIEW_PROMPT


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (TAGGED, ()),
        (TAGGED.replace("\n", ""), ()),
        (TAGGED.upper(), ()),
        (f"<review>\n{TAGGED}\n</review>", ("text_outside",)),
        (f"Here is my review:\n{TAGGED}\nBest wishes", ("text_outside",)),
        (f"---\n{TAGGED}\n</summary>\n---", ()),
        (f"{TAGGED}\n{TAGGED}", ()),
        ("<summary>A <strengths>B <weaknesses>C <questions>D", ()),
        (TAGGED.replace("</strengths>", ""), ()),
        (TAGGED.replace("</questions>", ""), ()),
        (f"<think>I will use <summary> and <questions>.</think>\n{TAGGED}", ()),
        (f"First a draft:\n{TAGGED.replace('A', 'X')}\n</think>\n\n{TAGGED}", ()),
    ],
)
def test_the_sections_are_read_from_their_tags(text, flags):
    found = parse_review(text)
    assert (dict(found.sections), found.flags) == (ALL, flags)


@pytest.mark.parametrize("text", ["The paper is fine. Its strengths are many.", "## Summary\nA\n## Strengths\nB"])
def test_a_review_without_any_tag_is_one_piece(text):
    found = parse_review(f"\n{text}\n")
    assert (dict(found.sections), found.flags) == ({"Review": text}, ("no_tags",))


@pytest.mark.parametrize(
    "text",
    ["", " \n", "<think>All of it is thought, <b>", "<think>Hm.</think> \n", "<summary> </summary>", "</summary>"],
)
def test_where_nothing_was_written_there_is_no_section(text):
    found = parse_review(text)
    assert (dict(found.sections), found.text, found.flags) == ({}, "", ("no_tags",))


@pytest.mark.parametrize(
    "quoted",
    [
        "The prompt asks for <summary> tags, closed by </summary>:\n<summary>Perfect.</summary>\nThat is odd.",
        "They forget <questions>",
        "Their model writes </think> first.",
        "It reasons between\n<think>\nand\n</think>\ntokens.",
        "C\n## Questions\nfor them",
    ],
)
def test_tags_and_headings_quoted_inside_a_section_belong_to_its_text(quoted):
    found = parse_review(TAGGED.replace("C", quoted))
    assert (dict(found.sections), found.flags) == ({**ALL, "Weaknesses": quoted}, ())


def test_flags_are_told_in_plain_words():
    flags = {"missing_section:questions": 4, "no_tags": 1, "cut_reply": 3, "of_others": 5}
    assert noticed(flags) == [
        "4 without questions",
        "1 without any section",
        "3 cut off at the length limit",
        "5 of_others",
    ]
