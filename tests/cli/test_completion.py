"""Completion: the scripts, and the words that Tab offers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from goldless.cli.completion import SCRIPTS
from goldless.cli.main import VERBS


@pytest.fixture
def offered(goldless, monkeypatch, tmp_path):
    """What is on offer for words, the last of which is unfinished."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDLESS_COMPLETING", "1")

    def offer(*words: str) -> list[str]:
        ended = goldless(*words)
        assert (ended.code, ended.err) == (0, "")
        return [line.partition("\t")[0] for line in ended.out.splitlines()]

    return offer


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("crash",), ["crashtest"]),
        (("study", ""), ["import", "check", "show"]),
        (("score", "x", "--peer-s"), ["--peer-sample"]),
        (("score", "x", "--pan"), []),
        (("score", "x", "--format", "m"), ["markdown"]),
        (("score", "x", "--format=m"), ["--format=markdown"]),
        (("score", "x", "--metric", "length,rouge-l"), ["length,rouge-l", "length,rouge-l[reference]"]),
        (("score", "x", "-m", "gem-s"), ["gem-s["]),
        (("score", "x", "-m", "pyth"), ["python:"]),
        (("score", "x", "--scorer", "opena"), ["openai:"]),
        (("score", "x", "--scorer", "emb"), ["embedded"]),
        (("review", "x", "--reviewers", "embedded,hf"), ["embedded,hf:"]),
        (("review", "x", "--scale", "pairwise-"), ["pairwise-tie"]),
        (("agree", "x", "--alpha", "no"), ["nominal"]),
        (("journal", "clear", "m"), ["models"]),
        (("journal", ""), ["batches", "files", "clear", "check", "show", "compact", "forget", "merge"]),
        (("config", "completion", ""), ["bash", "zsh", "fish"]),
        (("no-such-verb", ""), []),
        (("score", "x", "--out", ""), []),
    ],
)
def test_what_is_on_offer(offered, words, expected):
    assert offered(*words) == expected


def test_all_verbs_are_on_offer(offered):
    assert offered("") == list(VERBS)


def test_an_option_that_was_given_is_not_on_offer_again_unless_it_may_be_repeated(offered):
    assert "--seed" not in offered("score", "x", "--seed", "3", "--")
    assert "--metric" in offered("score", "x", "--metric", "gem", "--")


def test_studies_and_run_folders_are_on_offer(offered, tmp_path):
    for name in ("answers.csv", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "made_by.json").write_text("{}")
    assert offered("score", "") == ["sample", "answers.csv", "runs/"]
    assert offered("view", "") == ["runs/"]
    assert offered("view", "runs/") == ["runs/first"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_understood_by_the_shell(goldless, shell):
    script = goldless("config", "completion", shell).out
    assert script == SCRIPTS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("goldless crash", "crashtest"),
        ("goldless score x --peer-s", "--peer-sample"),
        ("goldless score x --scorer scripted", "scripted:"),
        ("goldless score x --metric python:", ""),
        ("goldless config completion ", "bash zsh fish"),
    ],
)
def test_bash_completes_a_line(tmp_path, line, expected):
    command = tmp_path / "goldless"
    command.write_text(f"#!{sys.executable}\nimport goldless.cli\ngoldless.cli.main()\n")
    command.chmod(0o755)
    call = f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}\n_goldless {shlex.quote(str(command))}"
    script = f'{SCRIPTS["bash"]}\n{call}\necho "${{COMPREPLY[*]}}"\n'
    done = subprocess.run(
        ["bash", "--norc"],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == expected
