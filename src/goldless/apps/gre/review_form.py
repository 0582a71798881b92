"""Review forms: what people and models are asked to write, which fields are prose, and how replies are read.

Venues change their forms from year to year. The fields of the forms in wide use are listed here; in any other form a
field counts as prose when it holds more than a few words and neither its name nor its text says that it is a choice.
What is called clarity or recommendation is a rating at one venue and prose at another: there the text decides. Models
are asked by prompt C.3 of the GEM paper, word for word.

A section of a model's review begins at ``<summary>`` and ends at its ``</summary>``; if it is never closed, at the next
opening tag or at the end of the reply. Other tags inside a closed section belong to its text. Text outside the tags is
not part of the review. A reply without any section is one piece, which is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from goldless.apps.gre.papers import joined

PROSE = (
    "summary_of_the_paper",  # ICLR 2022 and 2023
    "paper_summary",  # ACL Rolling Review
    "summary",  # ICLR from 2024 on, NeurIPS, ICML
    "summary_and_contributions",
    "main_review",  # ICLR 2022
    "review",  # ICLR until 2021, and many workshops
    "claims_and_evidence",  # ICML 2025, to other_comments_or_suggestions
    "methods_and_evaluation_criteria",
    "theoretical_claims",
    "experimental_designs_or_analyses",
    "supplementary_material",
    "relation_to_broader_scientific_literature",
    "essential_references_not_discussed",
    "strength_and_weaknesses",  # ICLR 2023, in this spelling
    "strengths_and_weaknesses",  # NeurIPS 2022 and 2025
    "summary_of_strengths",
    "strengths",
    "summary_of_weaknesses",
    "weaknesses",
    "other_strengths_and_weaknesses",
    "other_comments_or_suggestions",
    "clarity,_quality,_novelty_and_reproducibility",  # ICLR 2023
    "questions",
    "questions_for_authors",
    "limitations",
    "limitations_and_societal_impact",
    "comments,_suggestions_and_typos",
    "comments_suggestions_and_typos",
    "additional_comments",
    "summary_of_the_review",  # ICLR 2022 and 2023
)
"""Fields that are prose however short, a bare "Yes" apart, in the order in which forms ask for them."""

NOT_PROSE = frozenset(
    {
        "final_justification",  # written after the authors' reply, so no part of the review they replied to
        "first_time_reviewer",
        "title",
    }
)
"""Fields that are no part of the review even where their text is long."""

_NOT_PROSE_WORDS = re.compile(
    r"acknowledg|agree|assessment|certif|conduct|confidence|confirm|consent|ethic|experience|expertise|policy|policies|"
    r"signature"
)
"""Words in the names of fields that are a choice or a promise in every form known."""
_RATING_WORDS = re.compile(r"rating|recommendation|score")
"""Words in the names of ratings and of their reasons: only sentences are reasons."""
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(\s|\Z)")
_POINT = r"-?\d+(?:\.\d+)?"
_LABEL = r"(?:excellent|good|fair|poor|(?:(?:strong|weak|clear|borderline)(?:ly)? )?(?:accept|reject))"
_SCALE_POINT = re.compile(
    rf"\s*(?:\({_POINT}\)|\(?{_POINT}\)?\s*(?:[:=]|[-\u2013\u2014]\s)|{_LABEL}:).*\s*", re.IGNORECASE
)
"""The form of a rating: ``8: accept, good paper``, ``(3) Good`` or ``Weak accept: I tend to …``, in one line."""
_YES_OR_NO = re.compile(r"\s*(yes|no)[.!]?\s*", re.IGNORECASE)
FEW_WORDS = 5
"""A text of an unknown field with no more words than this is taken for a choice."""


def section_title(field: str) -> str:
    """A field's name as a title: ``summary_of_the_paper`` is ``Summary Of The Paper``."""
    return " ".join(word[:1].upper() + word[1:] for word in field.replace("_", " ").split())


def sections_and_extra(content: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """A review's prose by title, known fields in the order of the forms and others as they came; and all the rest."""
    prose = {field: value for field, value in content.items() if _is_prose(field, value)}
    sections: dict[str, str] = {}
    for field in [*(field for field in PROSE if field in prose), *(field for field in prose if field not in PROSE)]:
        title = section_title(field)
        sections[title] = "\n\n".join([*([sections[title]] if title in sections else []), prose[field]])
    return sections, {field: value for field, value in content.items() if field not in prose}


def says_something(sections: Mapping[str, str]) -> bool:
    """True if there is a letter or digit in any section: a review of dashes is empty."""
    return any(letter.isalnum() for text in sections.values() for letter in text)


def reads_as_text(value: Any) -> bool:
    """True if a value is more than a rating or a choice, by itself: more than few words, and no point of a scale."""
    return isinstance(value, str) and len(value.split()) > FEW_WORDS and not _SCALE_POINT.fullmatch(value)


def _is_prose(field: str, value: Any) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    if field in PROSE:
        return not _YES_OR_NO.fullmatch(value)
    if field in NOT_PROSE or _NOT_PROSE_WORDS.search(field.lower()) or not reads_as_text(value):
        return False
    return not _RATING_WORDS.search(field.lower()) or _SENTENCE_END.search(value) is not None


PROMPT_NAME = "gem-c3"
"""The prompt's name in signatures."""

REVIEW_PROMPT = (
    "You are given a paper submission for a top-tier Machine Learning conference which you need to write a detailed "
    "review. Please read the paper carefully. Once you have finished reading, please provide the following in your "
    "review:\n"
    "First, write a concise summary of the key points and contributions of the paper inside <summary> tags.\n"
    "Next, think critically about the strengths and weaknesses of the submission. Inside <strengths> tags, give a "
    "numbered list of at least 4 key reasons why this paper should potentially be accepted to the conference. For each "
    "reason, use sub-bullet points to provide detailed arguments and evidence from the paper to support that reason.\n"
    "Then, inside <weaknesses> tags, give a numbered list of at least 4 key reasons why this paper should potentially "
    "be rejected from the conference. Again, for each reason, use sub-bullet points to provide detailed arguments and "
    "evidence from the paper to support that reason.\n"
    "After weighing the reasons for and against, think of some open questions you have about the work. List your "
    "questions inside <questions> tags.\n"
    "Remember, as a reviewer your job is to rigorously evaluate the strengths and weaknesses of the work and to "
    "provide critical but constructive feedback to the authors. Be thorough, specific and detailed in your arguments "
    "and feedback. Highlight both the positives and negatives you see, and justify your points carefully with "
    "reference to the content of the paper."
)
"""GEM paper, appendix C.3, the system prompt; the user's turn is the full paper as text. The paper prints its lines
broken by the width of the page; here a line is a paragraph of it."""

SECTIONS = ("summary", "strengths", "weaknesses", "questions")
"""The tags that the prompt asks for, in its order."""
_SECTION = re.compile(
    rf"<({'|'.join(SECTIONS)})>(?:(.*?)</\1>|(.*?)(?=<(?:{'|'.join(SECTIONS)})>|\Z))", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(rf"</?({'|'.join(SECTIONS)})>", re.IGNORECASE)


def review_sections(reply: str) -> dict[str, str]:
    """The sections of a reply to the review prompt by title, in the order asked for; none where it has no tags."""
    parts: dict[str, dict[str, None]] = {name: {} for name in SECTIONS}
    for found in _SECTION.finditer(reply):
        if text := (found[2] or found[3] or "").strip():
            parts[found[1].lower()][text] = None
    return {name.capitalize(): "\n\n".join(texts) for name, texts in parts.items() if texts}


def review_text(reply: str) -> str:
    """A reply as a review in the form of a person's."""
    return joined(review_sections(reply) or {"Review": _TAG.sub("", reply)})
