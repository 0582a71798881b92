"""Judges that reviewers are compared with, each as a scale: any model asked by itself, in the papers' own words.

A single judge is any scale put to one model. Here stand those with prompts and verdicts of their own. Whoever asks them
asks both orders.
"""

from __future__ import annotations

from goldless.errors import UserError, nearest
from goldless.judging.examiner import EXAMINERS
from goldless.judging.replies import BracketReader, FirstLineReader, NumberReader
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

JUDGES = {**SCALES, **{scale.name: scale for scale in (COMPLETENESS, *MEDICAL, PANDALM, *EXAMINERS)}}
"""Every scale that a single model can be asked on, by name."""


def find_judge(name: str) -> Scale:
    """The scale of that name, of PRE or of a judge."""
    if name not in JUDGES:
        raise UserError(f"unknown judge {name!r}{nearest(name, JUDGES) or '.'} Known: {', '.join(JUDGES)}.")
    return JUDGES[name]
