"""A review says what its panel is worth, asks each pair once if told to, and takes peers as an exam."""

from __future__ import annotations

import json

import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import write

WORTH = {"ann": 9, "bob": 5, "cy": 2}
TASKS = [f"t{i}" for i in range(6)]


def study(**tables):
    rows = [{"task": t, "agent": a, "text": f"{n} points in {t}"} for t in TASKS for a, n in WORTH.items()]
    return goldless.study_from_frame(pl.DataFrame(rows), **tables)


def people(tasks=TASKS):
    return pl.DataFrame(
        [{"task": t, "agent": a, "rater": "x", "score": float(n)} for t in tasks for a, n in WORTH.items()]
    )


class Reviewer(ScriptedModel):
    """Counts what it is asked."""

    def __init__(self, prefers) -> None:
        self.asked = 0

        def answer(request):
            self.asked += 1
            text = request.messages[-1].content
            found = sorted((text.index(f"{n} points"), n) for n in WORTH.values() if f"{n} points" in text)
            task = text[text.index("points in ") + 10 :][:2]
            return prefers(task, *(n for _, n in found))

        super().__init__(answers=answer, name=f"r{id(self)}")


def honest():
    return Reviewer(lambda _, first, second: "one" if first > second else "two")


def odd():
    """Wrong on every third task."""
    return Reviewer(lambda t, first, second: "one" if (first > second) == (int(t[1]) % 3 > 0) else "two")


def lazy():
    return Reviewer(lambda *_: "one")


def review(reviewers, given=None, **options):
    return goldless.review(given or study(), reviewers=reviewers, **{"resamples": 200, "verdicts": "labels", **options})


# --- what a panel is worth -----------------------------------------------------------------------------------------


def test_a_review_says_what_its_panel_is_worth():
    found = review({"a": honest(), "b": honest(), "o": odd()})
    worth = write(found)["panel"]["worth"]
    assert worth["from"] == "votes"
    assert 1 <= worth["effective_votes"] < 3
    assert [row["reviewer"] for row in worth["peers"]] == ["a", "b", "o"]
    assert (worth["right"], worth["by_errors"]) == (None, None)


def test_with_labels_errors_count_and_a_judge_that_is_never_wrong_has_none_to_share():
    found = review({"a": odd(), "b": odd(), "h": honest()}, study(labels=people()))
    worth = write(found)["panel"]["worth"]
    assert worth["by_errors"]["votes"] == pytest.approx(1.0)
    assert "every pair: h" in worth["by_errors"]["note"]
    # two of three are wrong on every third task, and so is the model that believes them
    assert worth["right"] == pytest.approx(2 / 3)


# --- peers as an exam ----------------------------------------------------------------------------------------------


def test_the_exam_by_peers_lets_the_odd_one_out_fail_and_asks_no_more_than_consistency():
    alone = {"a": honest(), "b": honest(), "o": odd()}
    found = review(alone, exams="peers")
    assert found.voters == ("a", "b")
    assert {row.name: row.weight for row in found.reviewers} == {"a": 1.0, "b": 1.0, "o": None}
    both = {"a": honest(), "b": honest(), "o": odd()}
    review(both, exams="consistency,peers")
    assert [model.asked for model in alone.values()] == [model.asked for model in both.values()]


@pytest.mark.parametrize(
    ("reviewers", "options", "words"),
    [
        (2, {"exams": "auto+peers"}, "the exam peers must have at least 3 reviewers, got 2"),
        (1, {"exams": "peers"}, "the exam peers must have at least 3 reviewers, got 1"),
        (3, {"exams": "peers", "weighting": "logit"}, "other than peers"),
        (3, {"exams": "auto+peers", "weight_from": "peers"}, "--weight-from must not be peers"),
        (
            3,
            {"orders": "one-random", "scale": "5-level"},
            "--orders one-random must be used with a scale that compares",
        ),
        (3, {"orders": "once"}, "orders must be one of both, one-random, got 'once'"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_asked(reviewers, options, words):
    models = {f"r{i}": honest() for i in range(reviewers)}
    with pytest.raises(UserError, match=words):
        review(models, **options)
    assert [model.asked for model in models.values()] == [0] * reviewers


# --- one order -----------------------------------------------------------------------------------------------------


def test_one_random_order_halves_the_calls_and_ranks_alike():
    both, once = honest(), honest()
    ranked = [review({"r": both}), review({"r": once}, orders="one-random")]
    assert (both.asked, once.asked) == (36, 18)
    orders = [[row.agent for row in found.ranking] for found in ranked]
    assert orders[0] == orders[1] == ["ann", "bob", "cy"]
    assert "orders:one-random" in ranked[1].signature
    assert "orders" not in ranked[0].signature


def test_position_bias_is_reported_apart():
    """The lazy one takes the first wherever it is; the honest one has no bias: each agent is first half the time."""
    found = review({"h": honest(), "l": lazy()}, orders="one-random")
    rows = {row.name: row.first_shown for row in found.reviewers}
    assert (rows["l"].value, rows["l"].n) == (1.0, 18)
    assert rows["h"].value == pytest.approx(0.5)
    # shown first as often as second, all agents win as often with it: its votes are noise, not a lean
    alone = review({"l": lazy()}, orders="one-random")
    assert [row.score for row in alone.ranking] == [0.5] * 3


def test_recorded_judgements_in_both_orders_are_read_as_if_asked_once(tmp_path, goldless):
    kept = tmp_path / "judged"
    kept.mkdir()
    kept.joinpath("responses.jsonl").write_text(
        "".join(json.dumps({"task": t, "agent": a, "text": f"{a} {t}"}) + "\n" for t in TASKS for a in WORTH)
    )
    rows = [
        {"reviewer": r, "format": "pairwise", "task": t, "first": a, "second": b, "output": "one"}
        for r in ("x", "y")
        for t in TASKS
        for a in WORTH
        for b in WORTH
        if a != b
    ]
    kept.joinpath("judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = ("review", str(kept), "--recorded", "--orders", "one-random", "--json")
    found = json.loads(goldless(*line).out)
    assert [(row["asked"], row["first_shown"]["value"]) for row in found["reviewers"]] == [(18, 1.0), (18, 1.0)]
    shown = goldless(*line[:-1]).out
    assert "Position bias" in shown
    assert "independent votes" in shown
