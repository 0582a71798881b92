"""A second process that ends a child's process group when this process ends without doing so: killed, or hung up on.

A signal such as SIGTERM ends Python before any of its code runs. The watchdog holds the reading end of a pipe whose
writing end is ours alone: however this process ends, the system closes it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

PROGRAM = """
import os, signal, sys
group = sys.stdin.buffer.read()
if group:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except OSError:
        pass
"""


class Watchdog:
    """The process that watches."""

    def __init__(self) -> None:
        """Start it, in a session of its own: what ends the processes of our terminal does not reach it."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, group: int) -> None:
        """Name the process group that is to end with us."""
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
    """A watchdog that is there before the child is, so that hardly a moment is unwatched."""
    found = Watchdog()
    try:
        yield found
    finally:
        found.end()
