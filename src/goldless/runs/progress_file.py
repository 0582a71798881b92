"""How far a run is, in a small file of its folder, for whoever looks on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Self

from goldless.files import write_text
from goldless.runs.options import Progress

FILE = "progress.json"
SECONDS_BETWEEN = 1.0
State = Literal["running", "done", "failed"]


class ProgressFile:
    """Writes how far a run is, at most once a second, and at the end how it ended."""

    def __init__(self, folder: Path, verb: str, then: Callable[[Progress], None]) -> None:
        self._path = folder / FILE
        self._verb = verb
        self._then = then
        self._last: Progress | None = None
        self._written_at = 0.0

    def __enter__(self) -> Self:
        """Say that it has begun."""
        self._write("running")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Say how it ended."""
        self._write("done" if kind is None else "failed")

    def __call__(self, progress: Progress) -> None:
        """Note how far a stage is, and hand it on."""
        self._last = progress
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN:
            self._write("running")
        self._then(progress)

    def _write(self, state: State) -> None:
        self._written_at = time.monotonic()
        stage = {} if self._last is None else asdict(self._last)
        now = {"state": state, "verb": self._verb, **stage, "updated_at": time.time()}
        write_text(self._path, json.dumps(now) + "\n")
