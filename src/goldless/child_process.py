"""A child process with streamed input and output and a time limit, which leaves nothing behind.

It has its own process group, which is killed as a whole when the time is up, on a request to stop, when the process
has ended, and when this process ends by any signal: what it started does not outlive it, unless that has created
another session or group. A signal such as SIGTERM ends Python before any of its code runs, so a second process, the
watchdog, ends the group then: it has the reading end of a pipe whose writing end is ours alone, and however this
process ends, the system closes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from goldless.errors import PrerequisiteError

WATCHDOG = """
import os, signal, sys
group = sys.stdin.buffer.read()
if group:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except OSError:
        pass
"""

PIECE = 65_536
TAIL = 65_536
"""Bytes of standard error kept, the last ones."""
TICK_SECONDS = 0.05
GRACE_SECONDS = 1.0
"""How long the pipes of a process that has ended may stay silent while something it started keeps them open."""

LARGEST_HASHED = 64 * 2**20
"""Size of the largest file that is hashed, in bytes."""

Ending = Literal["exited", "timed out", "too much output", "stopped"]


@dataclass(frozen=True, slots=True)
class Finished:
    """How the process ended and its output."""

    ending: Ending
    status: int
    """Exit status; negative: the signal that ended it."""
    output: bytes
    """Standard output received."""
    error_tail: bytes
    """The end of standard error."""


def file_hash(path: Path) -> str:
    """Which version of a program's file this is: the first 12 digits of its SHA-256; of a very large one, its size."""
    if path.stat().st_size > LARGEST_HASHED:
        return f"{path.stat().st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def run_child(
    words: Sequence[str],
    lines: Iterable[bytes],
    *,
    timeout_seconds: float,
    most_output: int,
    stop: threading.Event,
) -> Finished:
    """Run the command on the lines; stops early if ``stop`` is set or the output exceeds ``most_output`` bytes."""
    if sys.platform == "win32":
        raise PrerequisiteError(
            "another program as a metric or a model needs process groups, which Windows does not have. Use WSL, or a "
            "python: metric with --in-process"
        )
    with watchdog() as watching:
        child = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        watching.watch(child.pid)
        talk = _Talk(child, iter(lines))
        try:
            ending = talk.until_over(time.monotonic() + timeout_seconds, most_output, stop)
        finally:
            _kill_group(child)
            talk.close()
    return Finished(ending, child.returncode, b"".join(talk.output), bytes(b"".join(talk.errors)[-TAIL:]))


async def await_child(
    words: Sequence[str], lines: Iterable[bytes], *, timeout_seconds: float, most_output: int
) -> Finished | OSError:
    """Run the command in a thread; OSError: it cannot be started. A cancelled task ends the child first."""
    stop = threading.Event()
    run = partial(run_child, words, lines, timeout_seconds=timeout_seconds, most_output=most_output, stop=stop)
    # A thread cannot be cancelled, so it is told to stop, and has killed the child before the cancelling goes on.
    finished: Finished | OSError
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_when_cancelled, stop)
        try:
            finished = await anyio.to_thread.run_sync(run)
        except OSError as error:
            finished = error
        finally:
            tasks.cancel_scope.cancel()
    if not isinstance(finished, OSError) and finished.ending == "stopped":
        await anyio.lowlevel.checkpoint()  # the cancelling waited for the thread and goes on here
    return finished


async def _set_when_cancelled(event: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        event.set()


def how_it_ended(finished: Finished, what: str, timeout_seconds: float, most_output: int, limit_for: str = "") -> str:
    """A clause for messages: how ``what`` ended."""
    if finished.ending == "exited" and finished.status < 0:
        return f"{what} was ended by signal {-finished.status}"
    return {
        "exited": f"{what} exited with status {finished.status}",
        "timed out": f"{what} was killed at its time limit of {timeout_seconds:g} s",
        "too much output": (
            f"{what} was killed after {len(finished.output):,} bytes of output; the limit is {most_output:,}{limit_for}"
        ),
        "stopped": f"{what} was stopped",
    }[finished.ending]


class _Talk:
    """The three pipes of a child, served as they become ready."""

    def __init__(self, child: subprocess.Popen[bytes], lines: Iterator[bytes]) -> None:
        self._child = child
        self._lines = lines
        self._unsent = bytearray()
        self._selector = selectors.DefaultSelector()
        self.output: list[bytes] = []
        self.errors: deque[bytes] = deque()
        self._sizes = {"output": 0, "errors": 0}
        pipes = (("input", child.stdin), ("output", child.stdout), ("errors", child.stderr))
        for name, pipe in pipes:
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_WRITE if name == "input" else selectors.EVENT_READ, name)

    def until_over(self, deadline: float, most_output: int, stop: threading.Event) -> Ending:
        """Serve the pipes until the child has ended and all its output is read."""
        heard = time.monotonic()
        while True:
            ready = self._selector.select(TICK_SECONDS) if self._reading or self._writing else []
            for key, _ in ready:
                self._serve(key)
            now = time.monotonic()
            heard = now if ready else heard
            if self._child.poll() is not None and (not self._reading or now - heard > GRACE_SECONDS):
                return "exited"
            if stop.is_set():
                return "stopped"
            if self._sizes["output"] > most_output:
                return "too much output"
            if now > deadline:
                return "timed out"
            if not (self._reading or self._writing):
                time.sleep(TICK_SECONDS)

    @property
    def _reading(self) -> bool:
        return any(key.data != "input" for key in self._selector.get_map().values())

    @property
    def _writing(self) -> bool:
        return any(key.data == "input" for key in self._selector.get_map().values())

    def _serve(self, key: selectors.SelectorKey) -> None:
        pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
        if key.data == "input":
            self._feed(pipe)
            return
        piece = os.read(key.fd, PIECE)
        if not piece:
            self._close(pipe)
            return
        self._sizes[key.data] += len(piece)
        getattr(self, key.data).append(piece)
        # the first pieces of a long standard error are let go
        while self._sizes["errors"] - len(self.errors[0] if self.errors else b"") > TAIL:
            self._sizes["errors"] -= len(self.errors.popleft())

    def _feed(self, pipe: IO[bytes]) -> None:
        while len(self._unsent) < PIECE and (line := next(self._lines, None)) is not None:
            self._unsent += line
        if not self._unsent:
            self._close(pipe)
            return
        try:
            del self._unsent[: os.write(pipe.fileno(), self._unsent[:PIECE])]
        except BlockingIOError:
            return
        except OSError:  # it reads no further, which is its own affair: what it says is counted
            self._close(pipe)

    def _close(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        with contextlib.suppress(OSError):
            pipe.close()

    def close(self) -> None:
        """Close what is still open."""
        for key in list(self._selector.get_map().values()):
            self._close(key.fileobj)  # type: ignore[arg-type]
        self._selector.close()


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class Watchdog:
    """A process that ends a child's process group if this process ends without doing so: killed, or disconnected."""

    def __init__(self) -> None:
        """Start it in a new session, so that what ends the processes of our terminal does not reach it."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", WATCHDOG],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, group: int) -> None:
        """Set the process group to end with this process."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # somebody killed it
            self._process.stdin.write(str(group).encode())

    def end(self) -> None:
        """End the watching; the group is left as it is."""
        self._process.kill()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def watchdog() -> Iterator[Watchdog]:
    """Start a watchdog before the child, so that the child is hardly ever unwatched."""
    found = Watchdog()
    try:
        yield found
    finally:
        found.end()
