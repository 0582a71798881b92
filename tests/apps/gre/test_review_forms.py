"""Which parts of a review are prose, in the forms of venues and in the replies of models."""

from __future__ import annotations

import json
import re

import pytest

from goldless.apps.gre.papers import HumanReview
from goldless.apps.gre.review_form import REVIEW_PROMPT, review_sections, review_text, section_title, sections_and_extra

ICLR_2023 = {
    "summary_of_the_review": "Weak.",
    "confidence": "4: You are confident in your assessment, but not absolutely certain.",
    "correctness": "3: Some of the paper's claims have minor issues. A few statements are not well-supported.",
    "technical_novelty_and_significance": "2: The contributions are only marginally significant or novel.",
    "flag_for_ethics_review": ["NO."],
    "recommendation": "5: marginally below the acceptance threshold",
    "clarity,_quality,_novelty_and_reproducibility": "Clear.",
    "strength_and_weaknesses": "Strong: all.\n\nWeak: none.",
    "summary_of_the_paper": "Plants grow.",
}
"""A review with the fields of the ICLR 2023 form, in another order than the form's."""


def test_a_review_of_iclr_2023_has_the_four_sections_of_its_form_in_the_forms_order():
    # Titles as the facts about the recorded ICLR 2023 reviews give them.
    sections, extra = sections_and_extra(ICLR_2023)
    assert list(sections) == [
        "Summary Of The Paper",
        "Strength And Weaknesses",
        "Clarity, Quality, Novelty And Reproducibility",
        "Summary Of The Review",
    ]
    assert set(extra) == {
        "confidence",
        "correctness",
        "technical_novelty_and_significance",
        "flag_for_ethics_review",
        "recommendation",
    }


def test_a_review_of_iclr_2024_keeps_ratings_and_promises_out_of_its_prose():
    # Fields of the public ICLR 2024 review form.
    prose = {"summary": "S.", "strengths": "A.", "weaknesses": "B.", "questions": "C?"}
    other = {
        "soundness": "3 good",
        "flag_for_ethics_review": ["No ethics review needed."],
        "rating": "5: marginally below the acceptance threshold",
        "confidence": "4: You are confident in your assessment, but not absolutely certain.",
        "code_of_conduct": "Yes, I have read and will follow the code of conduct of this venue.",
    }
    sections = {"Summary": "S.", "Strengths": "A.", "Weaknesses": "B.", "Questions": "C?"}
    assert sections_and_extra(other | prose) == (sections, other)


LEAKS = "The construction is sound, but the split by author leaks into the test set."
LEANS = "I lean to accept, since the hardware experiments are thorough."


@pytest.mark.parametrize(
    ("field", "value", "prose"),
    [
        # unknown fields: prose where they hold more than a few words and are no choice
        ("what_i_liked", "1. The figures are clear and the story is told well.", True),
        ("verdict", "accept", False),
        ("overall_merit", "8: Top 50% of accepted papers, clear accept", False),
        ("reviewer_expertise", "I have published in this area more than once before.", False),
        ("what_i_liked", ["The", "figures", "are", "clear", "and", "fine"], False),
        ("pages", 12, False),
        # free text at some venues, a rating at others
        ("correctness", LEAKS, True),
        ("correctness", "3: Some of the claims have minor issues. A few statements are not well-supported.", False),
        ("novelty", "1: It joins A and B in a way.\n2: Each was known from Smith 2019.", True),
        ("summary_of_recommendation", LEANS, True),
        ("recommendation", "Accept as a poster, top half of all papers", False),
        ("justification_of_rating", LEANS, True),
        ("soundness", "(3) Good, with sufficient support for its major claims.", False),
        ("quality", "Good: The paper appears to be technically sound, but has minor errors.", False),
        ("rating", "6 - Weak accept. Reasons to accept outweigh reasons to reject.", False),
        ("soundness", "2-layer networks are not covered by the proof of Theorem 1.", True),
        # prose at some venues, a choice at others
        ("claims_and_evidence", "no.", False),
        ("claims_and_evidence", "Yes, by the proof in Section 2.", True),
        ("limitations", "None.", True),
        ("weaknesses", "1: Weak baselines", True),
        # promises and words about the reviewer, however long
        ("experience_assessment", "I have published in this field for several years.", False),
        ("final_justification", LEANS, False),
    ],
)
def test_where_forms_differ_the_text_decides_what_is_prose(field, value, prose):
    sections, extra = sections_and_extra({field: value})
    assert (list(sections.values()), list(extra)) == (([value], []) if prose else ([], [field]))


def test_recorded_reviews_cut_at_their_titles_read_the_same_when_joined_again(recorded):
    """Others made the recorded texts from the ICLR 2023 form; 900 reviews, white space apart."""
    fields = {section_title(field): field for field in ICLR_2023}
    four = list(sections_and_extra(ICLR_2023)[0])
    cut = re.compile("(?:^|\n\n)(" + "|".join(map(re.escape, four)) + "):\n\n")
    checked = 0
    for line in (recorded / "iclr23_reviews" / "responses.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        _, *parts = cut.split(text)
        titled = list(zip(parts[::2], parts[1::2], strict=True))
        assert [title for title, _ in titled] == four
        sections, extra = sections_and_extra({fields[title]: part for title, part in reversed(titled)})
        assert not extra
        assert HumanReview("r", sections).text.split() == text.split()
        checked += 1
    assert checked == 900


ALL = {"Summary": "A", "Strengths": "B", "Weaknesses": "C", "Questions": "D"}
TAGGED = "<summary>A</summary>\n<strengths>B</strengths>\n<weaknesses>C</weaknesses>\n<questions>D</questions>"


def test_the_prompt_is_the_papers_c3():
    """GEM paper, appendix C.3."""
    for words in (
        "You are given a paper submission for a top-tier Machine Learning conference which you need to write",
        "First, write a concise summary of the key points and contributions of the paper inside <summary> tags.",
        "Inside <strengths> tags, give a numbered list of at least 4 key reasons why this paper should potentially be",
        "Then, inside <weaknesses> tags, give a numbered list of at least 4 key reasons",
        "List your questions inside <questions> tags.",
        "and justify your points carefully with reference to the content of the paper.",
    ):
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
    ],
)
def test_the_sections_are_read_from_their_tags(text):
    assert review_sections(text) == ALL


@pytest.mark.parametrize("text", ["The paper is fine. Its strengths are many.", "## Summary\nA\n## Strengths\nB"])
def test_a_review_without_any_tag_is_one_piece(text):
    assert (review_sections(f"\n{text}\n"), review_text(f"\n{text}\n")) == ({}, f"Review:\n\n{text}")


@pytest.mark.parametrize(
    "text",
    ["", " \n", "<summary> </summary>", "</summary>"],
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
