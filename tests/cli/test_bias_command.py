"""``goldless bias`` by the command line."""

from __future__ import annotations

import json

import pytest

from goldless.judging.scales import SCALES
from study_files import response_rows, study_folder

TASKS = [f"t{i:02}" for i in range(12)]
TEXTS = {t: {"ann": f"good long answer {t}", "bob": f"poor {t}"} for t in TASKS}
BOTH_ORDERS = (("ann", "bob"), ("bob", "ann"))


@pytest.fixture
def study(tmp_path):
    """ann keeps to the longer response, lazy always says one; people find all alike."""
    judgements = [
        {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second, "output": output}
        for task in TASKS
        for reviewer, outputs in (("ann", ("one", "two")), ("lazy", ("one", "one")))
        for (first, second), output in zip(BOTH_ORDERS, outputs, strict=True)
    ]
    labels = [{"task": t, "agent": a, "rater": "r", "score": 3} for t in TASKS for a in ("ann", "bob")]
    return study_folder(tmp_path / "study", responses=response_rows(TEXTS), labels=labels, judgements=judgements)


def test_weights_and_orders_decide_the_panel_vote(goldless, study):
    arguments = ("bias", study, "--recorded", "--favours", "ann:bob", "--json", "--resamples", "200")
    for more, rate in ((("--weights", "ann=2,lazy=1"), 1.0), (("--count-orders", "together"), 1.0), ((), 0.5)):
        found = json.loads(goldless(*arguments, *more).out)
        (row,) = (r for r in found["rows"] if r["judge"] == "panel" and r["measure"].startswith("favours"))
        assert row["value"] == rate, more


def test_a_reviewer_can_be_asked_now(goldless, study, script_file):
    shown = [(by[first], by[second]) for by in TEXTS.values() for first, second in BOTH_ORDERS]
    questions = [SCALES["pairwise"].messages(*pair, prompt=None)[-1].content for pair in shown]
    script = script_file([{"prompt": question, "answer": "two"} for question in questions])
    ended = goldless("bias", study, "--reviewers", f"ann,last=scripted:{script}", "--json", "--resamples", "200")
    assert ended.code == 0, ended.err
    rows = {(row["judge"], row["measure"]): row for row in json.loads(ended.out)["rows"]}
    assert rows["last", "decided for the one shown first"]["value"] == 0
