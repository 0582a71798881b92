"""Time limits that count from when the server could serve a call.

A server that serves a few calls at a time lets the others wait, in whatever order, and that is no reason to give them
up. So the time of a call begins when it is sent, and again with every reply to a call that was sent before it, or after
it within its time. Replies to later calls do not count: a stalled call ends, however many others are served.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Turns:
    """The calls to one server, by the time at which they were sent."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: the limit of each call."""
        self._seconds = seconds
        self._numbers = itertools.count()
        self._open: dict[int, float] = {}
        """Calls in flight by number, in order, with the time at which each was sent."""
        # When calls were sent and answered, without those after which an earlier call was answered: both increase.
        self._sent: list[float] = []
        self._answered: list[float] = []

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run one call; raises TimeoutError when its time is over. A block that ends without error is a reply."""
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        sent = self._open[number] = loop.time()
        timer: asyncio.TimerHandle
        with anyio.CancelScope() as scope:

            def check() -> None:
                nonlocal timer
                place = self._place(sent)
                begins = max(sent, self._answered[place]) if place >= 0 else sent
                if begins + self._seconds <= loop.time():
                    scope.cancel()
                else:
                    timer = loop.call_at(begins + self._seconds, check)

            timer = loop.call_at(sent + self._seconds, check)
            try:
                yield
            finally:
                timer.cancel()
                del self._open[number]
        if scope.cancelled_caught:
            raise TimeoutError(f"no reply within {self._seconds:g} seconds")
        self._answer(sent, loop.time())

    def _place(self, sent: float) -> int:
        """Where the last reply is that counts for a call; -1 if there is none."""
        return bisect.bisect_right(self._sent, sent + self._seconds) - 1

    def _answer(self, sent: float, time: float) -> None:
        place = bisect.bisect_left(self._sent, sent)
        self._sent[place:], self._answered[place:] = [sent], [time]
        # no call in flight needs what was answered before the last reply that counts for the oldest
        useless = self._place(next(iter(self._open.values()), sent))
        if useless > 0:
            del self._sent[:useless], self._answered[:useless]
