"""Bias on the recorded XSum judgements, pairwise, both orders.

Preference gaps by PRE's equation 2 and Auto-PRE's rate by its equation 5, recomputed from the published judgements
(Auto-PRE's own table 5 is shifted by one task). Flips are 1 - Pc of Auto-PRE's consistency exam.
"""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import goldless
from goldless.meta_evaluation.bias import find_bias
from goldless.runs.options import Options

pytestmark = pytest.mark.recorded

SEVEN = ("vicuna-7b", "chatglm3-6b", "baichuan2-13b", "fastchat-t5-3b", "chatgpt", "chatglm_pro", "gpt4")
PC = (0.2529, 0.0264, 0.4357, 0.6662, 0.5948, 0.8360, 0.8952)
GAPS = {
    ("chatgpt", "claude"): 0.1150,
    ("chatgpt", "fastchat-t5-3b"): -0.0500,
    ("chatgpt", "vicuna-7b"): 0.0700,
    ("claude", "fastchat-t5-3b"): 0.1300,
    ("claude", "vicuna-7b"): 0.0625,
    ("fastchat-t5-3b", "vicuna-7b"): -0.1500,
}
ABOUT = "chatgpt over ChatGLM2-6B"
RATE, ACCURACY = "favours the first though people do not", "accuracy on pairs people decided"
FAST = Options.of(metrics=(), recorded=True, resamples=200)


@pytest.fixture(scope="module")
def xsum(recorded):
    return goldless.read_study(recorded / "xsum_peer_review")


def find(study, *, favours=(), orders="each", **more):
    return anyio.run(partial(find_bias, study, FAST.changed(**more), favours=favours, orders=orders))


def gap(report, *pair):
    return next(row for row in report.of("self-preference") if row.pair is not None and set(row.pair) == set(pair))


@pytest.fixture(scope="module")
def by_the_papers(xsum):
    return find(xsum, convention="paper")


@pytest.mark.nightly
@pytest.mark.parametrize("pair", GAPS)
def test_the_preference_gap_is_the_published_one(by_the_papers, pair):
    row = gap(by_the_papers, *pair)
    assert row.value == pytest.approx(GAPS[pair], abs=5e-5)
    assert row.low < row.value < row.high
    assert (row.asked, row.used, row.n_tasks) == (100, 100, 100)


def test_flips_are_what_consistency_leaves(by_the_papers):
    for name, pc in zip(SEVEN, PC, strict=True):
        row = by_the_papers.row("position", name, "flips when the order is swapped")
        assert row.value == pytest.approx(1 - pc, abs=5e-5), name


@pytest.mark.parametrize("convention", ["paper", pytest.param("default", marks=pytest.mark.nightly)])
def test_gpt4_favours_chatgpt_on_80_percent_with_accuracy_5671(xsum, convention):
    report = find(xsum, reviewers=["gpt4"], favours=["chatgpt:ChatGLM2-6B"], convention=convention)
    rate, accuracy = report.row("favour rate", "gpt4", RATE), report.row("favour rate", "gpt4", ACCURACY)
    assert rate.value == pytest.approx(0.80, abs=5e-5)
    assert (rate.n_tasks, rate.used) == (55, 110)
    assert accuracy.value == pytest.approx(0.5671, abs=5e-5)
    assert rate.about == ABOUT


@pytest.mark.parametrize("convention", ["paper", pytest.param("default", marks=pytest.mark.nightly)])
def test_the_equal_vote_of_the_seven_favours_on_6182_percent_each_order_and_has_accuracy_5610_together(
    xsum, convention
):
    how = {"reviewers": SEVEN, "favours": ["chatgpt:ChatGLM2-6B"], "convention": convention}
    assert find(xsum, **how).row("favour rate", "panel", RATE).value == pytest.approx(0.6182, abs=5e-5)
    together = find(xsum, orders="together", **how)
    assert together.row("favour rate", "panel", ACCURACY).value == pytest.approx(0.5610, abs=5e-5)


def test_by_default_unparsable_judgements_are_left_out_and_counted(xsum):
    report = find(xsum, reviewers=["fastchat-t5-3b", "vicuna-7b"])
    row = gap(report, "fastchat-t5-3b", "vicuna-7b")
    assert row.missing > 0
    assert row.used + row.missing == row.asked == 100
    assert row.value != pytest.approx(-0.15, abs=1e-3)
    assert {one.judge: one.asked for one in report.coverage} == {"fastchat-t5-3b": 4200, "vicuna-7b": 4200}


def test_ratings_have_no_position_but_everything_else(xsum):
    report = find(xsum, scale="5-level", reviewers=["chatgpt", "fastchat-t5-3b"], favours=["chatgpt:ChatGLM2-6B"])
    assert not report.of("position")
    for bias in ("length", "self-preference", "family preference", "favour rate"):
        assert report.of(bias), bias
