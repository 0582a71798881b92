"""Recorded replies, read strictly or as the papers did."""

from __future__ import annotations

import pytest

from goldless.errors import MetricError
from goldless.metrics.judgement_table import read_pairwise, read_rating


@pytest.mark.parametrize(
    ("output", "default", "paper"),
    [
        ("one", 1, 1),
        ("Two.", 0, 0),
        ("One is better than two", 1, 1),
        ("Summary two better summarizes the passage than summary one.", 0, 0),
        ("The output is: one", 1, 1),
        ('My answer is "two".', 0, 0),
        ("答案是`one`。", 1, 1),
        ("Both are fine, but Summary two is more concise.", 0, 0),
        ("tie", 0.5, None),
        ("both", 0.5, None),
        ("Neither", 0.5, None),
        ("Neither summary one nor summary two is right", 0.5, 1),
        ("Both summary one and summary two are accurate.", None, 1),
        # what only seems to be a verdict
        ("None of them is better", None, 1),
        ("The second is better; the tone of the first is off", None, 1),
        ("I cannot evaluate the two summaries", None, 0),
        ("One of them is better", None, 1),
        ("nan", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_a_verdict_is_read_where_the_reply_gives_one(output, default, paper):
    assert read_pairwise(output) == default
    assert read_pairwise(output, convention="paper") == paper


@pytest.mark.parametrize(
    ("output", "default", "paper"),
    [
        ("4", 4, 4),
        ("Score: 4/5", 4, 4),
        ("4 out of 5.", 4, 4),
        ("3.5", 3.5, 3.5),
        ("8", None, 8),
        ("0", None, 0),
        ("-4", None, -4),
        ("between 2 and 4", None, 2),
        ("GPT4", None, None),
        ("v1.2.3", None, None),
        ("good", None, None),
        (None, None, None),
    ],
)
def test_a_rating_is_the_only_number_and_lies_on_the_scale(output, default, paper):
    assert read_rating(output, lowest=1, highest=5) == default
    assert read_rating(output, lowest=1, highest=5, convention="paper") == paper


def test_unknown_conventions_and_scales_turned_round_are_refused():
    with pytest.raises(MetricError, match="'default' or 'paper', not 'strict'"):
        read_pairwise("one", convention="strict")
    with pytest.raises(MetricError, match="from 5 to 1"):
        read_rating("3", lowest=5, highest=1)
