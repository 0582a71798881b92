"""AlpacaEval: real outputs and annotations where the recorded data are, and rows of the same shape."""

from __future__ import annotations

import json

import pytest

from goldless.studies import import_study, read_study

ROW = {"instruction": "Name a colour.", "output_1": "Red.", "generator_1": "base", "output_2": "Blue.", "dataset": "d"}
ROW |= {"generator_2": "mine", "annotator": "judge/v1", "preference": 1.25}


def test_recorded_outputs_and_annotations_are_one_study(recorded):
    folder = recorded / "formats" / "alpaca_eval"
    paths = [folder / name for name in ("vicuna-7b_annotations.json", "gpt4_model_outputs.json")]
    rows = json.loads(paths[0].read_text())
    study = import_study([*paths, folder / "vicuna-7b_model_outputs.json"])
    assert (len(study.tasks), study.n_responses) == (120, 360)
    assert {agent.agent for agent in study.agents} == {"gpt4_1106_preview", "vicuna-7b", "gpt4"}
    votes = study.table("judge_weighted_alpaca_eval_gpt4_turbo")
    assert votes["first_wins"].sum() == pytest.approx(sum(2 - float(row["preference"]) for row in rows))
    assert study.task(votes["task"][0]).prompt == rows[0]["instruction"]


def test_a_preference_between_1_and_2_is_the_probability_of_the_second(tmp_path, goldless):
    path = tmp_path / "annotations.json"
    missing = {**ROW, "instruction": "Name a way.", "preference": None}
    path.write_text(json.dumps([ROW, missing]))
    study = read_study(path)
    assert study.table("judge_judge_v1").drop("task").rows() == [("base", "mine", 0.75)]
    assert study.origin.notes == ("1 comparisons without a preference are missing",)
    assert dict(study.task(study.tasks[0]).extra) == {"dataset": "d"}
    done = goldless("score", path, "--metric", "judge[judge_v1]", "--recorded")
    assert "read as alpaca_eval: 2 tasks, 2 agents, 4 responses" in done.err
