"""``goldless plan`` and the options of ``goldless score`` that came with the information metrics."""

from __future__ import annotations

import json
import time

import pytest
from loopback import Behaviour, LoopbackServer, chat_reply


@pytest.fixture
def script(tmp_path):
    """A critic that says No to everything, as a file."""
    path = tmp_path / "critic.jsonl"
    path.write_text(json.dumps({"prompt": "x", "answer": "No"}) + "\n")
    return f"scripted:{path}"


@pytest.fixture
def rated(tmp_path):
    """A folder with labels by two raters, groups of agents and recorded contrasts."""
    folder = tmp_path / "rated"
    folder.mkdir()

    def write(name, rows):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    agents = {"ann": "good", "bob": "good", "cy": "bad", "dan": "bad"}
    write("agents", [{"agent": a, "group": g} for a, g in agents.items()])
    pairs = [(a, b) for a in agents for b in agents if a != b]
    write(
        "critic_contrasts",
        [
            {"task": f"t{t}", "first": a, "second": b, "contrast": 0.5 * (agents[a] == agents[b] == "good") + 0.01 * t}
            for t in range(4)
            for a, b in pairs
        ],
    )
    write("tasks", [{"task": f"t{t}"} for t in range(4)])
    return folder


def test_recorded_groups_are_compared_under_the_stated_keys(goldless, rated):
    ended = goldless("score", rated, "--metric", "tvd-mi", "--recorded", "--compare-groups", "good", "bad", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)["metrics"]["tvd-mi"]
    # good agents meet one good partner of three: 1/6 more than bad ones, on every task, so without any spread
    assert found["difference"] == pytest.approx(0.5 / 3)
    assert {"d_task", "d_response", "auc"} <= set(found)
    assert found["auc"] == 1.0
    assert "|evidence:recorded-contrasts-" in found["signature"]


def test_raters_have_a_table_of_their_own_in_every_format(goldless, tmp_path):
    folder = tmp_path / "labelled"
    folder.mkdir()
    rows = [
        {"task": f"t{t}", "first": "ann", "second": "bob", "rater": r, "preference": (-1) ** t, "criterion": "tone"}
        for t in range(20)
        for r in ("x", "y")
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # two raters that always agree on a fair coin: 1/2 sum |1/2 - 1/4| and |0 - 1/4| over four cells
    score = ("score", folder, "--metric", "tvd-mi[labels]")
    for more, said in (
        ((), "0.500"),
        (("--format", "markdown"), "| tone | mean over pairs | 0.500 |"),
        (("--rater-group", "x=people", "--format", "markdown"), "| tone | people (1) | 0.500 |"),
        (("--format", "csv"), "metric,criterion,rater,value,null,excess,p,partners,low,high,signature"),
    ):
        assert said in goldless(*score, *more).out
    data = json.loads(goldless(*score, "--json").out)
    assert data["metrics"]["tvd-mi[labels]"]["criteria"]["tone"]["value"] == pytest.approx(0.5)


def test_a_plan_says_how_many_tasks_a_difference_needs_and_what_they_cost(goldless, study_file, script):
    """statsmodels 0.15.0, TTestPower: 90 tasks for 0.3 standard deviations at 0.05, 109 at 0.025, power 0.8."""
    ended = goldless(
        "plan", study_file(), "--metric", "tvd-mi", "--critic", script, "--shuffles", 1, "--detect", 0.3, "--json"
    )
    power = json.loads(ended.out)["power"]
    rows = {row["question"]: row for row in power["rows"]}
    assert [row["tests"] for row in rows.values()] == [1, 2, 2, 3]  # A>B, best, baseline=A, all pairs
    assert (rows["A>B"]["tasks"], rows["best"]["tasks"]) == (90, 109)
    assert rows["A>B"]["tasks"] < rows["best"]["tasks"] < rows["all pairs"]["tasks"]
    assert rows["A>B"]["tasks_until"] > rows["A>B"]["tasks"]
    assert rows["A>B"]["usd"] == 0.0, "a model on this machine is free"
    assert power["spread"] == []


def test_recorded_evidence_says_what_a_standard_deviation_is(goldless, rated):
    """Each task's differences are equal but for the groups, so the spread of any pair is 0 and says nothing."""
    rows = [json.loads(line) for line in (rated / "critic_contrasts.jsonl").read_text().splitlines()]
    for row in rows:
        row["contrast"] += 0.1 * (row["first"] == "ann") * (-1) ** int(row["task"][1:])
    (rated / "critic_contrasts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = goldless("plan", rated, "--metric", "tvd-mi[given]", "--recorded", "--detect", 0.5, "--json")
    (found,) = json.loads(ended.out)["power"]["spread"]
    # ann's scores alternate by 0.1 up and down on four tasks; of that two thirds with four agents, since a quarter of a
    # score is what the others score with its agent
    assert (found["metric"], found["pairs"], found["tasks"]) == ("tvd-mi[given]", 3, 4)
    assert found["sd"] == pytest.approx(2 / 3 * 0.1 * (4 / 3) ** 0.5)


def test_what_the_doctor_measured_is_in_the_plan_of_a_first_run(goldless, tmp_path):
    study = tmp_path / "answers.csv"
    study.write_text("task,agent,text\n" + "".join(f"t{t},{a},zarn {t}\n" for t in range(3) for a in ("ann", "bob")))

    def slow(_):
        time.sleep(0.05)
        return chat_reply("Yes")

    with LoopbackServer(Behaviour(chat=slow)) as server:
        model = f"{server.url}#toy"
        found = json.loads(goldless("doctor", model, "--json").out)["seconds_per_call"]
        assert found["verdict"] >= 0.05
        ended = goldless("plan", study, "--metric", "tvd-mi", "--critic", model, "--json")
    plan = json.loads(ended.out)
    (row,) = [row for row in plan["rows"] if row["metric"] == "tvd-mi"]
    assert row["seconds"] == pytest.approx(row["calls"] * found["verdict"] / 20)
    assert any("by goldless doctor, a verdict " in note for note in plan["notes"])
