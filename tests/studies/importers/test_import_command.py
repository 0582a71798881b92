"""``goldless study import``, and verbs that read other files directly."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from goldless.cli.study import FORMATS
from goldless.studies import read_study
from goldless.studies.importers import IMPORTERS

LONG = "id,model,output\n1,a,red\n1,b,blue\n2,a,up\n"
COLUMNS = ("--columns", "task=id,agent=model,text=output")


@pytest.fixture
def long(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(LONG)
    return path


def test_the_help_lists_every_built_in_format():
    assert FORMATS.split(", ") == list(IMPORTERS.all())


@pytest.mark.parametrize("words", [("table",), ("--from", "table"), ()])
def test_a_table_becomes_a_study_with_a_summary(goldless, long, tmp_path, words):
    done = goldless("study", "import", *words, long, *COLUMNS, "--out", tmp_path / "study", "--format", "json")
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["format"], found["tasks"], found["agents"], found["responses"]) == ("table", 2, 2, 3)
    assert found["missing"] == {"not in the files": 1}
    assert read_study(tmp_path / "study").response("2", "a").text == "up"


def test_other_verbs_say_what_they_read_and_repeat_the_options_in_what_is_next(goldless, long):
    done = goldless("score", long, *COLUMNS, "--metric", "length")
    assert done.code == 0
    assert "read as table: 2 tasks, 2 agents, 3 responses, missing: not in the files 1" in done.err
    assert f"goldless crashtest {long} {' '.join(COLUMNS)} --metric length" in done.err


def test_samples_are_counted_apart_from_agents_and_survive_the_writing(goldless, tmp_path):
    files = Path(__file__).parent / "files" / "promptfoo"
    twice = (files / "results.json", files / "results.jsonl")
    done = goldless("study", "import", *twice, "--out", tmp_path / "study", "--format", "json")
    found = json.loads(done.out)
    assert (found["agents"], found["also"]["agents with several samples"], found["missing"]) == (2, 2, {"error": 2})
    study = read_study(tmp_path / "study")
    assert study.samples == {f"{agent}#{n}": agent for agent in ("parrot", "careful") for n in (1, 2)}
    assert [rating.agent for rating in study.ratings()] == ["careful#1", "careful#2"]


def test_a_log_on_standard_input_has_a_name_that_does_not_change(goldless, monkeypatch):
    (path,) = (Path(__file__).parent / "files" / "lm_eval" / "lab__hasty").glob("samples_colours_2*")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert json.loads(goldless("study", "show", "-", "--format", "json").out)["agents"][0]["agent"] == "stdin"


def test_a_study_of_our_own_needs_no_words(goldless):
    assert "read as" not in goldless("score", "sample", "--metric", "length").err
