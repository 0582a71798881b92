"""The progress of a run, in a small file of its folder, for whoever watches from elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Self

from goldless.files import write_text
from goldless.reports.run_record import BoardSoFar
from goldless.runs.progress import Pace, Progress

PROGRESS_FILE = "progress.json"
SECONDS_BETWEEN = 1.0
"""Between two writes of the file."""
LONGEST_WRITE_SECONDS = 1.5
"""How long the last record waits for one that is being written."""
State = Literal["running", "done", "failed", "interrupted"]


class ProgressFile:
    """Writes the progress of a run, at most once a second within a stage, and how it ended."""

    def __init__(self, folder: Path, verb: str, then: Callable[[Progress], None]) -> None:
        self._path = folder / PROGRESS_FILE
        self._verb = verb
        self._then = then
        self._last: Progress | None = None
        self._pace = Pace()
        self._written_at = 0.0
        self._ended = False
        self._writing = threading.Lock()
        self._boards: Sequence[BoardSoFar] = ()

    def __enter__(self) -> Self:
        """Record the start."""
        self._write("running")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Record how it ended."""
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self._write("done" if kind is None else "interrupted" if interrupted else "failed")

    def interrupt(self) -> None:
        """Record that it ends now, from any thread, where there is no time to leave the block; the last record."""
        alone = self._writing.acquire(timeout=LONGEST_WRITE_SECONDS)
        self._ended = True
        self._record("interrupted")
        if alone:
            self._writing.release()

    def so_far(self, boards: Sequence[BoardSoFar]) -> None:
        """Record what agents' means are so far."""
        self._boards = boards
        self._write_sparingly()

    def __call__(self, progress: Progress) -> None:
        """Record the progress of a stage, and pass it on."""
        begins = self._last is None or self._last.stage != progress.stage
        self._last = progress
        self._pace.note(progress)
        # its first report may be the only one for minutes
        self._write_sparingly(at_once=begins)
        self._then(progress)

    def _write_sparingly(self, *, at_once: bool = False) -> None:
        if at_once or time.monotonic() - self._written_at >= SECONDS_BETWEEN:
            self._write("running")

    def _write(self, state: State) -> None:
        with self._writing:
            if not self._ended:
                self._record(state)

    def _record(self, state: State) -> None:
        self._written_at = time.monotonic()
        stage = {} if self._last is None else asdict(self._last)
        speed = self._pace.speed() if state == "running" else None
        pace = {} if speed is None else asdict(speed)
        boards = {"so_far": [asdict(board) for board in self._boards]} if self._boards else {}
        now = {"state": state, "verb": self._verb, **stage, **pace, **boards, "updated_at": time.time()}
        write_text(self._path, json.dumps(now) + "\n")
