"""Calls in flight: how many, and how long each may take.

The number doubles with every round as long as that brings at least a quarter more throughput; beyond that, calls only
wait in the server's queue. From the first time that a server is overloaded (429, 529, a timeout), the number grows by
5 % with every clean round and falls to 80 % with every overload. A *round* is as many clean replies as calls allowed.
Calls that were sent before a fall took effect do not count: many 429 within one round are one overload.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

GROWTH = 1.05
FALL = 0.8
LEAST_GAIN = 1.25
"""Throughput with twice the calls, as a multiple, for which the number doubles again."""
START = 8
_SHORTEST_SECONDS = 1e-9


@dataclass(eq=False, slots=True)
class Sent:
    """A call in flight."""

    falls: int
    """Falls of the limit before it was sent."""
    changes: int
    """Changes of the limit before it was sent."""
    at: float
    """When it was sent, in seconds on the limiter's clock."""
    since: float
    """When its time limit started."""


class Pace:
    """The number of concurrent calls as pure state: no clock, no waiting."""

    def __init__(self, *, start: int = START, maximum: int) -> None:
        self.maximum = max(1, maximum)
        self.limit = max(1, min(start, self.maximum))
        """Calls allowed at once."""
        self.falls = 0
        self.changes = 0
        self._least_rate = 0.0
        """Calls per second that the present limit must reach before it doubles."""
        self._begin_round()

    def _begin_round(self) -> None:
        self._clean = 0
        self._seconds = 0.0
        self._busy = 0

    def _change(self, limit: int) -> None:
        self.limit = max(1, min(limit, self.maximum))
        self.changes += 1
        self._begin_round()

    def clean(self, sent: Sent, *, seconds: float, in_flight: int) -> None:
        """Count a good reply that took so long beside so many others, and change the limit at the end of a round."""
        if sent.changes != self.changes:
            return  # it says nothing about the present limit
        self._clean += 1
        self._seconds += seconds
        self._busy += in_flight
        if self._clean < self.limit:
            return
        # by Little's law; replies that arrive in bursts do not disturb it, unlike a count per second
        rate = self._busy / max(self._seconds, _SHORTEST_SECONDS)
        self._begin_round()
        if self.falls:
            self._change(max(self.limit + 1, int(self.limit * GROWTH)))
        elif rate >= self._least_rate and self.limit < self.maximum:
            self._least_rate = rate * LEAST_GAIN
            self._change(self.limit * 2)

    def overloaded(self, sent: Sent) -> None:
        """Fall once for all calls sent before the fall."""
        if sent.falls == self.falls:
            self.falls += 1
            self._change(int(self.limit * FALL))


class Limiter:
    """Admits at most as many callers as the pace allows, in order of arrival, and limits their time.

    A server that serves a few calls at a time lets the others wait, in whatever order, and that is no reason to give
    them up. So the time of a call starts when it is sent, and again with every reply to a call sent before it, or after
    it within its time. Replies to later calls do not count: a stalled call ends, however many others are served.
    """

    def __init__(self, pace: Pace, timeout_seconds: float) -> None:
        self.pace = pace
        self.in_flight = 0
        """Slots in use."""
        self.down_since: float | None = None
        """When the server was first found to be down, if no reply came since."""
        self._timeout = timeout_seconds
        self._sent: dict[Sent, None] = {}
        """Calls in flight, the oldest first."""
        self._renewed = 0.0
        """When the time of all calls in flight last started again."""
        self._paused_until = 0.0
        self._waiting: deque[anyio.Event] = deque()

    async def acquire(self) -> Sent:
        """Wait for a slot and for the end of any pause; returns what to pass to the other methods."""
        if self._waiting or self.in_flight >= self.pace.limit:
            await self._wait_for_turn()
        else:
            self.in_flight += 1
        try:
            while (now := anyio.current_time()) < self._paused_until:  # noqa: ASYNC110 time ends a pause
                await anyio.sleep(self._paused_until - now)
        except BaseException:
            self._free()
            raise
        sent = Sent(self.pace.falls, self.pace.changes, now, now)
        self._sent[sent] = None
        return sent

    def release(self, sent: Sent) -> None:
        """Release the slot."""
        del self._sent[sent]
        self._free()

    def _free(self) -> None:
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.pace.limit:
            self.in_flight += 1
            self._waiting.popleft().set()

    async def _wait_for_turn(self) -> None:
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()  # whoever sets it has counted us already
        except BaseException:
            if turn.is_set():
                self._free()
            else:
                self._waiting.remove(turn)
            raise

    @contextmanager
    def time_limit(self, sent: Sent) -> Iterator[None]:
        """Run one call; raises TimeoutError when its time is over."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle
        with anyio.CancelScope() as scope:

            def check() -> None:
                nonlocal timer
                end = max(sent.since, self._renewed) + self._timeout
                if end <= loop.time():
                    scope.cancel()
                else:
                    timer = loop.call_at(end, check)

            timer = loop.call_at(sent.since + self._timeout, check)
            try:
                yield
            finally:
                timer.cancel()
        if scope.cancelled_caught:
            raise TimeoutError(f"no reply within {self._timeout:g} seconds")

    def answered(self, sent: Sent, *, clean: bool = False, up: bool = True) -> None:
        """Record a reply. ``clean``: a good one; ``up``: of the server, not of a gateway that has lost it."""
        if up:
            self.down_since = None
        now = anyio.current_time()
        # A limit nobody uses must not grow: the first burst would then test it all at once.
        if clean and (self._waiting or self.in_flight * 2 >= self.pace.limit):
            self.pace.clean(sent, seconds=now - sent.at, in_flight=self.in_flight)
        if sent.at <= next(iter(self._sent)).at + self._timeout:
            self._renewed = now
            return
        for other in self._sent:  # some are older than their time
            if sent.at <= other.at + self._timeout:
                other.since = now

    def down_seconds(self) -> float:
        """Record that the server is down; returns for how long it has been."""
        now = anyio.current_time()
        self.down_since = now if self.down_since is None else self.down_since
        return now - self.down_since

    def pause(self, seconds: float) -> None:
        """Admit no caller for this many seconds, as the server requested."""
        self._paused_until = max(self._paused_until, anyio.current_time() + seconds)
