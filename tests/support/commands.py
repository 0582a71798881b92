"""The command line in this process, for trials that run thousands of commands."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from goldless.cli.console import err as console_err
from goldless.cli.console import out as console_out
from goldless.cli.main import main

KNOWN_CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 129, 130, 143}
"""Exit codes that the documentation explains."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int | None
    """None: it raised."""
    out: str
    err: str

    @property
    def broke(self) -> bool:
        """Whether a user would have seen a traceback, or a code that nobody explains."""
        return self.code not in KNOWN_CODES or "Traceback (most recent call last)" in self.out + self.err


def home(folder: Path) -> AbstractContextManager[object]:
    """During the block, journal and caches lie in this folder."""
    return mock.patch.dict(os.environ, GOLDLESS_HOME=str(folder))


def goldless(*arguments: object) -> Ran:
    """Run a command as ``goldless ARGUMENTS`` does; whatever it raises is what a user would see as a traceback."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = exit_code(*arguments)
        except BaseException:  # noqa: BLE001 - it is the very thing that is looked for
            err.write(traceback.format_exc())
    return Ran(code, out.getvalue(), err.getvalue())


def exit_code(*arguments: object) -> int:
    """Run a command as ``goldless ARGUMENTS`` does, on consoles as wide as the terminal is now."""
    _new_consoles()
    try:
        with mock.patch.object(sys, "argv", ["goldless", *map(str, arguments)]):
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        _new_consoles()
    return 0


def _new_consoles() -> None:
    for console in (console_out, console_err):
        console.cache_clear()
