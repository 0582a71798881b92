"""A review's sections are what stands between the tags that the prompt asks for; other text is left out."""

from __future__ import annotations

import pytest

from goldless.apps.gre.review_form import REVIEW_PROMPT, review_sections, review_text

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
    "text",
    [
        TAGGED,
        TAGGED.replace("\n", ""),
        TAGGED.upper(),
        f"Here is my review:\n<review>{TAGGED}</review>\nBest wishes",
        f"---\n{TAGGED}\n</summary>\n---",
        f"{TAGGED}\n{TAGGED}",
        "<summary>A <strengths>B <weaknesses>C <questions>D",
        TAGGED.replace("</strengths>", ""),
        TAGGED.replace("</questions>", ""),
        f"<think>I will use <summary> and <questions>.</think>\n{TAGGED}",
        f"First a draft:\n{TAGGED.replace('A', 'X')}\n</think>\n\n{TAGGED}",
    ],
)
def test_the_sections_are_read_from_their_tags(text):
    assert review_sections(text) == ALL


@pytest.mark.parametrize("text", ["The paper is fine. Its strengths are many.", "## Summary\nA\n## Strengths\nB"])
def test_a_review_without_any_tag_is_one_piece(text):
    assert (review_sections(f"\n{text}\n"), review_text(f"\n{text}\n")) == ({}, f"Review:\n\n{text}")


@pytest.mark.parametrize(
    "text",
    ["", " \n", "<think>All of it is thought, <b>", "<think>Hm.</think> \n", "<summary> </summary>", "</summary>"],
)
def test_where_nothing_was_written_there_is_no_section(text):
    assert (review_sections(text), review_text(text)) == ({}, "")


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
    assert review_sections(TAGGED.replace("C", quoted)) == {**ALL, "Weaknesses": quoted}
