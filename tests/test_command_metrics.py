"""A program as a metric: real child processes, well-behaved and not."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from goldless import user_metrics
from goldless.errors import MetricError
from goldless.records import Task, TextItem
from goldless.user_metrics import find_user_metric

pytestmark = pytest.mark.slow

READ = "import json, sys\nrows = [json.loads(line) for line in sys.stdin]\n"
START = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
open({!r}, 'w').write(f'{{os.getpid()}} {{grandchild.pid}}.')
"""
"""Writes who it is and whom it started, and then a full stop."""


def items(*texts: str) -> list[TextItem]:
    texts = texts or ("one", "one two", "one two three")
    return [TextItem(Task(f"t{n}", f"question {n}"), "ann", text, {"bob": "peer"}) for n, text in enumerate(texts)]


@pytest.fixture
def metric(tmp_path: Path):
    """Makes a metric of a Python program's text."""

    def make(program: str, *, timeout_seconds: float | None = None, arguments: str = ""):
        path = tmp_path / "score.py"
        path.write_text(program, encoding="utf-8")
        command = f"command:{shlex.join([sys.executable, str(path)])} {arguments}"
        return find_user_metric(command, timeout_seconds=timeout_seconds)

    return make


def values(metric, given: list[TextItem]) -> list[float | None]:
    return [score.score for score in anyio.run(metric.scores, given)]


def message(metric, given: list[TextItem] | None = None) -> str:
    with pytest.raises(MetricError) as caught:
        anyio.run(metric.scores, given or items())
    return str(caught.value)


def until_gone(process: int) -> bool:
    """Whether the process ends within a minute; one that nobody has waited for yet counts as ended."""
    for _ in range(1200):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{process}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def processes(file: Path) -> list[int]:
    return [int(process) for process in file.read_text().rstrip(".").split()]


def written(file: Path) -> bool:
    return file.exists() and file.read_text().endswith(".")


# --- what a program may write ---------------------------------------------------------------------------------------


def test_the_program_is_given_everything_the_study_knows_of_a_response(metric, tmp_path):
    task = Task("t", "what?", reference="gold", synopses={"abstract": "short"})
    program = READ + "print(json.dumps({'score': float(rows == [%r])}))" % (  # noqa: UP031 - the program has braces
        {
            "id": 0,
            "response": "said",
            "prompt": "what?",
            "task": "t",
            "agent": "ann",
            "references": ["x", "y"],
            "reference": "gold",
            "synopses": {"abstract": "short"},
        },
    )
    assert values(metric(program), [TextItem(task, "ann", "said", {"bob": "x", "cy": "y"})]) == [1.0]


def test_texts_arrive_as_they_are_whatever_is_in_them(metric):
    texts = ["naïve 😀", "a\0b", "line\nbreak\u2028here\x85", 'quote " back \\', "half \ud83d", ""]
    program = READ + f"for row, text in zip(rows, {texts!r}): print(int(row['response'] == text))"
    assert values(metric(program), items(*texts)) == [1.0] * 6


# --- much data ------------------------------------------------------------------------------------------------------


def test_megabytes_of_input_and_output_at_once_do_not_block_each_other(metric):
    # It answers each line before it reads the next, with padding, so that both pipes are full unless both are served.
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'score': json.loads(line)['id'], 'why': 'x' * 20000}))\n"
    )
    given = items(*["word " * 4000] * 300)
    assert values(metric(program), given) == [float(n) for n in range(300)]


def test_output_is_limited_for_each_response_and_for_all_together(metric, monkeypatch):
    monkeypatch.setattr(user_metrics, "OUTPUT_PER_ITEM", 100)
    flood = metric("while True: print('1' * 1000)")
    assert "the limit is 1,600 bytes" in message(flood)  # at least 16 responses
    assert "the limit is 2,000 bytes" in message(flood, items(*["x"] * 20))
    monkeypatch.setattr(user_metrics, "MOST_OUTPUT", 1_800)
    assert "the limit is 1,800 bytes" in message(flood, items(*["x"] * 20))


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_program_that_dies_half_way_is_an_error_with_its_last_lines_and_the_number_of_good_scores(metric):
    program = READ + "print(1, flush=True); print(2, flush=True); sys.exit('the disk is full')"
    said = message(metric(program))
    assert "exited with status 1; 2 of 3 scores are valid" in said
    assert "2 lines for 3 items" in said
    assert "the disk is full" in said


def test_every_bad_line_is_named_at_once(metric):
    program = READ + "print('nan'); print('Score: 5'); print('{\"score\": Infinity}')"
    said = message(metric(program))
    assert "line 1: wrote nan; a score must be a finite number" in said
    assert "line 2: 'Score: 5' is not a number" in said
    assert "line 3: wrote inf; a score must be a finite number, or null if there is none" in said
    assert "0 of 3 scores are valid" in said


def test_a_program_that_hangs_is_killed_with_what_it_started_and_its_last_lines_shown(metric, tmp_path):
    program = START.format(str(tmp_path / "pids")) + (
        "print(0.5, flush=True)\nprint('loading the model', file=sys.stderr, flush=True)\ntime.sleep(600)\n"
    )
    said = message(metric(program, timeout_seconds=5))  # by then even a busy machine has begun
    assert "killed at its time limit of 5 s; 1 of 3 scores are valid" in said
    assert "    0.5" in said
    assert "    loading the model" in said
    assert all(map(until_gone, processes(tmp_path / "pids")))


def test_a_grandchild_that_holds_the_pipes_does_not_delay_the_scores_and_does_not_survive(metric, tmp_path):
    program = READ + START.format(str(tmp_path / "pids")) + "print('1\\n2\\n3')\n"
    assert values(metric(program, timeout_seconds=120), items()) == [1.0, 2.0, 3.0]
    assert all(map(until_gone, processes(tmp_path / "pids")))


def test_cancelling_leaves_neither_the_program_nor_what_it_started(metric, tmp_path):
    file = tmp_path / "pids"
    waiting = metric(START.format(str(file)) + "time.sleep(600)\n")

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiting.scores, items())
            while not written(file):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()

    anyio.run(cancelled)
    program, grandchild = processes(file)
    with pytest.raises(ProcessLookupError):  # gone before it goes on
        os.kill(program, 0)
    assert until_gone(grandchild)


@pytest.mark.parametrize(
    "sent",
    [signal.SIGTERM, *(pytest.param(other, marks=pytest.mark.nightly) for other in (signal.SIGINT, signal.SIGHUP))],
)
def test_a_signal_that_ends_goldless_ends_the_program_and_what_it_started(tmp_path, sent):
    file, program = tmp_path / "pids", tmp_path / "wait.py"
    program.write_text(START.format(str(file)) + "time.sleep(600)\n")
    command = [sys.executable, "-m", "goldless", "score", "sample", "--metric"]
    command.append(f"command:{shlex.join([sys.executable, str(program)])}")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        while not written(file):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(sent)
        assert running.wait(timeout=60) == 128 + sent
    assert all(map(until_gone, processes(file)))


# --- how it is named ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("command:", "is incomplete. Write command:WORDS"),
        ("command:no-such-program-anywhere 1", "program 'no-such-program-anywhere' not found"),
        ("command:python 'open", "cannot be split into words"),
        ("command:''", "program '' not found"),
        ("command:python 'a\0b'", "cannot contain NUL"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_when_it_is_named(name, said):
    with pytest.raises(MetricError, match=said):
        find_user_metric(name)


def test_words_are_not_given_to_a_shell(metric, tmp_path):
    program = (
        "import sys\nsys.stdin.read()\nprint(float(sys.argv[1:] == ['$HOME', ';', 'a b', '`id`', '>', sys.argv[6]]))"
    )
    arguments = f"$HOME ';' 'a b' '`id`' > {shlex.quote(str(tmp_path / 'made'))}"
    assert values(metric(program, arguments=arguments), items("x")) == [1.0]
    assert not (tmp_path / "made").exists()


def test_the_settings_tell_two_versions_of_a_script_apart(metric):
    one, two = metric("print(1)").settings, metric("print(2)").settings
    assert one["command"] == two["command"]
    assert one["files"].split(",")[-1].startswith("score.py=")
    assert one["files"] != two["files"]
