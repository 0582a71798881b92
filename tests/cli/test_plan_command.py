"""How many tasks a difference needs, and how long they take, by ``goldless plan``."""

from __future__ import annotations

import json
import time
from itertools import permutations

import pytest

from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply
from tests.support.study_files import study_folder


@pytest.fixture
def rated(tmp_path):
    """A folder with recorded contrasts: ann's alternate by 0.1 up and down on four tasks, in one direction."""
    agents = {"ann": "good", "bob": "good", "cy": "bad", "dan": "bad"}
    contrasts = [
        {"task": f"t{t}", "first": a, "second": b}
        | {"contrast": 0.5 * (agents[a] == agents[b] == "good") + 0.01 * t + 0.1 * (a == "ann") * (-1) ** t}
        for t in range(4)
        for a, b in permutations(agents, 2)
    ]
    tables = {"tasks": [{"task": f"t{t}"} for t in range(4)], "agents": [{"agent": name} for name in agents]}
    return study_folder(tmp_path / "rated", critic_contrasts=contrasts, **tables)


def test_a_plan_says_how_many_tasks_a_difference_needs_and_what_they_cost(goldless, study_file, script_file):
    """statsmodels 0.15.0, TTestPower: 90 tasks for 0.3 standard deviations at 0.05, 109 at 0.025, power 0.8."""
    critic = f"scripted:{script_file([{'prompt': 'x', 'answer': 'No'}])}"
    plan = ("plan", study_file(), "--metric", "tvd-mi[shuffles=1]", "--critic", critic)
    ended = goldless(*plan, "--detect", 0.3, "--format", "json")
    power = json.loads(ended.out)["power"]
    rows = {row["question"]: row for row in power["rows"]}
    assert [row["tests"] for row in rows.values()] == [1, 2, 2, 3]  # A>B, best, baseline=A, all pairs
    assert (rows["A>B"]["tasks"], rows["best"]["tasks"]) == (90, 109)
    assert rows["A>B"]["tasks"] < rows["best"]["tasks"] < rows["all pairs"]["tasks"]
    assert rows["A>B"]["tasks_until"] > rows["A>B"]["tasks"]
    assert rows["A>B"]["usd"] == 0.0, "a model on this machine is free"
    assert power["spread"] == []
    shown = goldless(*plan, "--detect", 0.3).out
    assert "tvd-mi: unknown in this unit, as the study holds no scores" in " ".join(shown.split())
    assert "USD" not in shown
    assert "all together" not in shown, "it would be the only row again"


def test_recorded_evidence_says_what_a_standard_deviation_is(goldless, rated):
    """ann's scores alternate by 0.1 up and down on four tasks.

    Of that two thirds with four agents, since a quarter of a score is what the others score with its agent.
    """
    ended = goldless("plan", rated, "--metric", "tvd-mi[given]", "--recorded", "--detect", 0.5, "--format", "json")
    (found,) = json.loads(ended.out)["power"]["spread"]
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
        found = json.loads(goldless("doctor", model, "--format", "json").out)["seconds_per_call"]
        assert found["verdict"] >= 0.05
        ended = goldless("plan", study, "--metric", "tvd-mi", "--critic", model, "--format", "json")
    plan = json.loads(ended.out)
    (row,) = [row for row in plan["rows"] if row["metric"] == "tvd-mi"]
    assert row["seconds"] == pytest.approx(row["calls"] * found["verdict"] / 20)
    assert any("by goldless doctor, a verdict " in note for note in plan["notes"])
