"""The first signal ends a command in good order, every further one at once, whatever the main thread does."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

KEPT = "finished work is kept, and the same command resumes from there"
STUBBORN = """
    import time
    from goldless.cli.signals import Signals, before_ending
    with Signals():
        before_ending(lambda: print("last word", flush=True))
        print("ready", flush=True)
        while True:
            try:
                time.sleep(60)
                print("awake", flush=True)
            except KeyboardInterrupt:
                print("ignored", flush=True)
"""
ORDERLY = """
    import anyio, sys
    from goldless.cli.signals import Signals, run_async

    async def work():
        print("ready", flush=True)
        try:
            await anyio.sleep(60)
        finally:
            print("cleaned up", flush=True)

    with Signals() as signals:
        try:
            run_async(work)
        except KeyboardInterrupt:
            print(signals.message(), file=sys.stderr)
    sys.exit(signals.code)
"""
LEFT_ALONE = """
    import signal
    from goldless.cli.signals import Signals
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert before == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    print("ready", flush=True)
"""


ENDLESS = """
    import sys, threading, time
    from goldless.cli.signals import Signals
    with Signals() as signals:
        threading.Thread(target=time.sleep, args=(60,)).start()
        print("ready", flush=True)
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
    print("ending", flush=True)
    sys.exit(signals.code)
"""


def started(script: str) -> subprocess.Popen[str]:
    """A process that runs the script and has said that it is ready."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_second_ctrl_c_ends_a_process_that_does_not_react_to_the_first():
    process = started(STUBBORN)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ignored\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
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
    process = started(ORDERLY)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "cleaned up\n", said)


def test_an_ignored_signal_stays_ignored_and_afterwards_all_is_as_before():
    process = started(LEFT_ALONE)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_neither_a_thread_that_does_not_end_nor_a_late_second_signal_spoils_the_ending():
    process = started(ENDLESS)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=50) == ("", "")
    assert process.returncode == 143
