"""Commands as processes that can be killed: forked from one that has imported everything, so that each begins at once.

As a script it is that process: for every JSON line with ``arguments``, ``environment`` and ``folder`` it forks a child
that runs the command with its output in that folder, prints the child's id, and afterwards how it ended.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

GOLDLESS = ("cli.score", "metrics.catalogue", "models.http_api.model", "reports.html.page", "runs.store")
NEEDED = (*(f"goldless.{name}" for name in GOLDLESS), "evalica", "pandas", "rich.progress")
"""What the commands import, some of it when it is first used."""


@dataclass(slots=True)
class Started:
    """A command that was started."""

    pid: int
    folder: Path
    ended: threading.Event = field(default_factory=threading.Event)
    code: int | None = None
    """Exit code; negative: the signal that ended it."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ends within these seconds; if not, it is killed."""
        if self.ended.wait(seconds):
            return True
        self.send(signal.SIGKILL)
        self.ended.wait(60)
        return False

    @property
    def err(self) -> str:
        """What it said on standard error."""
        return (self.folder / "err").read_text(errors="replace")

    @property
    def out(self) -> str:
        """What it printed."""
        return (self.folder / "out").read_text(errors="replace")

    @property
    def broke(self) -> bool:
        """Whether a user would have seen a traceback."""
        return "Traceback (most recent call last)" in self.out + self.err


class Warm:
    """Starts commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._running: dict[int, Started] = {}
        self._new = threading.Semaphore(0)
        self._last = 0
        self._count = 0
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def start(self, place: Path, *arguments: object, stdout: str = "", **environment: str) -> Started:
        """Start a command that prints into a new folder at a place, or to ``stdout``."""
        assert self._process.stdin is not None
        self._count += 1
        folder = place / f"command-{self._count}"
        folder.mkdir()
        for name in ("out", "err"):  # a command may be killed before it opens them
            (folder / name).touch()
        asked = {"arguments": list(map(str, arguments)), "environment": environment, "folder": str(folder)}
        self._process.stdin.write(json.dumps({**asked, "stdout": stdout}) + "\n")
        self._process.stdin.flush()
        if not self._new.acquire(timeout=300):
            raise RuntimeError("no process can be started")
        started = self._running[self._last]
        started.folder = folder
        return started

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            pid, code = json.loads(line)
            if code is None:
                self._running[pid] = Started(pid, Path())
                self._last = pid
                self._new.release()
            else:
                self._running[pid].code = code
                self._running[pid].ended.set()

    def end(self) -> None:
        """End the process that starts them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._listening.join(60)
        self._process.stdout.close()


@functools.cache
def warm() -> Warm:
    """The one of this process: importing takes longer than most commands."""
    command = [sys.executable, __file__]
    started = Warm(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    atexit.register(started.end)
    return started


def _child(arguments: Sequence[str], environment: dict[str, str], folder: str, stdout: str) -> None:
    from goldless.cli.main import main  # noqa: PLC0415 - imported before, in the parent

    for number, name in ((1, stdout or f"{folder}/out"), (2, f"{folder}/err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), number)
    Path(folder, "out").touch()
    os.environ.update(environment)
    sys.argv = ["goldless", *arguments]
    main()


def _as_started_by_a_shell() -> None:
    """Leave signals as Python finds them there, whatever was ignored when the tests began, as under ``nohup``."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _serve() -> None:
    for name in NEEDED:
        importlib.import_module(name)
    gc.freeze()  # children share what is there
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: set[int] = set()

    def reap() -> None:
        for pid in tuple(children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                children.discard(pid)
                sys.stdout.write(f"{json.dumps([pid, os.waitstatus_to_exitcode(status)])}\n")
                sys.stdout.flush()

    os.set_blocking(0, False)
    waiting = b""
    while True:
        reap()
        try:
            read = os.read(0, 65536)
        except BlockingIOError:
            time.sleep(0.005)
            continue
        if not read:
            return
        *lines, waiting = (waiting + read).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _as_started_by_a_shell()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                _child(**asked)
                return
            children.add(pid)
            sys.stdout.write(f"{json.dumps([pid, None])}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _serve()
