"""How many calls are in flight.

The number doubles while that brings more throughput, by at least a quarter of what was added; where it does not, calls
only wait longer in the server's queue, so the number falls back and is tried again later and later. From the first time
that a server reports too many calls, it decides: the number grows by 5 % with every clean round and falls to 80 % with
every rate-limit episode. A *round* is as many clean replies as calls allowed. An *episode* is everything that was sent
before the fall took effect: many 429 within one round count once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import anyio

GROWTH = 1.05
FALL = 0.8
LEAST_GAIN = 0.25
"""Share of the added calls that must show as throughput."""
FIRST_HOLD = 8
"""Rounds before a number that brought nothing is tried again; it doubles every time."""
DEFAULT_START = 8
DEFAULT_MAXIMUM = 1024
_SHORTEST_SECONDS = 1e-9


class Sent(NamedTuple):
    """When a call was sent."""

    epoch: int
    """Falls before it."""
    stage: int
    """Changes of the limit before it."""
    at: float
    """Seconds on the limiter's clock."""


class Pace:
    """The allowed number of calls as pure state: no clock, no waiting."""

    __slots__ = (
        "_before",
        "_busy",
        "_clean",
        "_hold",
        "_next_hold",
        "_rate_limited",
        "_seconds",
        "epoch",
        "limit",
        "maximum",
        "stage",
    )

    def __init__(self, *, start: int = DEFAULT_START, maximum: int = DEFAULT_MAXIMUM) -> None:
        """Start with ``start`` calls, at most ``maximum``, both at least 1."""
        self.maximum = max(1, maximum)
        self.limit = max(1, min(start, self.maximum))
        """Calls allowed at once."""
        self.epoch = 0
        """Falls so far; a call carries the epoch it was sent in."""
        self.stage = 0
        """Changes of the limit so far."""
        self._before: tuple[int, float] | None = None
        """The limit before the last growth, and its throughput in calls per second."""
        self._rate_limited = False
        self._hold = 0
        self._next_hold = FIRST_HOLD
        self._begin_round()

    def clean(self, sent: Sent, *, seconds: float, in_flight: int) -> None:
        """Count a good reply that took so long beside so many others, and change the limit at the end of a round."""
        if sent.stage != self.stage:
            return  # it says nothing about the present limit
        self._clean += 1
        self._seconds += seconds
        self._busy += in_flight
        if self._clean < self.limit:
            return
        # by Little's law; replies that arrive in bursts do not disturb it, unlike a count per second
        rate = self._busy / max(self._seconds, _SHORTEST_SECONDS)
        self._begin_round()
        if self._rate_limited:
            self._change(max(self.limit + 1, int(self.limit * GROWTH)))
        elif self._before is not None and rate < self._least_rate(*self._before):
            self._change(self._before[0])
            self._hold, self._next_hold, self._before = self._next_hold, self._next_hold * 2, None
        elif self._hold > 0:
            self._hold -= 1
        elif self.limit < self.maximum:
            self._before = self.limit, rate
            self._change(self.limit * 2)

    def overloaded(self, sent: Sent) -> None:
        """Fall once for all calls sent before the fall."""
        if sent.epoch != self.epoch:
            return
        self.epoch += 1
        self._rate_limited = True
        self._change(int(self.limit * FALL))

    def timed_out(self, sent: Sent) -> None:
        """Halve once for all calls sent before: the server has more than it can do, but does not say so."""
        if sent.epoch != self.epoch:
            return
        self.epoch += 1
        self._hold, self._before = self._next_hold, None
        self._change(self.limit // 2)

    def _least_rate(self, limit: int, rate: float) -> float:
        """The throughput that the present limit must reach, given that of a smaller one."""
        return rate * (1 + LEAST_GAIN * (self.limit / limit - 1))

    def _change(self, limit: int) -> None:
        self.limit = max(1, min(limit, self.maximum))
        self.stage += 1
        self._begin_round()

    def _begin_round(self) -> None:
        self._clean = 0
        self._seconds = 0.0
        self._busy = 0


class Limiter:
    """Admits at most as many callers as the pace allows, in order of arrival."""

    __slots__ = ("_paused_until", "_waiting", "down_since", "in_flight", "pace")

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.in_flight = 0
        """Slots in use."""
        self.down_since: float | None = None
        """When the server was first found to be down, if no reply came since."""
        self._paused_until = 0.0
        self._waiting: deque[anyio.Event] = deque()

    async def acquire(self) -> Sent:
        """Wait for a slot and for the end of any pause; returns what to pass to ``clean`` or to the pace."""
        if self._waiting or self.in_flight >= self.pace.limit:
            await self._wait_for_turn()
        else:
            self.in_flight += 1
        if self._paused_until:
            await self._wait_out_pause()
        return Sent(self.pace.epoch, self.pace.stage, anyio.current_time())

    def release(self) -> None:
        """Release the slot."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.pace.limit:
            self.in_flight += 1
            self._waiting.popleft().set()

    def clean(self, sent: Sent) -> None:
        """Record a good reply; call it before ``release``."""
        self.down_since = None
        # A limit nobody uses must not grow: the first burst would then test it all at once.
        if self._waiting or self.in_flight * 2 >= self.pace.limit:
            self.pace.clean(sent, seconds=anyio.current_time() - sent.at, in_flight=self.in_flight)

    def down_seconds(self) -> float:
        """Record that the server is down; returns for how long it has been."""
        now = anyio.current_time()
        self.down_since = now if self.down_since is None else self.down_since
        return now - self.down_since

    def pause(self, seconds: float) -> None:
        """Admit no caller for this many seconds, as the server requested."""
        self._paused_until = max(self._paused_until, anyio.current_time() + seconds)

    async def _wait_for_turn(self) -> None:
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()  # whoever sets it has counted us already
        except BaseException:
            if turn.is_set():
                self.release()
            else:
                self._waiting.remove(turn)
            raise

    async def _wait_out_pause(self) -> None:
        try:
            while (left := self._paused_until - anyio.current_time()) > 0:  # noqa: ASYNC110 time ends a pause, nobody sets it
                await anyio.sleep(left)
        except BaseException:
            self.release()
            raise
        self._paused_until = 0.0
