"""The other verbs: help, version, models, doctor; and the command as a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import goldless as library
from goldless.cli.console import ProgressBars, warnings_as_messages
from goldless.models.canaries import INSTRUCTION, REPEATS, TEXTS
from goldless.models.scripted import ScriptedModel
from goldless.reports.run_record import AgentSoFar, BoardSoFar
from goldless.runs import pipeline
from goldless.runs.progress import Progress


def test_it_runs_as_a_process():
    command = [sys.executable, "-c", "import goldless.cli; goldless.cli.main()", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"goldless {library.__version__}\n", "")


@pytest.fixture
def scorer_file(script_file):
    """A script that knows the canaries' questions; ``value`` gives log p by whether a text was copied."""

    def make(copied: float, other: float) -> str:
        rows = []
        for given in TEXTS:
            for target in TEXTS:
                value = copied if given == target else other
                context = f"{INSTRUCTION.content}\n\n{' '.join([given] * REPEATS)}"
                rows.append({"context": context, "target": target, "logprobs": [value] * 4})
        return f"scripted:{script_file(rows)}"

    return make


def test_doctor_ends_with_1_where_a_scorer_cannot_be_trusted(goldless, scorer_file):
    ended = goldless("doctor", scorer_file(-3.0, -1.0), "--format", "json")
    assert ended.code == 1
    assert "does not read its context" in json.loads(ended.out)["complaint"]
    assert "does not read its context" in ended.err


def test_doctor_takes_nothing_from_the_journal(goldless, scorer_file, monkeypatch):
    asked = []
    answer = ScriptedModel.score

    async def counted(model, requests, deliver):
        asked.extend(requests)
        await answer(model, requests, deliver)

    monkeypatch.setattr(ScriptedModel, "score", counted)
    spec = scorer_file(-1.0, -3.0)
    goldless("doctor", spec)
    first = len(asked)
    goldless("doctor", spec)
    assert len(asked) == 2 * first > 0


def test_a_line_on_the_progress_has_stage_counts_rate_and_cost():
    times = iter([0.0, 5.0, 10.0, 40.0, 41.0])
    bars = ProgressBars(clock=lambda: next(times))
    assert bars.line() == "preparing, 5 seconds so far"
    bars(Progress("scoring", 0, 1000, 0, None))
    bars(Progress("scoring", 31, 1000, 310, None))
    assert bars.line() == "scoring: 31 of 1,000, 1.0/s 10 tok/s, price unknown, 16 min left"


@pytest.mark.parametrize(
    ("now", "said"), [(130, "0.2/s, 70 s left"), (160, "0.2/s, 40 s left"), (300, "0.1/s, 2 min left")]
)
def test_the_rate_falls_only_where_the_next_batch_is_late(now, said):
    times = iter([0.0, 0.0, 100.0, now])
    bars = ProgressBars(clock=lambda: next(times))
    bars(Progress("scoring", 0, 32, 0, 0.0))
    bars(Progress("scoring", 16, 32, 0, 0.0))
    assert bars.line() == f"scoring: 16 of 32, {said}"


def test_replies_from_the_journal_do_not_count_for_the_rate():
    times = iter([0.0, 0.0, 1.0, 30.0, 41.0, 41.0])
    bars = ProgressBars(clock=lambda: next(times))
    bars(Progress("scoring", 0, 1000, 0, 0.0))
    bars(Progress("scoring", 900, 1000, 0, 0.0, reused=900))
    assert bars.line() == "scoring: 900 of 1,000"
    bars(Progress("scoring", 941, 1000, 0, 0.0, reused=900))
    assert bars.line() == "scoring: 941 of 1,000, 1.0/s, 59 s left"


def test_where_there_is_no_terminal_lines_come_even_while_a_batch_is_running(monkeypatch, capsys):
    monkeypatch.setattr("goldless.cli.console.FIRST_LINE_SECONDS", 0.01)
    said = threading.Event()
    monkeypatch.setattr("goldless.cli.console.say", lambda line: said.set() if line.startswith("scoring: 0") else None)
    with ProgressBars() as bars:
        bars(Progress("scoring", 0, 10, 0, 0.0))
        assert said.wait(30)
    assert capsys.readouterr().err == ""


def test_a_line_of_progress_is_not_said_again_until_something_has_changed(monkeypatch):
    for seconds in ("FIRST_LINE_SECONDS", "LINE_SECONDS"):
        monkeypatch.setattr(f"goldless.cli.console.{seconds}", 0.01)
    said, two = [], threading.Event()
    monkeypatch.setattr("goldless.cli.console.say", lambda line: (said.append(line), len(said) == 4 and two.set()))
    boards = [BoardSoFar(name, rows=(AgentSoFar("ann", 12.0, 2),)) for name in ("length", "gem")]
    bars = ProgressBars()
    bars.so_far(boards[:1])
    bars(Progress("scoring", 1, 10, 0, 0.0))
    with bars:
        time.sleep(0.2)
        bars.so_far(boards)
        bars(Progress("scoring", 2, 10, 0, 0.0))
        assert two.wait(30)
    beginnings = ["scoring: 1 of 10", "length so far", "scoring: 2 of 10", "gem so far"]
    assert [line.partition(",")[0] for line in said] == beginnings


def test_a_warning_that_comes_again_is_shown_once(capsys):
    with warnings_as_messages():
        for text in ("first", "second", "first"):
            warnings.warn(text, stacklevel=1)
            warnings.filterwarnings("default", "this makes Python forget what it has shown")
    assert capsys.readouterr().err.splitlines() == ["note: first", "note: second"]


@pytest.mark.parametrize("option", ["--format=json", "--format=rich"])
def test_standard_output_on_a_full_disk_is_one_message(goldless, monkeypatch, option):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full, contextlib.suppress(OSError):
        monkeypatch.setattr(sys, "stdout", full)
        ended = goldless("list", "metrics", option)
        monkeypatch.undo()
        assert ended.code == 1
        assert ended.err.count("error: standard output: cannot write (No space left on device). Make room") == 1


def test_the_demo_scores_half_of_the_sample_and_says_what_is_next(goldless, tmp_path, monkeypatch):
    evaluate = pipeline.evaluate_study
    monkeypatch.setattr(
        pipeline, "evaluate_study", lambda study, options: evaluate(study, options.changed(metrics=("length",)))
    )
    ended = goldless("demo", "--out", tmp_path / "demo")
    assert ended.code == 0, ended.err
    assert "goldless demo --study" in ended.out
    assert (tmp_path / "demo" / "report.html").is_file()
