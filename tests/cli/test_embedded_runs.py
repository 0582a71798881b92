"""The command line on the embedded model: ranking, a run that is killed, and a text that does not fit."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goldless.models.journal import Journal
from goldless.studies import read_study, sample_study, write_study

pytestmark = pytest.mark.embedded

TASKS = ("review-02", "question-03", "question-06")
AGENTS = ("careful", "brief", "null", "off-task")
COMPARED = (
    "leaderboard.json",
    "leaderboard.csv",
    "leaderboard.md",
    "response_scores.csv",
    "pair_scores.parquet",
    "logprobs/part-00000.parquet",
)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from goldless.cli import main; main()", *map(str, arguments)]


def part_of_the_sample(folder: Path) -> Path:
    if not folder.exists():
        write_study(read_study(sample_study()).subset(tasks=TASKS, agents=AGENTS), folder)
    return folder


@pytest.fixture
def undisturbed(embedded_file, tmp_path_factory) -> Path:
    """Results of a run that nothing happened to; computed once for all workers."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "undisturbed"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "run").exists():
            study = part_of_the_sample(root / "study")
            done = subprocess.run(
                command(
                    "score", study, "--metric", "gem-raw", "--out", root / "aside", "--journal", root / "journal.sqlite"
                ),
                capture_output=True,
                text=True,
                check=False,
                timeout=250,
            )
            assert done.returncode == 0, done.stderr
            (root / "aside").rename(root / "run")
    return root


def test_an_answer_that_is_always_the_same_and_answers_to_other_tasks_stand_at_the_bottom(undisturbed):
    read = json.loads((undisturbed / "run" / "leaderboard.json").read_text())
    order = [row["agent"] for row in read["metrics"]["gem-raw"]["rows"]]
    assert set(order[:2]) == {"careful", "brief"}
    assert set(order[2:]) == {"null", "off-task"}


def test_a_killed_run_goes_on_to_the_same_bytes_and_pays_for_nothing_twice(undisturbed, tmp_path):
    study = undisturbed / "study"
    path = tmp_path / "journal.sqlite"
    arguments = ("score", study, "--metric", "gem-raw", "--out", tmp_path / "run", "--journal", path)
    process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 250
    while calls(path) == 0:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    before = calls(path)
    assert not (tmp_path / "run" / "leaderboard.json").exists()

    again = subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=250)
    assert again.returncode == 0, again.stderr
    for name in COMPARED:
        assert (tmp_path / "run" / name).read_bytes() == (undisturbed / "run" / name).read_bytes(), name
    journal = Journal(path)
    assert journal.called_after_reply() == []
    journal.close()
    whole = calls(undisturbed / "journal.sqlite")
    assert 0 < before < whole == calls(path)
    assert f"{whole - before} calls now" in again.stderr


def calls(path: Path) -> int:
    """Replies kept so far, as another process sees them."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=10)
    try:
        return connection.execute("select count(*) from calls").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # not set up yet
    finally:
        connection.close()


def test_a_text_of_9000_tokens_is_refused_with_task_and_agent_and_can_be_skipped(
    goldless, study_file, undisturbed, tmp_path
):
    # a copy of a journal that has the canaries' report: they take longer than all the rest here
    journal = shutil.copy(undisturbed / "journal.sqlite", tmp_path)
    long = {"short": {"ann": "Yes.", "bob": "No."}, "long": {"ann": "word " * 9000, "bob": "No."}}
    refused = goldless("score", study_file(long), "--metric", "gem-raw", "--journal", journal)
    assert (refused.code, refused.out) == (2, "")
    assert "task long: ann: " in refused.err
    assert "tokens do not fit the context of 8192" in refused.err
    skipped = goldless(
        "score", study_file(long), "--metric", "gem-raw", "--journal", journal, "--on-too-long", "skip", "--json"
    )
    assert skipped.code == 0
    read = json.loads(skipped.out)
    assert read["failures"] == {"too_long": 3}
    assert [row["n"] for row in read["metrics"]["gem-raw"]["rows"]] == [1, 1]
