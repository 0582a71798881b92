from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from goldless.cli.study import app
from goldless.errors import StudyError

RESPONSES = [
    {"task": "t1", "agent": "[bold]a", "text": "four"},
    {"task": "t1", "agent": "b", "text": "sixsix \x1b[31mred"},
    {"task": "t2", "agent": "[bold]a", "text": "sixsix"},
]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "tiny"
    path.mkdir()
    write(path / "responses.jsonl", RESPONSES)
    write(path / "labels.jsonl", [{"task": "t1", "agent": "b", "rater": "r", "score": 1}])
    write(path / "tasks.jsonl", [{"task": "t1", "prompt": "why?", "synopsis_abstract": "s"}, {"task": "t2"}])
    write(path / "rewrites.jsonl", [{"rewriter": "w", "task": "t1", "agent": "b", "text": "x"}])
    return path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_check_prints_problems_of_every_kind_on_standard_error_and_exits_with_2(run, study):
    rows = [{"task": "t1", "agent": f"a{i}", "text": ""} for i in range(150)]
    write(study / "responses.jsonl", rows)
    result = run("check", study)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert sum(line.startswith("responses.jsonl:") for line in lines) == 11
    assert lines[10].startswith("responses.jsonl: … and 140 more like this: text is empty")
    assert lines[-1].endswith("150 problems")


def test_show_does_not_let_a_response_steer_the_terminal(run, study):
    result = run("show", study)
    assert "sixsix" in result.stdout
    assert "\x1b" not in result.stdout


def test_show_raises_the_study_error_for_the_main_command_to_print(run, tmp_path):
    result = run("show", tmp_path / "absent")
    assert isinstance(result.exception, StudyError)
