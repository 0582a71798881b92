"""``goldless bias`` by the command line."""

from __future__ import annotations

import json

import pytest

from goldless.judging.scales import SCALES

TASKS = [f"t{i:02}" for i in range(12)]
TEXTS = {t: {"ann": f"good long answer {t}", "bob": f"poor {t}"} for t in TASKS}


@pytest.fixture
def study(tmp_path):
    """ann keeps to the longer response, lazy always says one; people find all alike."""
    folder = tmp_path / "study"
    folder.mkdir()
    judgements = []
    for task in TASKS:
        for reviewer, outputs in (("ann", ("one", "two")), ("lazy", ("one", "one"))):
            for (first, second), output in zip((("ann", "bob"), ("bob", "ann")), outputs, strict=True):
                row = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
                judgements.append(row | {"output": output})
    tables = {
        "responses": [{"task": t, "agent": a, "text": x} for t, by in TEXTS.items() for a, x in by.items()],
        "labels": [{"task": t, "agent": a, "rater": "r", "score": 3} for t in TASKS for a in ("ann", "bob")],
        "judgements": judgements,
    }
    for name, rows in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_weights_and_orders_decide_the_panel_vote(goldless, study):
    arguments = ("bias", study, "--recorded", "--favours", "ann:bob", "--json", "--resamples", "200")
    for more, rate in ((("--weights", "ann=2,lazy=1"), 1.0), (("--count-orders", "together"), 1.0), ((), 0.5)):
        found = json.loads(goldless(*arguments, *more).out)
        (row,) = (r for r in found["rows"] if r["judge"] == "panel" and r["measure"].startswith("favours"))
        assert row["value"] == rate, more


def test_a_reviewer_can_be_asked_now(goldless, study, tmp_path):
    lines = []
    for by in TEXTS.values():
        for first, second in (("ann", "bob"), ("bob", "ann")):
            message = SCALES["pairwise"].messages(by[first], by[second], prompt=None, task_description="")[-1]
            lines.append(json.dumps({"prompt": message.content, "answer": "two"}))
    script = tmp_path / "last.jsonl"
    script.write_text("\n".join(lines) + "\n")
    ended = goldless("bias", study, "--reviewers", f"ann,last=scripted:{script}", "--json", "--resamples", "200")
    assert ended.code == 0, ended.err
    rows = {(row["judge"], row["measure"]): row for row in json.loads(ended.out)["rows"]}
    assert rows["last", "decided for the one shown first"]["value"] == 0
