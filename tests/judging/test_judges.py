"""The judges that reviewers are compared with: the papers' words and the values of their verdicts."""

from __future__ import annotations

import math

import pytest

from goldless.judging.judges import COMPLETENESS, MEDICAL, PANDALM
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

TEXTS = {("t", "ann"): "FIRST TEXT", ("t", "bob"): "SECOND TEXT"}


def whole(scale, **options) -> str:
    messages = scale.messages("FIRST TEXT", "SECOND TEXT", prompt="QUESTION TEXT", **options)
    return "\n\n".join(message.content for message in messages)


def said_in_order(text: str, words: list[str]) -> None:
    for part in words:
        _, found, text = text.partition(part)
        assert found, part


async def judged(scale, *answers, verdicts="labels"):
    queue = iter(answers)
    model = ScriptedModel(answers=lambda _: next(queue))
    stage = ReviewStage(model, scale, verdicts=verdicts)
    return (await stage.review([ReviewQuestion("t", "ann", "bob")], TEXTS, {"t": "q"}))[0], model


# --- completeness ----------------------------------------------------------------------------------------------------

# The TVD-MI paper, A.3.2.
COMPLETENESS_PAPER = (
    "Please act as an impartial judge and evaluate the quality of the responses provided by two AI assistants to the "
    "user question displayed below. You should choose the assistant that follows the user's instructions and answers "
    "the user's question better. Your evaluation should consider factors such as the helpfulness, relevance, accuracy, "
    "depth, creativity, and level of detail of their responses. Begin your evaluation by comparing the two responses "
    "and provide a short explanation. Avoid any position biases and ensure that the order in which the responses were "
    "presented does not influence your decision. Do not allow the length of the responses to influence your "
    "evaluation. Do not favor certain names of the assistants. Be as objective as possible. After providing your "
    'explanation, output your final verdict by strictly following this format: "[[A]]" if assistant A is better, '
    '"[[B]]" if assistant B is better, and "[[C]]" for a tie.'
)


def test_the_completeness_judge_is_asked_in_the_papers_words():
    headings = ["[User Question]", "QUESTION TEXT", "Assistant A's Answer", "FIRST", "Assistant B's Answer", "SECOND"]
    said_in_order(whole(COMPLETENESS, explained=True), [COMPLETENESS_PAPER, *headings])


def test_without_an_explanation_the_completeness_judge_is_asked_for_its_verdict_at_once():
    assert "explanation" not in whole(COMPLETENESS)
    assert "Output your final verdict" in whole(COMPLETENESS)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("A is fuller. [[A]]", 1.0),
        ("[[b]]", 0.0),
        ("They are alike.\n\n**[[C]]**", 0.5),
        ("Not [[A]], on reflection [[B]]", 0.0),
        *(("A", None), ("[A]", None), ("[[D]]", None), ("[[A]] or [[unsure]]", None), ("", None)),
    ],
)
def test_a_completeness_verdict_has_the_papers_value(reply, value):
    """The TVD-MI paper, A.4: A 1, B 0, C 0.5."""
    assert COMPLETENESS.read(reply) == value


async def test_a_written_completeness_verdict_is_explained_first_and_a_chosen_one_is_not():
    row, model = await judged(COMPLETENESS, "Fuller. [[A]]")
    assert (row.value, row.scale) == (1.0, "completeness")
    assert "short explanation" in model.calls[0].messages[0].content
    shares = {"A": math.log(0.6), "B": math.log(0.2), "C": math.log(0.2)}
    row, model = await judged(COMPLETENESS, ChatReply("A", "choice", choice_logprobs=shares), verdicts="auto")
    assert row.value == pytest.approx(0.7)  # .6 + .2 / 2
    assert "short explanation" not in model.calls[0].messages[0].content


# --- medical preference ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "criterion"),
    list(
        zip(
            MEDICAL,
            [
                "Which summary more completely captures important information?",
                "Which summary includes less false information?",
                "Which summary contains less non-important information?",
            ],
            strict=True,
        )
    ),
    ids=lambda value: getattr(value, "name", None),
)
def test_the_medical_judge_is_asked_in_the_papers_words(scale, criterion):
    """The TVD-MI paper, A.6."""
    words = [
        "You are an expert summarization evaluator for clinical data.",
        *("Input Text:", "QUESTION TEXT", "Target Summary:", "FIRST TEXT", "Output Summary:", "SECOND TEXT"),
        f"Criterion: {criterion}",
        (
            "Please answer with '1' if you prefer the Target Summary, '-1' if you prefer the Output Summary, or '0' if "
            "you have no preference."
        ),
    ]
    said_in_order(whole(scale), words)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *(("1", 1.0), ("-1", 0.0), ("\u22121", 0.0), ("0", 0.5), ("'1'", 1.0), ("Answer: -1", 0.0)),
        ("I prefer the Target Summary: 1", 1.0),
        *(("2", None), ("0.5", None), ("Target", None), ("1, -1 or 0", None), ("", None)),
        ("'1' if you prefer the Target Summary, '-1' if you prefer the Output Summary", None),
    ],
)
def test_a_medical_preference_is_1_for_the_target_minus_1_for_the_output_and_0_for_none(reply, value):
    assert {scale.read(reply) for scale in MEDICAL} == {value}


# --- PandaLM ---------------------------------------------------------------------------------------------------------


def test_pandalm_gets_its_layout_in_one_message():
    assert [message.role for message in PANDALM.messages("a", "b", prompt="q")] == ["user"]
    layout = ["### Instruction:", "### Input:", "### Response 1:", "FIRST TEXT", "### Response 2:", "SECOND TEXT"]
    said_in_order(whole(PANDALM), [*layout, "### Evaluation:"])
    assert "### Instruction:\nSummarise it." in whole(PANDALM, task_description="Summarise it.")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *(("1", 1.0), ("2\n\n### Reason: Response 1 is wrong.", 0.0), ("Tie", 0.5), ("\n 2.\nbecause", 0.0)),
        *(("Response 1", None), ("12", None), ("The better one is\n1", None), ("", None), ("1 or 2", None)),
    ],
)
def test_a_pandalm_verdict_stands_alone_on_the_first_line(reply, value):
    assert PANDALM.read(reply) == value


# --- all of them -----------------------------------------------------------------------------------------------------
