"""A command against a server that counts by content what it answers, as processes that share one journal."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.torture.server_faults import COMMANDS, MARKER, STUDY, FaultyServer
from tests.torture.warm import Started, start

RESULTS = {"review": ("review.json", "review.md"), "score": ("leaderboard.json", "response_scores.csv")}
LONGEST_SECONDS = 120.0
"""A process that has not ended by then hangs."""


@dataclass(slots=True)
class Trial:
    """A command, its server, and the journal that all its processes share."""

    verb: str
    server: FaultyServer
    folder: Path

    def start(self, out: str = "out", *more: object, stdout: str = "", home: str = "home") -> Started:
        """Start the command; its results go to a folder of that name."""
        places = {"study": self.folder / "study.jsonl", "model": f"{self.server.url}#toy?patience=1"}
        arguments = [argument.format(**places) for argument in COMMANDS[self.verb].arguments]
        folder = (*more, "--out", self.folder / out) if out else more
        environment = {"GOLDLESS_HOME": str(self.folder / home), "COLUMNS": "80"}
        arguments += ["--resamples", "100"]
        return start(self.folder, *arguments, *folder, stdout=stdout, **environment)

    def results(self, out: str = "out") -> dict[str, str]:
        """What the results say, without when and by whom they were paid."""
        found = {name: self.folder / out / name for name in RESULTS[self.verb]}
        return {name: path.read_text() for name, path in found.items() if path.exists()}

    def leftovers(self, out: str = "out") -> list[str]:
        """Hidden files in the results."""
        return sorted(path.name for path in (self.folder / out).rglob(".*"))

    def state(self, out: str = "out") -> str:
        """How the run in a folder ended, as it says itself."""
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads((self.folder / out / "progress.json").read_text())["state"])
        return ""

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.folder / "home" / "journal.sqlite"

    def quiet(self) -> None:
        """Wait until the server has answered what it was asked."""
        until = time.monotonic() + LONGEST_SECONDS
        while self.server._at_once and time.monotonic() < until:
            time.sleep(0.005)

    def busy(self, calls: int, process: Started) -> None:
        """Wait until so many calls of the study were answered, or the process has ended."""
        until = time.monotonic() + LONGEST_SECONDS
        while self.server.well.total() < calls and not process.ended and time.monotonic() < until:
            time.sleep(0.002)

    def stored(self) -> int:
        """Replies of the study in the journal."""
        if not self.journal.exists():
            return 0
        with contextlib.closing(sqlite3.connect(self.journal, timeout=60)) as journal:
            try:
                return int(journal.execute("select count(*) from calls").fetchone()[0])
            except sqlite3.OperationalError:  # killed before the tables were made
                return 0

    def called_after_reply(self) -> int:
        """Calls that were made although their reply was stored, as the journal itself shows."""
        query = "select count(*) from attempts join calls using (key) where attempts.started_at > calls.created_at"
        with contextlib.closing(sqlite3.connect(self.journal, timeout=60)) as journal:
            return int(journal.execute(query).fetchone()[0])


@contextlib.contextmanager
def counted(verb: str, seed: int, *, delay_seconds: float = 0.02, copies: int = 4) -> Iterator[Trial]:
    """A trial with a study of so many times nine responses."""
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        folder = Path(name)
        rows = [
            {**row, "task": f"{row['task']} {copy}", "text": f"{row['text']} {copy}"}
            for copy in range(copies)
            for row in STUDY
        ]
        (folder / "study.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        with FaultyServer(COMMANDS[verb], MARKER, seed) as server:
            server.behaviour.delay_seconds = delay_seconds
            yield Trial(verb, server, folder)


def reference(trial: Trial) -> dict[str, str]:
    """The results of an undisturbed run with a journal of its own; its calls are not counted."""
    process = trial.start("reference", home="reference_home")
    if not process.wait(LONGEST_SECONDS) or process.code != 0:
        raise RuntimeError(f"the undisturbed run ended with {process.code}: {process.err}")
    trial.server.well.clear()
    return trial.results("reference")
