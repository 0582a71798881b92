"""The examiner: the paper's prompt, scores of criteria, and what is missing."""

from __future__ import annotations

import pytest

from goldless.judging.judges import EXAMINERS
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

LM_EXAMINER, LM_EXAMINER_CRITERIA, _ = EXAMINERS

SCORES = "<scores>\nUnderstanding: 8\nCoverage: 6/10\n3. **Substantiation**: 7.5\nConstructiveness: 4\n</scores>"


def whole(scale) -> str:
    return "\n\n".join(message.content for message in scale.messages("REVIEW TEXT", prompt="PAPER TEXT"))


# The GEM paper, D.3.
PAPER = [
    "You are an expert tasked with evaluating the quality of a review for a Machine Learning paper.",
    (
        "1. Understanding: Does the reviewer demonstrate a clear understanding of the paper's main contributions, "
        "methodology, and results?"
    ),
    (
        "2. Coverage: Does the review address all major aspects of the paper, including the problem statement, "
        "methodology, experiments, results, and conclusions?"
    ),
    (
        "3. Substantiation: Does the reviewer provide specific examples or references from the paper to support their "
        "comments and criticisms?"
    ),
    (
        "4. Constructiveness: Does the review offer helpful suggestions for improvement or identify areas where the "
        "paper could be strengthened?"
    ),
    "For each criterion, provide a detailed analysis of how well the review meets the standard.",
    (
        "Finally, assign a score to the review on a scale of 0 to 10, where 0 is the lowest quality, 5 is the average "
        "quality, and 10 is the highest quality."
    ),
    "<analysis>\n[Your detailed analysis here]\n</analysis>",
    "<overall_assessment>\n[Your overall assessment here]\n</overall_assessment>",
    "<overall_score>\n[Your final quality score here]\n</overall_score>",
    *("[Paper]", "PAPER TEXT", "[Review]", "REVIEW TEXT"),
]


def test_the_examiner_is_asked_in_the_papers_words():
    rest = whole(LM_EXAMINER)
    for words in PAPER:
        _, found, rest = rest.partition(words)
        assert found, words


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("<analysis>3 points of 4</analysis>\n<overall_score>\n7\n</overall_score>", 7.0),
        ("<overall_score>7.5/10</overall_score>", 7.5),
        ("<overall_score>10</overall_score> … rather <overall_score>4</overall_score>", 4.0),
        ("<overall_score>6", 6.0),
        *(("7", None), ("<overall_score>11</overall_score>", None), ("<overall_score>good</overall_score>", None)),
        *(("Overall score: 7", None), ("<overall_score>-1</overall_score>", None), ("", None)),
    ],
)
def test_the_overall_score_is_the_number_in_the_last_element_of_its_name(reply, value):
    assert LM_EXAMINER.read(reply) == value


def test_the_score_by_criteria_is_their_mean():
    """(8 + 6 + 7.5 + 4) / 4 = 6.375."""
    assert LM_EXAMINER_CRITERIA.read(f"<analysis>1 2 3</analysis>\n{SCORES}") == 6.375


@pytest.mark.parametrize("instead", ["", "Coverage: good", "Coverage: 12", "Coverage: 6/5"])
def test_a_criterion_without_a_score_makes_the_whole_missing(instead):
    reply = SCORES.replace("Coverage: 6/10", instead)
    assert LM_EXAMINER_CRITERIA.read(reply) is None


@pytest.mark.parametrize("scale", EXAMINERS, ids=lambda scale: scale.name)
async def test_an_examiner_is_asked_at_temperature_0_and_once_more_where_no_score_can_be_read(scale):
    model = ScriptedModel(answers=lambda _: "It is a good review.")
    rows = await ReviewStage(model, scale).review([ReviewQuestion("t", "ann")], {("t", "ann"): "x"}, {"t": "q"})
    assert (rows[0].value, rows[0].failure.kind) == (None, "unparsable")
    assert [call.temperature for call in model.calls] == [0.0, 0.0]
