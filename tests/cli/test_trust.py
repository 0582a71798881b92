"""Settings files that came with a folder: they run no code, name no server and send no key before they are trusted."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from goldless.cli.settings_file import VARIABLE

RUNS = '[score]\nmetric = ["command:touch RAN"]\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def refused(ended, *words: str) -> bool:
    said = " ".join(ended.err.split())
    return ended.code == 2 and ended.out == "" and all(word in said for word in words)


@pytest.mark.parametrize(
    ("written", "verb", "words"),
    [
        (RUNS, ["score", "sample"], "goldless.toml:2: metric = ['command:touch RAN'] runs code"),
        ('metric = "python:evil.py:f"', ["score", "sample"], "metric = ['python:evil.py:f'] runs code"),
        ('metric = "length,command:touch RAN"', ["score", "sample"], "runs code"),
        ('metric = "promptfoo:evil.yaml"', ["score", "sample"], "runs code"),
        ('[models]\nj = "command:touch RAN"', ["review", "sample", "--reviewers", "j"], "j = 'command:touch RAN'"),
        ('[models]\nj = "command:touch RAN"', ["review", "sample", "--reviewers", "name=j"], "runs code"),
        ('reviewers = "a=command:touch RAN"', ["review", "sample"], "runs code"),
        ('reviewers = "http://127.0.0.1:9/v1#m?key=HOME"', ["review", "sample"], "sends a key from the environment"),
        ('scorer = "http://127.0.0.1:9/v1#m"', ["score", "sample"], "names a server"),
        ('[score]\nout = "/tmp/elsewhere"\nmetric = "length"', ["score", "sample"], "is outside the file's folder"),
        ('journal = "../journal.sqlite"\nmetric = "length"', ["score", "sample"], "is outside the file's folder"),
        ('[score]\nout = "link/out"\nmetric = "length"', ["score", "sample"], "is outside the file's folder"),
    ],
)
def test_what_needs_trust_is_refused_with_its_line_and_how_to_go_on(goldless, folder, written, verb, words):
    (folder / "link").symlink_to(folder.parent)
    (folder / "evil.py").write_text("open('RAN', 'w')\n")
    (folder / "goldless.toml").write_text(written + "\n")
    ended = goldless(*verb)
    assert refused(ended, words, "is not trusted", "Read the file, then run: goldless config trust"), ended.err
    assert not (folder / "RAN").exists()
    assert not (folder.parent / "journal.sqlite").exists()


def test_a_project_file_of_python_needs_the_same_trust(goldless, folder):
    (folder / "pyproject.toml").write_text('[tool.goldless.score]\nmetric = ["command:touch RAN"]\n')
    assert refused(goldless("score", "sample"), "pyproject.toml:2: metric", "runs code")


def test_a_trusted_file_is_used_until_its_settings_change(goldless, folder):
    (folder / "goldless.toml").write_text(RUNS)
    trusted = goldless("config", "trust")
    assert trusted.code == 0
    assert "runs code" in trusted.err
    goldless("score", "sample")
    assert (folder / "RAN").exists()
    (folder / "goldless.toml").write_text(f"# a comment changes nothing\n{RUNS}")
    assert "is not trusted" not in goldless("score", "sample").err
    (folder / "goldless.toml").write_text(RUNS.replace("RAN", "OTHER"))
    assert "is not trusted" in goldless("score", "sample").err
    assert not (folder / "OTHER").exists()


@pytest.mark.parametrize(
    ("setting", "file"),
    [
        ("python:metric.py:f", "metric.py"),
        ("python:metric:f", "metric.py"),
        ("python:parts.metric:f", "parts/metric.py"),
        ("command:sh judge.sh", "judge.sh"),
        ("promptfoo:checks.yaml", "checks.yaml"),
    ],
)
def test_code_that_changed_after_it_was_trusted_is_not_run(goldless, folder, setting, file):
    (folder / "goldless.toml").write_text(f'[score]\nmetric = ["{setting}"]\n')
    (folder / "parts").mkdir()
    (folder / file).write_text("# harmless\n")
    goldless("config", "trust")
    assert "is not trusted" not in goldless("score", "sample").err
    (folder / file).write_text("open('RAN', 'w')\n")
    assert "is not trusted" in goldless("score", "sample").err
    assert not (folder / "RAN").exists()


def test_trust_is_for_a_file_in_its_place(goldless, folder, monkeypatch):
    (folder / "goldless.toml").write_text(RUNS)
    goldless("config", "trust")
    (folder / "copy").mkdir()
    shutil.copy(folder / "goldless.toml", folder / "copy")
    monkeypatch.chdir(folder / "copy")
    assert "is not trusted" in goldless("score", "sample").err


def test_what_the_command_line_says_needs_no_trust(goldless, folder):
    (folder / "goldless.toml").write_text(RUNS)
    assert goldless("score", "sample", "--metric", "length", "--json").code == 0


def test_a_file_named_by_the_user_is_trusted(goldless, folder, monkeypatch):
    (folder / "goldless.toml").write_text(RUNS)
    monkeypatch.setenv(VARIABLE, "goldless.toml")
    goldless("score", "sample")
    assert (folder / "RAN").exists()


def test_names_and_numbers_need_no_trust_and_every_setting_that_is_used_is_printed(goldless, folder):
    (folder / "goldless.toml").write_text(
        'seed = 7\n[models]\nmine = "embedded"\n[score]\nmetric = "length"\nout = "r"\n'
    )
    ended = goldless("score", "sample", "--scorer", "mine", "--json")
    assert ended.code == 0, ended.err
    assert f"settings from {folder / 'goldless.toml'}: metric, out, seed, mine = embedded" in ended.err.replace(
        "\n", ""
    )
    assert json.loads((folder / "r" / "leaderboard.json").read_text())


def test_no_file_replaces_a_name_of_goldless(goldless, folder):
    (folder / "goldless.toml").write_text('[models]\nembedded = "command:touch RAN"\n')
    assert refused(goldless("score", "sample"), "goldless.toml:2: embedded is a name of goldless's own")


def test_a_file_that_everybody_can_write_is_refused(goldless, folder):
    (folder / "goldless.toml").write_text("seed = 7\n")
    (folder / "goldless.toml").chmod(0o666)
    assert refused(goldless("score", "sample"), "can be written by everybody", "GOLDLESS_CONFIG=none")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(goldless, folder, monkeypatch):
    (folder / "goldless.toml").write_text("seed = 7\n")
    os.chown(folder / "goldless.toml", 65534, -1)
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    assert refused(goldless("score", "sample"), "belongs to another user")


def test_a_terminal_is_asked(goldless, folder, monkeypatch):
    (folder / "goldless.toml").write_text(RUNS)
    asked = []
    monkeypatch.setattr("goldless.cli.settings_file.in_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda question, **_: asked.append(question) or len(asked) > 1)
    assert refused(goldless("score", "sample"), "is not trusted. Use GOLDLESS_CONFIG=none to run without it")
    assert not (folder / "RAN").exists()
    goldless("score", "sample")
    assert (folder / "RAN").exists()
    goldless("score", "sample")
    assert asked == [f"Trust {folder / 'goldless.toml'}?"] * 2


def test_a_damaged_list_of_trusted_files_is_told(goldless, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path))
    (folder / "goldless.toml").write_text(RUNS)
    (tmp_path / "trusted_settings.json").write_text("{")
    assert refused(goldless("score", "sample"), "trusted_settings.json cannot be read", "Delete it")
