"""Runs that the studio started: each a child process with the command line's own ``goldless score``.

Their commands are kept in goldless's own folder, by the folder of the runs: a folder of runs may come from elsewhere,
and must not bring commands to run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from goldless.errors import UserError
from goldless.files import write_text
from goldless.models.cache import default_journal
from goldless.runs.progress import PROGRESS_FILE

ENDING_SECONDS = 10.0
LOG_BYTES = 20_000
_NAME = re.compile(r"\w[\w .+-]{0,79}")
_CODE = re.compile(r"(?:^|[=,])(?:command|python|promptfoo|deepeval|inspect):")


def checked_run_name(given: str) -> str:
    """The name of a run, which is its folder's."""
    name = given.strip()
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise UserError(
            f"a run's name must have up to 80 letters, digits, spaces and . _ + -, and start with a letter or digit, "
            f"got {given[:100]!r}"
        )
    return name


def refuse_code(words: Iterable[str]) -> None:
    """Raise if a word names a metric or a model that runs code: a page starts none."""
    if code := [word for word in words if _CODE.search(word)]:
        raise UserError(f"a metric or model that runs code cannot be chosen on a page, got {code[0]!r}")


class Children:
    """Starts, stops and continues runs; their commands are kept, so that they can go on after a restart."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        key = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:16]
        self.folder = default_journal().parent / "studio" / key
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starting = threading.Lock()

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start ``goldless ARGUMENTS --out RUN``, or the same again."""
        refuse_code(arguments)
        with self._starting:  # a second click waits, and is then told
            if self.running(name):
                raise UserError(f"{name} is running already")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / f"{name}.json", json.dumps({"arguments": list(arguments)}))
            run = self._root / name
            run.mkdir(exist_ok=True)
            begun = {"state": "running", "updated_at": time.time()}
            write_text(run / PROGRESS_FILE, json.dumps(begun))  # its page is there before the child is
            # -P: no file in the folder where the studio was started may hide a module that goldless imports
            command = [sys.executable, "-P", "-m", "goldless", *arguments, "--out", str(run)]
            # a session of its own: Ctrl-C in the studio's terminal ends the studio, which then stops its runs in good
            # order
            with (self.folder / f"{name}.log").open("wb") as log:
                self._processes[name] = subprocess.Popen(  # noqa: S603 - the interpreter, and words that were checked
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
                )

    def go_on(self, name: str) -> None:
        """Start a run again with its own command: what is in the journal is neither computed nor paid for again."""
        arguments = self.command(name)
        if arguments is None:
            raise UserError(f"{name} was not started here. Run its command again where you started it")
        self.start(name, arguments)

    def stop(self, name: str) -> None:
        """End a run in good order, and at once if told again; one that has just ended is left as it is."""
        if name not in self._processes:
            raise UserError(f"{name} is not running here")
        if self.running(name):
            self._processes[name].send_signal(signal.SIGTERM)

    def running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def ended(self, name: str) -> bool:
        return name in self._processes and not self.running(name)

    def command(self, name: str) -> list[str] | None:
        """The arguments it was started with; None: it was not started here."""
        try:
            return [str(word) for word in json.loads((self.folder / f"{name}.json").read_bytes())["arguments"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self, name: str) -> None:
        """Remove the command and the log of a run that was deleted."""
        for suffix in (".json", ".log"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def said(self, name: str) -> str:
        try:
            with (self.folder / f"{name}.log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def end_all(self) -> None:
        """Stop all, and wait for them."""
        left = [process for process in self._processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        for process in left:
            try:
                process.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
