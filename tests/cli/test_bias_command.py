"""``goldless bias`` by the command line."""

from __future__ import annotations

import csv
import io
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


def test_the_tables_show_position_length_and_family_with_intervals_and_what_is_not_measured(goldless, study):
    ended = goldless("bias", study, "--recorded", "--resamples", "200", "-v")
    assert ended.code == 0, ended.err
    for words in (
        "Position: flips when the order is swapped",
        "Length: longer wins, tied by people (no bias: 0.5)",
        "Family preference: own family wins, less people",
        "95% interval",
        "Not measured:",
        "format: no two responses to a task differ in format marks",
        "bias|scale:pairwise|reviewers:ann,lazy",
    ):
        assert words in ended.out


def test_json_holds_rows_coverage_and_reasons(goldless, study):
    ended = goldless("bias", study, "--recorded", "--favours", "ann:bob", "--json", "--resamples", "200")
    found = json.loads(ended.out)
    rows = {(row["judge"], row["measure"]): row for row in found["rows"]}
    # ann favours ann in both orders, lazy once of two; people see a tie everywhere
    assert rows["ann", "favours the first though people do not"]["value"] == 1
    assert rows["lazy", "favours the first though people do not"]["value"] == 0.5
    # of the vote, ann shown first: 2 to none; shown second: 1 to 1, a tie, which does not favour
    panel = rows["panel", "favours the first though people do not"]
    assert (panel["value"], panel["ties"], panel["used"]) == (0.5, 12, 24)
    assert found["coverage"][0] == {
        "judge": "ann",
        "kind": "reviewer",
        "of": "judgements",
        "asked": 24,
        "used": 24,
        "missing": 0,
    }
    assert {one["bias"] for one in found["unavailable"]} == {"format", "self-preference", "family preference"}


def test_csv_and_markdown_print_the_same_rows(goldless, study):
    ended = goldless("bias", study, "--recorded", "--format", "csv", "--resamples", "200")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert {"bias", "judge", "value", "low", "high", "asked", "used", "missing", "signature"} <= set(rows[0])
    marked = goldless("bias", study, "--recorded", "--format", "markdown", "--resamples", "200").out
    assert "| lazy | 1.0000 |" in marked


def test_weights_and_orders_decide_the_panel_vote(goldless, study):
    arguments = ("bias", study, "--recorded", "--favours", "ann:bob", "--json", "--resamples", "200")
    for more, rate in ((("--weights", "ann=2,lazy=1"), 1.0), (("--orders", "together"), 1.0), ((), 0.5)):
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


def test_any_metric_is_looked_at_beside_reviewers(goldless, study):
    found = json.loads(goldless("bias", study, "--metric", "length", "--json", "--resamples", "200").out)
    rows = {(row["judge"], row["measure"]): row for row in found["rows"]}
    # ann writes four words on every task and bob two; people find them alike
    assert rows["length", "longer wins, tied by people"]["value"] == 1
    assert rows["length", "longer wins, tied by people"]["shown"] is True
    assert found["metric_signatures"]["length"].startswith("length|")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recorded", "--reviewers", "lazzy"), "Did you mean 'lazy'"),
        (("--recorded", "--favours", "ann"), "FIRST:SECOND"),
        (("--recorded", "--family", "ann"), "--family must be NAME=FAMILY, got 'ann'"),
        (("--recorded", "--weights", "ann=heavy"), "a weight is a finite number"),
        (("--recorded", "--weights", "ann"), "--weights must be NAME=WEIGHT"),
        (("--recorded", "--scale", "5-level"), "nothing to test for bias"),
        (("--recorded", "--resamples", "5"), "resamples must be a whole number of at least 100, got 5"),
    ],
)
def test_wrong_arguments_end_with_2_and_say_what_is_allowed(goldless, study, arguments, message):
    ended = goldless("bias", study, *arguments)
    assert ended.code == 2
    assert message in ended.err
