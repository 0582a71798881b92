"""Recorded replies, read as the papers did."""

from __future__ import annotations

import pytest

from goldless.metrics.judgement_table import read_pairwise, read_rating


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("one", 1),
        ("Two.", 0),
        ("One is better than two", 1),
        ("Summary two better summarizes the passage than summary one.", 0),
        ("The output is: one", 1),
        ('My answer is "two".', 0),
        ("答案是`one`。", 1),
        ("Both are fine, but Summary two is more concise.", 0),
        ("tie", None),
        ("both", None),
        ("Neither", None),
        ("Neither summary one nor summary two is right", 1),
        ("Both summary one and summary two are accurate.", 1),
        # what only seems to be a verdict, and counts in the papers
        ("None of them is better", 1),
        ("The second is better; the tone of the first is off", 1),
        ("I cannot evaluate the two summaries", 0),
        ("One of them is better", 1),
        ("nan", None),
        ("", None),
    ],
)
def test_the_first_label_decides_wherever_it_stands(output, said):
    assert read_pairwise(output) == said


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("4", 4),
        ("Score: 4/5", 4),
        ("4 out of 5.", 4),
        ("3.5", 3.5),
        ("8", 8),
        ("0", 0),
        ("-4", -4),
        ("between 2 and 4", 2),
        ("GPT4", None),
        ("v1.2.3", None),
        ("good", None),
    ],
)
def test_the_first_number_is_the_rating_on_the_scale_or_not(output, said):
    assert read_rating(output) == said
