"""``goldless cost`` by the command line."""

from __future__ import annotations

import json

import pytest

import goldless as package

SERVER = "http://127.0.0.1:1/v1#model"
TEXTS = {f"t{i}": {"ann": f"good {i}", "bob": f"poor {i}", "cy": f"bad {i}"} for i in range(1, 6)}


def test_json_scales_to_ten_thousand_tasks_unless_told_otherwise(goldless, study_file):
    ended = goldless("cost", study_file(), "--scorer", SERVER, "--price", "1,1", "--json")
    found = json.loads(ended.out)
    (row,) = found["rows"]
    assert row["scaled"]["tasks"] == 10_000
    assert row["scaled"]["calls"] == pytest.approx(row["calls"] / 3 * 10_000)
    assert found["total"]["usd"] == pytest.approx(row["usd"] / 3 * 10_000)


def test_reviewers_are_planned_without_asking_them(goldless, study_file):
    ended = goldless("cost", study_file(TEXTS), "--reviewers", f"far={SERVER}", "--reviewer-price", "far=2", "--json")
    found = json.loads(ended.out)
    (row,) = found["rows"]
    assert (row["metrics"], row["part"], row["calls"]) == (["review[pairwise]"], "far", 5 * 6)
    assert row["usd"] == pytest.approx(found["reviewers"][0]["tokens"] * 2 / 1e6)


def test_a_run_folder_replaces_the_plan(goldless, study_file, toy_scorer, tmp_path):
    study = study_file()
    result = package.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), resamples=200)
    folder = package.save_run(result, tmp_path / "run")
    found = json.loads(goldless("cost", study, "--run", folder, "--json").out)
    (row,) = found["rows"]
    assert (row["source"], row["calls"]) == ("spent", 26)
