"""The examiner: a model that analyses one response by criteria and gives it a score from 0 to 10 (LMExaminer).

The GEM paper's examiner gives one overall score after its analysis. ``lm-examiner-criteria`` asks for a score of each
criterion and takes their mean. ``lm-examiner-general`` does so for any task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from goldless.evidence import JudgementEvidence
from goldless.judging.replies import TagReader
from goldless.judging.scales import Scale

LOWEST, HIGHEST = 0.0, 10.0
PAPER_UNPARSABLE = 5.0
"""What the GEM paper's code takes for a score that cannot be read."""

REVIEW_CRITERIA = {
    "Understanding": (
        "Does the reviewer demonstrate a clear understanding of the paper's main contributions, methodology, and "
        "results?"
    ),
    "Coverage": (
        "Does the review address all major aspects of the paper, including the problem statement, methodology, "
        "experiments, results, and conclusions?"
    ),
    "Substantiation": (
        "Does the reviewer provide specific examples or references from the paper to support their comments and "
        "criticisms?"
    ),
    "Constructiveness": (
        "Does the review offer helpful suggestions for improvement or identify areas where the paper could be "
        "strengthened?"
    ),
}
"""GEM paper, D.3."""
GENERAL_CRITERIA = {
    "Understanding": "Does the response show a clear understanding of what was asked?",
    "Coverage": "Does it deal with every major part of what was asked?",
    "Substantiation": "Does it support what it says with specifics that can be checked?",
    "Usefulness": "Does it help whoever asked, and leave out what does not?",
}

REVIEW_OPENING = (
    "You are an expert tasked with evaluating the quality of a review for a Machine Learning paper. Your goal is to "
    "assess how well the review critiques the paper and provides valuable feedback to the authors. The paper will be "
    "given after '[Paper]' and the review will be given after '[Review]'.\n\n"
    "To judge the quality of this review, consider the following criteria:"
)
REVIEW_ANALYSIS = (
    "For each criterion, provide a detailed analysis of how well the review meets the standard. After analyzing each "
    "criterion, provide an overall assessment of the review's quality. Consider how well it serves its purpose of "
    "offering valuable feedback to the authors."
)
PARTS = (
    "Present your evaluation in the following format:\n"
    "<analysis>\n[Your detailed analysis here]\n</analysis>\n"
    "<overall_assessment>\n[Your overall assessment here]\n</overall_assessment>\n"
)


def _numbered(criteria: Mapping[str, str]) -> str:
    return "\n".join(f"{number}. {name}: {asked}" for number, (name, asked) in enumerate(criteria.items(), 1))


def _overall(opening: str, analysis: str, criteria: Mapping[str, str]) -> str:
    return (
        f"{opening}\n{_numbered(criteria)}\n\n{analysis}\n\n"
        "Finally, assign a score to the review on a scale of 0 to 10, where 0 is the lowest quality, 5 is the average "
        f"quality, and 10 is the highest quality.\n\n{PARTS}"
        "<overall_score>\n[Your final quality score here]\n</overall_score>"
    )


def _by_criterion(opening: str, analysis: str, criteria: Mapping[str, str]) -> str:
    lines = "\n".join(f"{name}: [score]" for name in criteria)
    return (
        f"{opening}\n{_numbered(criteria)}\n\n{analysis}\n\n"
        "Finally, assign a score from 0 to 10 for each criterion, where 0 is the lowest quality, 5 is the average "
        f"quality, and 10 is the highest quality.\n\n{PARTS}<scores>\n{lines}\n</scores>"
    )


def _examiner(
    name: str, source: str, opening: str, *, reader: TagReader, headings: tuple[str, str], allowed: str
) -> Scale:
    return Scale(
        name=name,
        source=f"{source}; fences and what is said of them are ours",
        pairwise=False,
        lowest=LOWEST,
        highest=HIGHEST,
        labels=(),
        values=(),
        reader=reader,
        allowed=allowed,
        opening=opening,
        question_heading=headings[0],
        first_heading=headings[1],
        closing="[Your evaluation]",
        most_tokens=2048,
    )


def _score_lines(criteria: Mapping[str, str]) -> str:
    return f'<scores>, a line "NAME: NUMBER" from 0 to 10 for each of {", ".join(criteria)}, and </scores>'


LM_EXAMINER = _examiner(
    "lm-examiner",
    "GEM paper, D.3",
    _overall(REVIEW_OPENING, REVIEW_ANALYSIS, REVIEW_CRITERIA),
    reader=TagReader("overall_score", LOWEST, HIGHEST),
    headings=("[Paper]", "[Review]"),
    allowed="<overall_score>, a number from 0 to 10, and </overall_score>",
)
LM_EXAMINER_CRITERIA = _examiner(
    "lm-examiner-criteria",
    "GEM paper, D.3, with a score of each criterion",
    _by_criterion(REVIEW_OPENING, REVIEW_ANALYSIS, REVIEW_CRITERIA),
    reader=TagReader("scores", LOWEST, HIGHEST, tuple(REVIEW_CRITERIA)),
    headings=("[Paper]", "[Review]"),
    allowed=_score_lines(REVIEW_CRITERIA),
)
LM_EXAMINER_GENERAL = _examiner(
    "lm-examiner-general",
    "this project; GEM paper, D.3, worded for any task",
    _by_criterion(
        "You evaluate a response to a task. The task is given after '[Task]' and the response after '[Response]'.\n\n"
        "Consider the following criteria:",
        "Analyse for each criterion how well the response meets it. Then give an overall assessment.",
        GENERAL_CRITERIA,
    ),
    reader=TagReader("scores", LOWEST, HIGHEST, tuple(GENERAL_CRITERIA)),
    headings=("[Task]", "[Response]"),
    allowed=_score_lines(GENERAL_CRITERIA),
)
EXAMINERS = (LM_EXAMINER, LM_EXAMINER_CRITERIA, LM_EXAMINER_GENERAL)


def criterion_scores(scale: Scale, reply: str) -> dict[str, float]:
    """The score of each criterion in an examiner's reply; one that has none is not there."""
    numbers = scale.reader.numbers(reply) if isinstance(scale.reader, TagReader) else {}
    return {name: score for name, score in numbers.items() if name}


def examiner_scores(
    evidence: Sequence[JudgementEvidence], *, unparsable: Literal["missing", "5.0"] = "missing"
) -> dict[tuple[str, str], float | None]:
    """The overall score by task and agent; None where it is missing.

    ``unparsable``: what a reply is worth whose score cannot be read. ``5.0`` is what the GEM paper's code takes, for
    parity with its numbers; a call that failed stays missing even so.
    """
    return {
        (row.task, row.first): PAPER_UNPARSABLE
        if unparsable == "5.0" and row.failure is not None and row.failure.kind == "unparsable"
        else row.value
        for row in evidence
    }
