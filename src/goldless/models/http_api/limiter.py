"""How many calls are in flight: additive increase, multiplicative decrease.

The number doubles with every clean round until the server first says that there are too many calls, then grows by 5 %
with every clean round and falls to 80 % with every rate-limit episode. A *round* is as many clean replies as calls
allowed. An *episode* is everything that was sent before the fall took effect: many 429 within one round count once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import anyio

GROWTH = 1.05
FALL = 0.8
DEFAULT_START = 20
DEFAULT_MAXIMUM = 1024


class Pace:
    """The allowed number of calls as pure state: no clock, no waiting."""

    __slots__ = ("_clean", "_doubling", "epoch", "limit", "maximum")

    def __init__(self, *, start: int = DEFAULT_START, maximum: int = DEFAULT_MAXIMUM) -> None:
        """Begin with ``start`` calls, at most ``maximum``, both at least 1."""
        self.maximum = max(1, maximum)
        self.limit = max(1, min(start, self.maximum))
        """Calls allowed at once."""
        self.epoch = 0
        """Falls so far; a call carries the epoch it was sent in."""
        self._clean = 0
        self._doubling = True

    def clean(self, epoch: int) -> None:
        """Count a good reply to a call sent in that epoch, and grow at the end of a round."""
        if epoch != self.epoch:
            return  # it says nothing about the present limit
        self._clean += 1
        if self._clean >= self.limit:
            self._clean = 0
            grown = self.limit * 2 if self._doubling else max(self.limit + 1, int(self.limit * GROWTH))
            self.limit = min(grown, self.maximum)

    def overloaded(self, epoch: int) -> None:
        """Fall once for all calls sent before the fall."""
        if epoch != self.epoch:
            return
        self.epoch += 1
        self._clean = 0
        self._doubling = False
        self.limit = max(1, int(self.limit * FALL))


class Limiter:
    """Lets at most as many callers through as the pace allows, in the order they came."""

    __slots__ = ("_clock", "_in_flight", "_paused_until", "_waiting", "pace")

    def __init__(self, pace: Pace, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.pace = pace
        self._clock = clock
        self._in_flight = 0
        self._paused_until = 0.0
        self._waiting: deque[anyio.Event] = deque()

    @property
    def in_flight(self) -> int:
        """Slots given out."""
        return self._in_flight

    async def acquire(self) -> int:
        """Wait for a slot and for the end of any pause; returns the epoch to hand to ``clean`` or ``overloaded``."""
        if self._waiting or self._in_flight >= self.pace.limit:
            await self._wait_for_turn()
        else:
            self._in_flight += 1
        if self._paused_until:
            await self._wait_out_pause()
        return self.pace.epoch

    def release(self) -> None:
        """Give the slot back."""
        self._in_flight -= 1
        while self._waiting and self._in_flight < self.pace.limit:
            self._in_flight += 1
            self._waiting.popleft().set()

    def clean(self, epoch: int) -> None:
        """A good reply came; call it before ``release``."""
        # A limit nobody uses must not grow: the first burst would then test it all at once.
        if self._waiting or self._in_flight * 2 >= self.pace.limit:
            self.pace.clean(epoch)

    def overloaded(self, epoch: int) -> None:
        """The server said that there are too many calls."""
        self.pace.overloaded(epoch)

    def pause(self, seconds: float) -> None:
        """Let nobody through for so long, as the server asked."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

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
            while (left := self._paused_until - self._clock()) > 0:  # noqa: ASYNC110 time ends a pause, nobody sets it
                await anyio.sleep(left)
        except BaseException:
            self.release()
            raise
        self._paused_until = 0.0
