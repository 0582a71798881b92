"""Completion: the words that Tab offers, by the scripts of each shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from goldless.cli.main import VERBS


@pytest.fixture
def offered(goldless, monkeypatch, tmp_path):
    """What is on offer for words, the last of which is unfinished."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_GOLDLESS_COMPLETE", "complete_bash")

    def offer(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", shlex.join(["goldless", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        ended = goldless()
        assert (ended.code, ended.err) == (0, "")
        return ended.out.split()

    return offer


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("crash",), ["crashtest"]),
        (("study", ""), ["import", "check", "show", "fetch"]),
        (("score", "x", "--own-s"), ["--own-samples"]),
        (("score", "x", "--pan"), []),
        (("score", "x", "--format", "m"), ["markdown"]),
        (("score", "x", "--metric", "length,rouge-l"), ["length,rouge-l", "length,rouge-l[reference]"]),
        (("score", "x", "-m", "gem-s"), ["gem-s["]),
        (("score", "x", "-m", "pyth"), ["python:"]),
        (("score", "x", "--scorer", "opena"), ["openai:"]),
        (("score", "x", "--scorer", "emb"), ["embedded"]),
        (("review", "x", "--reviewers", "embedded,hf"), ["embedded,hf:"]),
        (("review", "x", "--scale", "pairwise-"), ["pairwise-tie"]),
        (("agree", "x", "--measurement", "no"), ["nominal"]),
        (("journal", "clear", "m"), ["models"]),
        (("journal", ""), ["show", "clear", "merge"]),
        (("config", "completion", ""), ["bash", "zsh", "fish"]),
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_understood_by_the_shell(goldless, shell):
    script = goldless("config", "completion", shell).out
    assert "_GOLDLESS_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [("crash", "crashtest"), ("score x --own-s", "--own-samples"), ("score x --scorer scripted", "scripted:")],
)
def test_bash_completes_a_line(goldless, tmp_path, words, expected):
    command = tmp_path / "goldless"
    command.write_text(f"#!{sys.executable}\nimport goldless.cli\ngoldless.cli.main()\n")
    command.chmod(0o755)
    typed = f"goldless {words}"
    call = f"COMP_WORDS=({typed}) COMP_CWORD={len(typed.split()) - 1}\n_goldless_completion {shlex.quote(str(command))}"
    script = f'{goldless("config", "completion", "bash").out}\n{call}\necho "${{COMPREPLY[*]}}"\n'
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
