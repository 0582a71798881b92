"""Judges that reviewers are compared with, each as a scale: one model with the papers' own prompts.

A single judge is any scale with one model. The scales here have their own prompts and verdicts, and pairs are shown in
both orders. An examiner (LMExaminer) analyses one response by criteria and gives it a score from 0 to 10: the GEM
paper's gives one overall score after its analysis, ``lm-examiner-criteria`` gives a score for each criterion, of which
the mean counts, and ``lm-examiner-general`` does so for any task.
"""

from __future__ import annotations

from collections.abc import Mapping

from goldless.errors import UserError, nearest
from goldless.judging.replies import BracketReader, FirstLineReader, NumberReader, TagReader
from goldless.judging.scales import SCALES, Scale

ACT = (
    "Please act as an impartial judge and evaluate the quality of the responses provided by two AI assistants to the "
    "user question displayed below. You should choose the assistant that follows the user's instructions and answers "
    "the user's question better. Your evaluation should consider factors such as the helpfulness, relevance, accuracy, "
    "depth, creativity, and level of detail of their responses."
)
EXPLAIN = "Begin your evaluation by comparing the two responses and provide a short explanation."
AVOID = (
    "Avoid any position biases and ensure that the order in which the responses were presented does not influence your "
    "decision. Do not allow the length of the responses to influence your evaluation. Do not favor certain names of "
    "the assistants. Be as objective as possible."
)
FORMAT = (
    "utput your final verdict by strictly following this format: "
    '"[[A]]" if assistant A is better, "[[B]]" if assistant B is better, and "[[C]]" for a tie.'
)

COMPLETENESS = Scale(
    name="completeness",
    source="TVD-MI paper, A.3.2, values of A.4; fences and what is said of them are ours",
    pairwise=True,
    lowest=0.0,
    highest=1.0,
    labels=("A", "B", "C"),
    values=(1.0, 0.0, 0.5),
    reader=BracketReader({"a": 1.0, "b": 0.0, "c": 0.5}),
    allowed="one of these: [[A]], [[B]] or [[C]]",
    opening=f"{ACT} {AVOID} O{FORMAT}",
    opening_explained=f"{ACT} {EXPLAIN} {AVOID} After providing your explanation, o{FORMAT}",
    question_heading="[User Question]",
    first_heading="[Assistant A's Answer]",
    second_heading="[Assistant B's Answer]",
    closing="[Your verdict]",
    written="[[{label}]]",
    most_tokens=1024,
)

MEDICAL_CRITERIA = {
    "completeness": (
        "Which summary more completely captures important information? This compares the summaries' recall, i.e., the "
        "amount of clinically significant detail retained from the input text."
    ),
    "correctness": (
        "Which summary includes less false information? This compares the summaries' precision, i.e., instances of "
        "fabricated information."
    ),
    "conciseness": (
        "Which summary contains less non-important information? This compares which summary is more condensed, as the "
        "value of a summary decreases with superfluous information."
    ),
}
"""The TVD-MI paper's three, A.6; the short names are ours."""


def _medical(criterion: str) -> Scale:
    return Scale(
        name=f"medical-{criterion}",
        source="TVD-MI paper, A.6, the first response as its target; fences and what is said of them are ours",
        pairwise=True,
        lowest=0.0,
        highest=1.0,
        labels=("1", "-1", "0"),
        values=(1.0, 0.0, 0.5),
        reader=NumberReader(-1, 1, {1.0: 1.0, -1.0: 0.0, 0.0: 0.5}),
        allowed="one of these: 1, -1 or 0",
        opening="You are an expert summarization evaluator for clinical data.",
        question_heading="Input Text:",
        first_heading="Target Summary:",
        second_heading="Output Summary:",
        closing=(
            f"Criterion: {MEDICAL_CRITERIA[criterion]}\n"
            "Please answer with '1' if you prefer the Target Summary, '-1' if you prefer the Output Summary, or '0' if "
            "you have no preference."
        ),
    )


MEDICAL = tuple(_medical(criterion) for criterion in MEDICAL_CRITERIA)

PANDALM = Scale(
    name="pandalm",
    source=(
        "the layout and verdicts that preference models fine-tuned in the manner of PandaLM are trained on, in our "
        "words; fences and what is said of them are ours"
    ),
    pairwise=True,
    lowest=0.0,
    highest=1.0,
    labels=("1", "2", "Tie"),
    values=(1.0, 0.0, 0.5),
    reader=FirstLineReader({"1": 1.0, "2": 0.0, "tie": 0.5}),
    allowed="one of these: 1, 2 or Tie",
    opening=(
        "Two responses to the same task are given below. Compare them. Write on the first line which one is better: 1, "
        "2 or Tie. Reasons may follow on later lines.\n\n### Instruction:\n{description}"
    ),
    description="Carry out the task that is given as the input.",
    question_heading="### Input:",
    first_heading="### Response 1:",
    second_heading="### Response 2:",
    closing="### Evaluation:",
    one_message=True,
    most_tokens=512,
)

# --- examiners ------------------------------------------------------------------------------------------------------

LOWEST, HIGHEST = 0.0, 10.0

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

JUDGES = {**SCALES, **{scale.name: scale for scale in (COMPLETENESS, *MEDICAL, PANDALM, *EXAMINERS)}}
"""Every scale for a single model, by name."""


def find_judge(name: str) -> Scale:
    """The scale with this name, of PRE or of a judge."""
    if name not in JUDGES:
        raise UserError(f"unknown judge {name!r}{nearest(name, JUDGES) or '.'} Known: {', '.join(JUDGES)}")
    return JUDGES[name]
