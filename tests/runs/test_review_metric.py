"""``review[SCALE]``: ratings by live reviewers as a metric, ranked and crash-tested like any other."""

from __future__ import annotations

import re

import pytest

import goldless
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.runs.store import save_run
from tests.support.tickets import TICKETS, study

ANSWERS = {good: 5 for _, good, _ in TICKETS} | {german: 4 for _, _, german in TICKETS}


def judge(name="judge", **changed):
    """A reviewer that knows what good answers are worth, and gives 1 to anything else."""
    worth = ANSWERS | changed

    def answer(request):
        said = "\n".join(message.content for message in request.messages)
        return str(max((points for text, points in worth.items() if text in said), default=1))

    return ScriptedModel(name=name, answers=answer)


def evaluate(metric="review[5-level]", reviewers=None, **more):
    made = study(good="good", german="german", empty="empty")
    return goldless.evaluate(made, metrics=[metric], reviewers=reviewers or {"judge": judge()}, resamples=100, **more)


def test_the_mean_rating_ranks_the_agents():
    rows = evaluate().leaderboard().rows
    assert [(row.agent, row.score, row.missing) for row in rows] == [("good", 5, 0), ("german", 4, 0), ("empty", 1, 0)]


def test_ratings_on_two_scales_are_not_mixed():
    def answer(request):
        return "80" if any("100" in message.content for message in request.messages) else "4"

    points = ScriptedModel(name="points", answers=answer)
    both = ["review[5-level]", "review[100-level]"]
    result = goldless.evaluate(study(good="good"), metrics=both, reviewers={"points": points}, resamples=100)
    assert [result.leaderboard(metric).rows[0].score for metric in both] == [4, 80]


def test_a_reply_that_is_not_a_rating_is_missing_and_not_zero():
    row = next(
        r for r in evaluate(reviewers={"mute": ScriptedModel(name="mute", answers=lambda _: "hm")}).leaderboard().rows
    )
    assert (row.score, row.missing) == (None, 6)


def test_the_ratings_are_kept_and_scored_again_without_a_model(tmp_path):
    first = evaluate()
    save_run(first, tmp_path / "run")
    again = goldless.evaluate(tmp_path / "run", metrics=["review[5-level]"], recorded=True, resamples=100)
    scores = [{row.agent: row.score for row in result.leaderboard().rows} for result in (first, again)]
    assert scores[0] == scores[1]


def test_a_live_judge_is_crash_tested_as_a_metric_is():
    test = goldless.crash_test(
        study(good="good", german="german"),
        metrics=["review[5-level]"],
        reviewers={"judge": judge()},
        perturbations=["null", "padding"],
        resamples=100,
    )
    null, padding = test.results
    # a constant text is worth 1 to this judge; padding leaves the answer inside
    assert (null.rating, null.mean_after) == ("pass", 1.0)
    assert (padding.rating, padding.mean_before, padding.mean_after) == ("pass", 4.5, 4.5)


@pytest.mark.parametrize(
    ("metric", "reviewers", "said"),
    [
        ("review[5-level]", None, "review[5-level] needs reviewers"),
        ("review[pairwise]", {"judge": judge()}, "the scale must rate single responses"),
        ("review[7-level]", {"judge": judge()}, "unknown judge '7-level'"),
        ("review[5-level]", {"critic": judge()}, "a reviewer must not be called 'critic'"),
    ],
)
def test_what_cannot_be_rated_is_refused_before_any_call(metric, reviewers, said):
    with pytest.raises(UserError, match=re.escape(said)):
        goldless.evaluate(study(good="good", other="german"), metrics=[metric], reviewers=reviewers)
