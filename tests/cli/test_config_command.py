"""Settings of a project: ``goldless.toml`` and ``goldless config``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from goldless.cli.settings_file import VARIABLE
from tests.support.paths import DOCS

FILE = """\
seed = 7

[models]
judge = "openai:gpt-4o-mini"

[score]
metric = ["length", "rouge-l"]
resamples = 200
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "goldless.toml").write_text(FILE)
    return tmp_path


def scored(goldless, *words: str) -> dict:
    ended = goldless("score", "sample", "--format", "json", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def names(result: dict) -> list[str]:
    return list(result["metrics"])


def test_the_command_line_wins(goldless, project):
    ended = goldless("score", "sample", "--format", "json", "--metric", "length", "--seed", "1", "--resamples", "100")
    assert names(json.loads(ended.out)) == ["length"]
    assert "settings from" not in ended.err


def test_a_project_file_of_python_serves_too_and_ours_comes_first(goldless, project):
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.goldless]\nmetric = "length"\n')
    assert names(scored(goldless)) == ["length", "rouge-l"]
    (project / "goldless.toml").unlink()
    assert names(scored(goldless, "--resamples", "100")) == ["length"]


def test_the_file_is_found_above_but_not_outside_of_the_repository(goldless, project, monkeypatch):
    inner = project / "repository" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert json.loads(goldless("config", "show", "--format", "json").out)["file"] == str(project / "goldless.toml")
    (project / "repository" / ".git").mkdir()
    assert json.loads(goldless("config", "show", "--format", "json").out) == {"file": "", "settings": []}


def test_a_path_is_relative_to_the_file(goldless, project, monkeypatch):
    (project / "goldless.toml").write_text('metric = "length"\n[score]\nout = "run"\n')
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    assert goldless("score", "sample").code == 0
    assert (project / "run" / "leaderboard.json").is_file()


def test_a_user_without_a_home_has_settings_too(goldless, project, monkeypatch):
    """As in a container that runs under a number nobody has."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    monkeypatch.setattr(Path, "home", no_home)
    assert json.loads(goldless("config", "show", "--format", "json").out)["file"] == str(project / "goldless.toml")


def test_the_environment_names_another_file_or_none(goldless, project, monkeypatch):
    monkeypatch.setenv(VARIABLE, "none")
    assert json.loads(goldless("config", "show", "--format", "json").out)["settings"] == []
    (project / "other.toml").write_text("seed = 3\n")
    monkeypatch.setenv(VARIABLE, "other.toml")
    (row,) = json.loads(goldless("config", "show", "--format", "json").out)["settings"]
    assert (row["setting"], row["value"], row["from"]) == ("seed", "3", "other.toml:1")
    monkeypatch.setenv(VARIABLE, "gone.toml")
    ended = goldless("score", "sample")
    assert ended.code == 2
    assert "GOLDLESS_CONFIG must be a settings file, or none, got 'gone.toml'" in ended.err


def test_a_model_goes_by_its_short_name(goldless, project, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ended = goldless("review", "sample", "--reviewers", "judge", "--exam", "none")
    assert ended.code == 2
    assert "openai:gpt-4o-mini needs a key" in ended.err


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("sead = 7", r"goldless.toml:1: unknown setting 'sead'. Did you mean 'seed'\?"),
        ("\n[scores]\nseed = 7", r"goldless.toml:2: a table must be models or the name of a verb, got \[scores\]"),
        ("[score]\n\nmetrics = 'length'", r"goldless.toml:3: goldless score has no option 'metrics'. Did you mean"),
        ("seed = 'many'", r"goldless.toml:1: seed must be a whole number, got 'many'"),
        ("seed = [1, 2]", r"goldless.toml:1: seed must be one value, got \[1, 2\]"),
        ("recorded = 'yes'", r"goldless.toml:1: recorded must be true or false, got 'yes'"),
        ("score = 3", r"goldless.toml:1: unknown setting 'score'"),
        ("[models]\n'a b' = 'embedded'", r"goldless.toml:2: a model must be NAME = \"MODEL\""),
        (
            "[models]\nfirst.judge = 'embedded'\njudge = 'embedded'",
            r"goldless.toml:2: a model must be NAME = \"MODEL\".*, got first.judge = 'embedded'",
        ),
        ("seed = ", r"cannot be read as TOML: .*line 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(goldless, project, written, message):
    (project / "goldless.toml").write_text(written + "\n")
    ended = goldless("score", "sample")
    assert (ended.code, ended.out) == (2, "")
    assert re.search(message, ended.err.replace("\n", " ")), ended.err


def test_the_file_in_the_docs_is_understood(goldless, project):
    page = DOCS / "configuration.md"
    if not page.exists():
        pytest.skip("installed without the docs")
    block = re.search(r'```toml title="goldless.toml"\n(.*?)```', page.read_text(), re.DOTALL)
    assert block is not None
    (project / "goldless.toml").write_text(block[1])
    rows = json.loads(goldless("config", "show", "--format", "json").out)["settings"]
    assert {"scorer", "seed", "budget", "metric", "reviewers", "judge", "second"} == {row["setting"] for row in rows}
