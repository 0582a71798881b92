"""Commands as processes that can be killed, forked from one that has imported everything: each begins at once."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

GOLDLESS = ("cli.main", "cli.score", "metrics.catalogue", "models.http_api.model", "reports.html.page", "runs.store")
NEEDED = [*(f"goldless.{name}" for name in GOLDLESS), "rich.progress"]
"""What the commands import, some of it when it is first used."""


@dataclass(slots=True)
class Started:
    """A command that was started, with a folder for what it prints."""

    process: ForkServerProcess
    folder: Path

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ends within these seconds; if not, it is killed."""
        self.process.join(seconds)
        if self.ended:
            return True
        self.process.kill()
        self.process.join(60)
        return False

    @property
    def ended(self) -> bool:
        return self.process.exitcode is not None

    @property
    def code(self) -> int | None:
        """Exit code; negative: the signal that ended it."""
        return self.process.exitcode

    @property
    def err(self) -> str:
        """What it said on standard error."""
        return (self.folder / "err").read_text(errors="replace")

    @property
    def broke(self) -> bool:
        """Whether a user would have seen a traceback."""
        return "Traceback (most recent call last)" in (self.folder / "out").read_text(errors="replace") + self.err


@functools.cache
def _server() -> ForkServerContext:
    """The one of this process: importing takes longer than most commands."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(NEEDED)
    return context


def start(place: Path, *arguments: object, stdout: str = "", **environment: str) -> Started:
    """Start a command that prints into a new folder at a place, or to ``stdout``."""
    folder = place / f"command-{sum(1 for _ in place.glob('command-*'))}"
    folder.mkdir()
    for name in ("out", "err"):  # a command may be killed before it opens them
        (folder / name).touch()
    given = (list(map(str, arguments)), environment, stdout or str(folder / "out"), str(folder / "err"))
    process = _server().Process(target=_command, args=given)
    process.start()
    return Started(process, folder)


def _command(arguments: Sequence[str], environment: dict[str, str], out: str, err: str) -> None:
    """The command as a shell starts it, whatever was ignored when the trial began, as under ``nohup``."""
    from goldless.cli.main import main  # noqa: PLC0415 - imported before, in the parent

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for number, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY), number)
    os.environ.update(environment)
    sys.argv = ["goldless", *arguments]
    main()
