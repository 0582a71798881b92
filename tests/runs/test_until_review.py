"""Reviews that stop when a question is decided, with a scripted reviewer who prefers the higher number."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import goldless
from goldless.models.scripted import ScriptedModel
from goldless.reports.document import write
from goldless.runs.store import save_review

TASKS = 60
WORTH = {"ann": 9.0, "bob": 5.0, "bess": 5.0, "cy": 1.0}


def study():
    random = np.random.default_rng(3)
    rows = [
        {"task": f"t{task}", "agent": agent, "text": f"{worth + random.normal():.4f} points for task {task}"}
        for task in range(TASKS)
        for agent, worth in WORTH.items()
    ]
    tasks = pl.DataFrame([{"task": f"t{task}", "prompt": f"Tell of {task}"} for task in range(TASKS)])
    return goldless.study_from_frame(pl.DataFrame(rows), tasks=tasks)


def reviewer():
    def answer(request):
        found = [float(number) for number in re.findall(r"(-?\d+\.\d{4}) points", request.messages[-1].content)]
        if len(found) == 1:
            return str(min(5, max(1, round(found[0] / 2))))
        return "one" if found[0] > found[1] else "two"

    return ScriptedModel(answers=answer, name="judge")


def review(tmp_path, until=(), model=None, **options):
    options = {"resamples": 100, "journal": tmp_path / "journal.sqlite", "until": until, **options}
    return goldless.review(study(), reviewers={"judge": model or reviewer()}, verdicts="labels", **options)


@pytest.mark.parametrize(("scale", "orders"), [("pairwise", "both"), ("pairwise", "one-random"), ("5-level", "both")])
def test_a_review_stops_and_asks_nothing_about_whoever_is_decided(tmp_path, scale, orders):
    model = reviewer()
    result = review(tmp_path, "baseline=bob", model, scale=scale, orders=orders)
    stopped = result.stopped
    assert stopped.answer == "1 better than bob, 1 worse, 1 undecided"
    assert stopped.tasks_of["cy"] < stopped.tasks_of["bess"] == TASKS
    rows = result.judgements
    late = set(rows["task"]) - set(rows.filter((pl.col("first") == "cy") | (pl.col("second") == "cy"))["task"])
    if scale == "pairwise":
        # a partner of the others to the end, but never compared with another that is decided
        assert not late
        both = pl.col("first").is_in(["cy", "ann"]) & pl.col("second").is_in(["cy", "ann"])
        assert rows.filter(both)["task"].n_unique() == max(stopped.tasks_of["cy"], stopped.tasks_of["ann"])
    assert len(model.calls) == len(rows)
    assert (result.spending[0].calls, result.spending[0].reused) == (len(rows), 0)


def test_a_second_review_pays_nothing_and_recorded_judgements_answer_the_same(tmp_path):
    first = review(tmp_path, "best")
    again = reviewer()
    assert write(review(tmp_path, "best", again)) == write(first)
    assert again.calls == []
    save_review(review(tmp_path), tmp_path / "run")
    recorded = goldless.review(tmp_path / "run", recorded=True, until="best", resamples=100)
    assert (recorded.stopped.answer, recorded.stopped.tasks_of) == (first.stopped.answer, first.stopped.tasks_of)
    assert recorded.stopped.answer == "ann is the best"
    assert recorded.judgements["task"].n_unique() < TASKS
