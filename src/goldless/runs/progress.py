"""Progress of a run, its speed and its findings so far; also in a small file of its folder, for watchers."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

import polars as pl

from goldless.files import PROGRESS_FILE, write_text
from goldless.reports.run_record import BoardSoFar

SECONDS_BETWEEN = 1.0
"""Between two writes of the file."""
LONGEST_WRITE_SECONDS = 1.5
"""The longest that the last record waits for one that is being written."""
LOOK_BACK_SECONDS = 60.0
"""The time over which a rate is taken."""
LEAST_SECONDS = 2.0
"""Between two looks at what the evidence says so far."""
SHARE_OF_TIME = 0.02
"""The most of a run's time that looks take: each waits until the one before is this share of the time since."""
State = Literal["running", "done", "failed", "interrupted"]
Tell = Callable[[Sequence[BoardSoFar]], None]
"""Takes the boards so far."""
Boards = Callable[[dict[str, pl.DataFrame]], Sequence[BoardSoFar]]
"""The boards of the tables that have arrived."""
Arrived = Callable[[str, str, Callable[[], pl.DataFrame]], None]
"""Called when evidence has arrived: the name of its table and of a part of it, and what makes that part as it is now.

Log-probabilities come with those of responses to other tasks.
"""


def nobody(*_: object) -> None:
    """Is told, and does nothing."""


@dataclass(frozen=True)
class Progress:
    """Progress of a stage."""

    stage: str
    done: int
    """Without those that failed and that another run asks again."""
    total: int
    tokens: int
    cost_usd: float | None
    workers: int | None = None
    """Of the fleet; None: there is none."""
    failed: int = 0
    """Ended without a reply, and to be asked again by another run."""
    reused: int = 0
    """Replies of the model that the journal had, in this stage and those before it."""


@dataclass(frozen=True)
class Speed:
    """Speed of a stage, with all its workers."""

    per_second: float
    tokens_per_second: float
    seconds_left: float


class Pace:
    """Measures the speed of the stage that was reported last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, Progress]] = deque()

    def note(self, progress: Progress) -> None:
        now = self._clock()
        if self._seen and self._seen[-1][1].stage != progress.stage:
            self._seen.clear()
        self._seen.append((now, progress))
        while len(self._seen) > 2 and self._seen[1][0] < now - LOOK_BACK_SECONDS:
            self._seen.popleft()

    def speed(self) -> Speed | None:
        """The speed between the first and the last report that are remembered; None: too early to tell."""
        if len(self._seen) < 2:
            return None
        (began, first), (reported, last) = self._seen[0], self._seen[-1]
        # a batch may take minutes: waiting for the next report is slowness only where it is late
        usual = (reported - began) / (len(self._seen) - 1)
        waited = self._clock() - reported
        seconds = reported - began + max(0.0, waited - usual)
        # failed calls take time but are no progress; replies from the journal are progress but take no time
        ended, reused = last.done + last.failed, last.reused - first.reused
        ended_since = ended - first.done - first.failed - reused
        if seconds < 0.5 or ended_since < 1:
            return None
        left = (last.total - ended) * seconds / ended_since - min(waited, usual)
        return Speed(
            (last.done - first.done - reused) / seconds, (last.tokens - first.tokens) / seconds, max(0.0, left)
        )


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
        self._write("running")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
        self._boards = boards
        self._write("running", sparingly=True)

    def __call__(self, progress: Progress) -> None:
        """Record the progress of a stage, and pass it on."""
        begins = self._last is None or self._last.stage != progress.stage
        self._last = progress
        self._pace.note(progress)
        self._write("running", sparingly=not begins)  # its first report may be the only one for minutes
        self._then(progress)

    def _write(self, state: State, *, sparingly: bool = False) -> None:
        if sparingly and time.monotonic() - self._written_at < SECONDS_BETWEEN:
            return
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


class Arriving:
    """Evidence as it arrives, and now and then the boards it makes: never more than a small share of a run's time."""

    def __init__(self, boards: Boards, tell: Tell | None) -> None:
        self._boards, self._tell = boards, tell
        self._parts: dict[str, dict[str, Callable[[], pl.DataFrame]]] = {}
        self._next = time.perf_counter() + LEAST_SECONDS

    def __call__(self, table: str, part: str, rows: Callable[[], pl.DataFrame]) -> None:
        """Rows of a part of a table have arrived; ``rows`` makes all of them."""
        if self._tell is None:
            return
        self._parts.setdefault(table, {})[part] = rows
        began = time.perf_counter()
        if began < self._next:
            return
        try:
            tables = {name: pl.concat([make() for make in parts.values()]) for name, parts in self._parts.items()}
            found = self._boards(tables)
        except Exception:  # noqa: BLE001 - what only shows a run must never end it; at the end its own error is told
            found = ()
        if found:
            self._tell(found)
        ended = time.perf_counter()
        self._next = ended + max(LEAST_SECONDS, (ended - began) / SHARE_OF_TIME)
