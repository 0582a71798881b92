"""How far a run is, how fast it goes and what it knows so far. Importing this is light."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldless.reports.run_record import BoardSoFar

LOOK_BACK_SECONDS = 60.0
"""The time over which a rate is taken: replies from the journal come in a burst that says nothing about the rest."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is."""

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


Tell = Callable[[Sequence["BoardSoFar"]], None]
"""Takes the boards so far."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a stage goes, with all its workers."""

    per_second: float
    tokens_per_second: float
    seconds_left: float


class Pace:
    """Measures the speed of the stage that was reported last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, Progress]] = deque()

    def note(self, progress: Progress) -> None:
        """Note a report."""
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
        # failed calls take time but are no progress
        ended = last.done + last.failed
        ended_since = ended - first.done - first.failed
        if seconds < 0.5 or not ended_since:
            return None
        left = (last.total - ended) * seconds / ended_since - min(waited, usual)
        return Speed((last.done - first.done) / seconds, (last.tokens - first.tokens) / seconds, max(0.0, left))
