"""What ``goldless crashtest`` ends with."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("metric", "perturbation", "fail_on", "code"),
    [
        ("length", "elongation", "fail", 5),
        ("length", "elongation", "never", 0),
        # the effect is too small for these texts to show it
        ("bleu", "deletion", "fail", 0),
        ("bleu", "deletion", "not-shown", 5),
    ],
)
def test_what_ends_with_five_can_be_chosen(goldless, metric, perturbation, fail_on, code):
    asked = ("--metric", metric, "--perturbation", perturbation, "--fail-on", fail_on, "--resamples", 200)
    assert goldless("crashtest", "sample", *asked).code == code
