"""A reviewer that refuses everything, or anything, shifts no rating, in no verb."""

from __future__ import annotations

import zlib

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


def refusing_at_random(share: float, *, rates: bool) -> ScriptedModel:
    """Likes all the same, or the one that is shown first; refuses a share of the questions."""

    def answer(request) -> str | CallFailure:
        drawn = zlib.crc32(request.messages[-1].content.encode()) % 100
        if drawn < 100 * share:
            return CallFailure("refused", "I do not rate people's work")
        return "5" if rates else "one"

    return ScriptedModel(answers=answer, name="second")


def reviewed(folder, journal, second, *, tasks=12, scale="5-level"):
    """A review by an honest judge and a second one."""
    study = study_from_frame(worths(tasks), name="worths")
    reviewers = {"first": judge(rates=scale != "pairwise", name="first"), "second": second}
    options = Options.of(reviewers=reviewers, scale=scale, exams=("none",), journal=journal, resamples=200)
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


@pytest.mark.parametrize("share", [0.5, 0.95])
@pytest.mark.parametrize("scale", ["5-level", "pairwise"])
@pytest.mark.parametrize("reversed_runs", [False, True])
def test_identical_replies_differ_by_nothing_whatever_one_reviewer_refused_in_one_run(
    tmp_path, scale, share, reversed_runs
):
    rates = scale == "5-level"
    made = [
        reviewed(tmp_path / f"run {refused}", tmp_path / f"{refused}.sqlite", second, tasks=30, scale=scale)
        for refused, second in [
            ("nothing", refusing_at_random(0, rates=rates)),
            ("some", refusing_at_random(share, rates=rates)),
        ]
    ]
    runs = made[::-1] if reversed_runs else made
    for agent in ("old", "new"):
        comparison = goldless.compare(*runs, agents=[agent])
        assert [metric.difference.value for metric in comparison.metrics] == [0]
        assert any("are left out, since their reviewers (second)" in line for line in comparison.warnings)
        gated = goldless.gate(*runs, baseline=agent, candidate=agent, margin=0.05, uncertified=True)
        assert gated.verdict != "BLOCK"
