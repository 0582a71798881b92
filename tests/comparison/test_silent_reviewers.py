"""A reviewer that refuses everything shifts no rating, in no verb."""

from __future__ import annotations

import anyio
import pytest

import goldless
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.options import Options
from goldless.runs.pipeline import review_study
from goldless.runs.store import save_review
from goldless.studies import study_from_frame
from tests.comparison.comparison_runs import judge, worths


def refusing(name: str) -> ScriptedModel:
    return ScriptedModel(answers=lambda _: CallFailure("refused", "I do not rate people's work"), name=name)


def reviewed(folder, journal, second):
    """A review of ratings by an honest judge and a second one."""
    study = study_from_frame(worths(12), name="worths")
    reviewers = {"first": judge(rates=True, name="first"), "second": second}
    options = Options(reviewers=reviewers, scale="5-level", exams=("none",), journal=journal, resamples=200)
    save_review(anyio.run(review_study, study, options), folder)
    return folder


def test_ratings_have_the_level_of_the_reviewer_that_rated(tmp_path):
    reviewers = {"first": judge(rates=True, name="first"), "second": refusing("second")}
    found = goldless.evaluate(
        worths(12), metrics=["review[5-level]"], reviewers=reviewers, journal=tmp_path / "j.sqlite", resamples=200
    )
    board = found.leaderboard("review[5-level]")
    assert {row.agent: row.estimate.value for row in board.rows} == pytest.approx({"old": 2, "new": 4, "other": 3})


def test_two_reviews_of_the_same_texts_differ_by_nothing_where_a_reviewer_refused_in_one(tmp_path):
    mild = ScriptedModel(answers=lambda _: "5", name="second")
    before = reviewed(tmp_path / "before", tmp_path / "j.sqlite", mild)
    after = reviewed(tmp_path / "after", tmp_path / "other.sqlite", refusing("second"))
    comparison = goldless.compare(before, after, agents=["old"])
    assert [metric.difference.value for metric in comparison.metrics] == [0]
    assert any("no verdict in after, so left out of both runs: second" in line for line in comparison.warnings)


def test_a_gate_does_not_block_responses_that_are_the_same(tmp_path):
    mild = ScriptedModel(answers=lambda _: "5", name="second")
    before = reviewed(tmp_path / "before", tmp_path / "j.sqlite", mild)
    after = reviewed(tmp_path / "after", tmp_path / "other.sqlite", refusing("second"))
    found = goldless.gate(before, after, baseline="old", candidate="old", margin=0.2, uncertified=True)
    assert found.verdict != "BLOCK"
    assert found.bounds.value == 0
