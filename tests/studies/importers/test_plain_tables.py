"""Tables with other columns, wide tables, JSON arrays, tabs, standard input and rows from Python."""

from __future__ import annotations

import io
import json
import sys

import polars as pl
import pytest

import goldless as goldless_package
from goldless.errors import StudyError, UserError
from goldless.studies import as_study, import_study, read_study, study_from_frame

LONG = "id,model,output,prompt\n1,a,red,Colour?\n1,b,blue,Colour?\n2,a,up,Way?\n2,b,down,Way?\n"
COLUMNS = {"task": "id", "agent": "model", "text": "output"}
WIDE = "prompt,a,b\nColour?,red,blue\nWay?,up,\n"
ROWS = [{"task": "t", "agent": "a", "text": "x"}, {"task": "t", "agent": "b", "text": "y"}]


def texts(study):
    return {(row["task"], row["agent"]): row["text"] for row in study.rows("responses")}


@pytest.fixture
def file(tmp_path):
    def make(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def test_columns_are_mapped_and_the_others_kept(file):
    study = read_study(file("long.csv", LONG), columns=COLUMNS)
    assert texts(study) == {("1", "a"): "red", ("1", "b"): "blue", ("2", "a"): "up", ("2", "b"): "down"}
    assert study.task("2").prompt == "Way?"


def test_a_wide_table_has_one_agent_per_column_and_an_empty_cell_is_missing(file):
    study = read_study(file("wide.csv", WIDE), wide=True)
    assert texts(study) == {("1", "a"): "red", ("1", "b"): "blue", ("2", "a"): "up"}
    assert study.task("1").prompt == "Colour?"
    some = read_study(file("wide.csv", WIDE), wide=True, columns={"agent": ["b"], "task": "prompt"})
    assert texts(some) == {("Colour?", "b"): "blue"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one.json", json.dumps(ROWS, indent=2)),
        ("one.json", "\n".join(map(json.dumps, ROWS))),
        ("one.tsv", "task\tagent\ttext\nt\ta\tx\nt\tb\ty\n"),
    ],
)
def test_json_arrays_and_tabs_are_studies(file, name, text):
    assert texts(read_study(file(name, text))) == {("t", "a"): "x", ("t", "b"): "y"}


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(ROWS),
        "\n".join(map(json.dumps, ROWS)),
        "task,agent,text\nt,a,x\nt,b,y\n",
        "task\tagent\ttext\nt\ta\tx\nt\tb\ty\n",
    ],
)
def test_standard_input_is_recognised(monkeypatch, data, goldless):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
    assert "1 tasks, 2 agents, 2 responses" in goldless("study", "check", "-").out


def test_rows_from_python_are_a_study():
    assert texts(as_study(ROWS)) == {("t", "a"): "x", ("t", "b"): "y"}
    board = goldless_package.evaluate(ROWS, metrics="length").leaderboard()
    assert {row.agent for row in board.rows} == {"a", "b"}
    named = [{"id": 1, "model": "a", "output": "x"}, {"id": 1, "model": "a", "output": "y"}]
    study = study_from_frame(iter(named), columns=COLUMNS, repeats="agents")
    assert texts(study) == {("1", "a"): "x", ("1", "a#2"): "y"}
    wide = study_from_frame(pl.DataFrame({"a": ["x"], "b": ["y"]}), wide=True)
    assert texts(wide) == {("1", "a"): "x", ("1", "b"): "y"}


def test_samples_may_be_numbered_in_a_column_of_another_name(file):
    path = file("epochs.csv", "task,agent,text,epoch\nt,a,x,1\nt,a,y,2\n")
    assert read_study(path, columns={"sample": "epoch"}).samples == {"a#1": "a", "a#2": "a"}


def test_one_file_per_model_is_one_study(file):
    paths = [file("a.csv", "task,agent,text\nt,a,x\n"), file("b.csv", "task,agent,text\nt,b,y\n")]
    assert texts(import_study(paths)) == {("t", "a"): "x", ("t", "b"): "y"}


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            LONG,
            {"columns": {"task": "nr"}},
            "--columns names 'nr', but the columns are 'id', 'model', 'output', 'prompt'",
        ),
        (WIDE, {"columns": {"task": "prompt"}}, "no column 'agent'"),
        ("id,model,output\n", {"columns": COLUMNS}, "no rows"),
    ],
)
def test_bad_tables_are_problems(file, text, options, said):
    with pytest.raises(StudyError, match=said):
        read_study(file("long.csv", text), **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": {"model": "x"}}, "must name task, agent, text, sample, prompt, reference or .*, got 'model'"),
        ({"columns": {"task": ["x", "y"]}}, "has 2 columns for task, x, y. Name one"),
        ({"columns": {"text": "x"}, "wide": True}, "names no text"),
        ({"importer": "study", "wide": True}, "study files are read without the option 'wide'"),
    ],
)
def test_bad_options_are_refused(file, options, said):
    with pytest.raises(UserError, match=said):
        read_study(file("wide.csv", WIDE), **options)
