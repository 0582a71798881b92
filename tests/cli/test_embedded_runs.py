"""The command line on the embedded model: ranking, a run that is killed, and a text that does not fit."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from goldless.models.interface import ScoreRequest
from goldless.models.journal import Journal
from goldless.studies import read_study, sample_study, write_study
from tests.support.paid_twice import called_after_reply, counts

TASKS = ("review-02", "question-03", "question-06")
AGENTS = ("careful", "brief", "null", "off-task")
SHORT = {"cat": {"ann": "The cat sat.", "bob": "A cat sat."}, "rain": {"ann": "It rained.", "bob": "Rain fell."}}
COMPARED = (
    "leaderboard.json",
    "leaderboard.csv",
    "leaderboard.md",
    "response_scores.csv",
    "pair_scores.parquet",
    "logprobs/part-00000.parquet",
)
KILLED = """
import os, signal
from goldless.cli import main
from goldless.models.interface import ScoreRequest
from goldless.models.journal import Journal

record = Journal.record

def record_and_fall(*given):
    record(*given)
    os.kill(os.getpid(), signal.SIGKILL)

Journal.record = record_and_fall
main()
"""
"""The command, killed as soon as it has kept a first reply."""


def part_of_the_sample(folder: Path) -> Path:
    write_study(read_study(sample_study()).subset(tasks=TASKS, agents=AGENTS), folder)
    return folder


@pytest.mark.usefixtures("embedded_journal")
def test_an_answer_that_is_always_the_same_and_answers_to_other_tasks_stand_at_the_bottom(goldless, tmp_path):
    ended = goldless("score", part_of_the_sample(tmp_path / "study"), "--metric", "gem-raw", "--format", "json")
    assert ended.code == 0, ended.err
    order = [row["agent"] for row in json.loads(ended.out)["metrics"]["gem-raw"]["rows"]]
    assert set(order[:2]) == {"careful", "brief"}
    assert set(order[2:]) == {"null", "off-task"}


@pytest.mark.parametrize("embedded_journal", ["recorded"], indirect=True)
@pytest.mark.nightly
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_killed_run_goes_on_to_the_same_bytes_and_pays_for_nothing_twice(
    goldless, embedded_journal, study_file, tmp_path, size
):
    study = study_file(SHORT) if size == "small" else part_of_the_sample(tmp_path / "study")
    run, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    path, whole = (without_replies(embedded_journal, folder.with_suffix(".sqlite")) for folder in (run, undisturbed))
    arguments = ("score", study, "--metric", "gem-raw", "--out", run, "--journal", path)
    killed = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments)], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = calls(path)
    assert not (run / "leaderboard.json").exists()

    again = goldless(*arguments)
    assert again.code == 0, again.err
    goldless("score", study, "--metric", "gem-raw", "--out", undisturbed, "--journal", whole)
    for name in COMPARED:
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes(), name
    with contextlib.closing(Journal(path)) as journal:
        assert called_after_reply(journal) == []
    assert 0 < before < calls(whole) == calls(path)
    assert f"{calls(whole) - before} calls now" in again.err


def without_replies(known: Path, path: Path) -> Path:
    """A copy of a journal that has the canaries' report, which takes longer than all the rest here, and no reply."""
    shutil.copy(known, path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as copy:
        copy.execute("delete from calls")
    return path


def calls(path: Path) -> int:
    """Replies kept so far."""
    with contextlib.closing(Journal(path)) as journal:
        return counts(journal)["calls"]


@pytest.mark.parametrize("embedded_journal", ["recorded"], indirect=True)
def test_the_model_still_says_what_was_recorded_of_it(embedded, embedded_journal):
    """On another processor its sums may differ in the last digits."""
    with contextlib.closing(sqlite3.connect(embedded_journal)) as journal:
        rows = journal.execute("select request, reply from calls order by input_tokens, key limit 4").fetchall()
        bodies = dict(journal.execute("select hash, body from bodies"))
    asked = [json.loads(request) for request, _ in rows]
    requests = [ScoreRequest(tuple(json.loads(bodies[one["context"]])), tuple(one["target"])) for one in asked]
    replies = {}
    anyio.run(embedded.score, requests, replies.update)
    for i, (_, reply) in enumerate(rows):
        recorded = json.loads(reply)["logprobs"]
        assert list(replies[i].logprobs) == pytest.approx(recorded, rel=0.02, abs=0.02)
