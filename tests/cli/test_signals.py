"""The first signal ends a command in good order, every further one at once, whatever the main thread does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from goldless.files import PROGRESS_FILE
from goldless.runs.progress import ProgressFile

KEPT = "finished work is kept, and the same command resumes from there"
SECONDS = 60
"""How long a process may take to react; none that waits for a signal ends by itself before."""
STUBBORN = """
    import time
    from goldless.cli.console import Signals, before_ending
    with Signals():
        before_ending(lambda: print("last word", flush=True))
        said = "ready"
        while True:
            try:
                print(said, flush=True)
                for _ in range(2400):  # a signal just before a long sleep would not be seen
                    time.sleep(0.05)
                said = "awake"
            except KeyboardInterrupt:
                said = "ignored"
"""
ORDERLY = """
    import anyio, sys
    from goldless.cli.console import Signals, run_async

    async def work():
        try:
            print("ready", flush=True)
            await anyio.sleep(600)
        finally:
            print("cleaned up", flush=True)

    with Signals() as signals:
        try:
            run_async(work)
        except KeyboardInterrupt:
            signals.tell(lambda said: print(said, file=sys.stderr))
    sys.exit(signals.code)
"""
LEFT_ALONE = """
    import os
    from goldless.cli.console import Signals
    signal.signal(signal.{ignored}, signal.SIG_IGN)
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Signals():
        os.kill(os.getpid(), signal.{ignored})
        assert signal.getsignal(signal.{ignored}) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert before == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    print("ready", flush=True)
"""
ENDLESS = """
    import sys, threading, time
    from goldless.cli.console import Signals
    with Signals() as signals:
        threading.Thread(target=threading.Event().wait).start()
        try:
            print("ready", flush=True)
            for _ in range(2400):  # a signal just before a long sleep would not be seen
                time.sleep(0.05)
        except KeyboardInterrupt:
            pass
    print("ending", flush=True)
    sys.exit(signals.code)
"""

BUSY = """
    import sys
    from goldless.cli import console

    async def blocking():
        print("ready", flush=True)
        try:
            open({pipe!r}).read()
        finally:
            print("ended in good order", flush=True)

    console.BUSY_SECONDS = 0.2
    with console.Signals() as signals:
        console.run_async(blocking)
"""
COMMAND = """
    import sys
    from goldless.cli import console
    from goldless.cli.main import main

    console.BUSY_SECONDS = 0.2
    sys.argv = ["goldless", *{words!r}]
    print("ready", flush=True)
    main()
"""

IN_A_CALLBACK = """
    import os, weakref
    from goldless.cli.console import Signals

    class Watched: pass

    with Signals():
        watched = Watched()
        seen = weakref.ref(watched, lambda _: os.kill(os.getpid(), signal.SIGINT))
        print("ready", flush=True)
        del watched
        print("went on", flush=True)
"""


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the script and has said that it is ready; it does not outlive the test."""
    command = [sys.executable, "-c", "import signal\n" + textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_second_ctrl_c_ends_a_process_that_does_not_react_to_the_first():
    with started(STUBBORN) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ignored\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "last word" in out
    assert err == f"interrupted; {KEPT}\n"


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, f"interrupted; {KEPT}\n"),
        (signal.SIGTERM, 143, f"ended by SIGTERM; {KEPT}\n"),
        (signal.SIGHUP, 129, f"ended by SIGHUP; {KEPT}\n"),
    ],
)
def test_one_signal_lets_tasks_clean_up_and_has_its_own_exit_code(number, code, said):
    with started(ORDERLY) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (code, "cleaned up\n", said)


def test_a_signal_that_does_not_wake_the_main_thread_wakes_its_tasks():
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"
    with started(ORDERLY.replace("try:", f"{block}\n        try:", 1)) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (130, "cleaned up\n", f"interrupted; {KEPT}\n")


def test_a_signal_in_a_callback_that_cannot_raise_ends_the_process_without_a_traceback():
    with started(IN_A_CALLBACK) as process:
        assert process.communicate(timeout=SECONDS) == ("", f"interrupted; {KEPT}\n")
    assert process.returncode == 130


@pytest.mark.parametrize("ignored", ["SIGINT", "SIGHUP"])
def test_an_ignored_signal_stays_ignored_and_afterwards_all_is_as_before(ignored):
    with started(LEFT_ALONE.format(ignored=ignored)) as process:
        assert process.communicate(timeout=SECONDS) == ("", "")
    assert process.returncode == 0


def test_neither_a_thread_that_does_not_end_nor_a_late_second_signal_spoils_the_ending():
    with started(ENDLESS) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=SECONDS) == ("", "")
    assert process.returncode == 143


def test_a_signal_just_as_a_run_begins_leaves_it_interrupted(goldless, study_file, tmp_path, monkeypatch):
    begin = ProgressFile.__enter__

    def interrupted(self):
        begin(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressFile, "__enter__", interrupted)
    study = study_file({"t": {"ann": "a b", "bob": "c"}})
    assert goldless("score", study, "--metric", "length", "--out", tmp_path / "run").code == 130
    assert json.loads((tmp_path / "run" / PROGRESS_FILE).read_text())["state"] == "interrupted"


def test_a_signal_ends_a_process_whose_task_waits_in_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with started(BUSY.format(pipe=str(pipe))) as process:
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=SECONDS) == ("", f"ended by SIGTERM; {KEPT}\n")
    assert process.returncode == 143
