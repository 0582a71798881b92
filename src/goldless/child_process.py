"""A program in a process group of its own, with a timeout: however it ends, everything it started ends with it.

It writes to temporary files, not pipes: nothing has to be read while it runs, and a process it left behind in another
session cannot hold up the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import anyio

from goldless.errors import PrerequisiteError, UserError

POLL_SECONDS = 0.02
ERROR_TAIL = 65_536
"""Bytes of standard error that are returned, the last ones."""
MOST_ERRORS = 256 * 2**20
"""Bytes of standard error; a program that writes more is killed."""
LARGEST_HASHED = 64 * 2**20
"""Size of the largest file that is hashed, in bytes."""


@dataclass(frozen=True)
class Finished:
    """The end of a program, and what it wrote."""

    ending: Literal["well", "badly", "timeout", "too much output"]
    how: str
    """The rest of a sentence about the program, such as "exited with status 1"."""
    output: bytes
    errors: str
    """The end of standard error."""


def program_words(command: str, error: type[UserError]) -> list[str]:
    """Split a command as a shell would and find its program; raises ``error`` where that fails. Nothing is run."""
    try:
        words = shlex.split(command)
    except ValueError as failed:
        raise error(f"command:{command}: cannot be split into words ({failed})") from failed
    if not words:
        raise error("command: needs a program. Write 'command:PROGRAM ARGUMENTS'")
    if any("\0" in word for word in words):
        raise error(f"command:{command!r}: a word of a command cannot contain NUL")
    if shutil.which(words[0]) is None:
        raise error(f"command:{command}: program {words[0]!r} not found or not executable")
    return words


def program_files(words: Iterable[str]) -> list[Path]:
    """The files among the words of a command; their names go into signatures, which are one line."""
    # Path.is_file raises on a very long word
    return [Path(word) for word in words if "\n" not in word and os.path.isfile(word)]  # noqa: PTH113


def file_hash(path: Path) -> str:
    """The version of a program's file: the first 12 digits of its SHA-256, or the size of a very large one."""
    if path.stat().st_size > LARGEST_HASHED:
        return f"{path.stat().st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


async def run_program(
    words: Sequence[str], lines: Iterable[bytes], *, timeout_seconds: float, most_output: int
) -> Finished:
    """Run the program with the lines as its standard input. OSError: it cannot be started."""
    if sys.platform == "win32":
        raise PrerequisiteError(
            "another program as a metric or a model needs process groups, which Windows does not have. Use WSL, or a "
            "python: metric"
        )
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(  # noqa: S603, ASYNC220 - the user's own command, without a shell; it starts at once
            words, stdin=subprocess.PIPE, stdout=output, stderr=errors, start_new_session=True
        )
        threading.Thread(target=_feed, args=(child.stdin, lines), daemon=True).start()

        def too_much() -> bool:
            sizes = [os.fstat(file.fileno()).st_size for file in (output, errors)]
            return sizes[0] > most_output or sizes[1] > MOST_ERRORS

        try:
            with anyio.move_on_after(timeout_seconds):
                while child.poll() is None and not too_much():  # noqa: ASYNC110 - another process ends
                    await anyio.sleep(POLL_SECONDS)
        finally:  # also where this task is cancelled
            status = child.poll()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - ERROR_TAIL))
        said = output.read(most_output), errors.read().decode("utf-8", "replace")
        if too_much():
            return Finished("too much output", f"was killed for its output; the limit is {most_output:,} bytes", *said)
        if status is None:
            return Finished("timeout", f"was killed at its time limit of {timeout_seconds:g} s", *said)
        how = f"was ended by signal {-status}" if status < 0 else f"exited with status {status}"
        return Finished("well" if status == 0 else "badly", how, *said)


def _feed(pipe: IO[bytes], lines: Iterable[bytes]) -> None:
    with contextlib.suppress(OSError), pipe:  # a program need not read all of its input
        for line in lines:
            pipe.write(line)
