"""Settings files that came with a folder run no code, name no server, send no key; files that the user names may."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
def test_a_risky_setting_of_a_file_that_was_found_is_refused_with_its_line_and_how_to_go_on(
    goldless, folder, written, verb, words
):
    (folder / "link").symlink_to(folder.parent)
    (folder / "evil.py").write_text("open('RAN', 'w')\n")
    (folder / "goldless.toml").write_text(written + "\n")
    ended = goldless(*verb)
    advice = f"Read the file, then set GOLDLESS_CONFIG={folder / 'goldless.toml'}, or write it on the command line"
    assert refused(ended, words, "needs a settings file that you name", advice), ended.err
    assert not (folder / "RAN").exists()
    assert not (folder.parent / "journal.sqlite").exists()


def test_a_project_file_of_python_runs_no_code_either(goldless, folder):
    (folder / "pyproject.toml").write_text('[tool.goldless.score]\nmetric = ["command:touch RAN"]\n')
    assert refused(goldless("score", "sample"), "pyproject.toml:2: metric", "runs code")


def test_a_risky_setting_that_the_command_line_replaces_is_not_refused(goldless, folder):
    (folder / "goldless.toml").write_text(RUNS)
    assert goldless("score", "sample", "--metric", "length", "--format", "json").code == 0


def test_a_file_that_the_user_names_runs_code(goldless, folder, monkeypatch):
    (folder / "goldless.toml").write_text(RUNS)
    monkeypatch.setenv(VARIABLE, "goldless.toml")
    goldless("score", "sample")
    assert (folder / "RAN").exists()


def test_a_file_in_the_home_folder_runs_code_and_one_below_it_does_not(goldless, folder, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: folder)
    (folder / "inner").mkdir()
    (folder / "inner" / "goldless.toml").write_text(RUNS)
    monkeypatch.chdir(folder / "inner")
    assert refused(goldless("score", "sample"), "runs code")
    (folder / "inner" / "goldless.toml").rename(folder / "goldless.toml")
    goldless("score", "sample")
    assert (folder / "inner" / "RAN").exists()


def test_names_and_numbers_are_used_and_every_setting_that_is_used_is_printed(goldless, folder):
    (folder / "goldless.toml").write_text(
        'seed = 7\n[models]\nmine = "embedded"\n[score]\nmetric = "length"\nout = "r"\n'
    )
    ended = goldless("score", "sample", "--scorer", "mine", "--format", "json")
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
