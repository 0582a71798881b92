"""Calls: how many are in flight, and retries.

In flight: additive increase, multiplicative decrease. The number doubles with every clean round until the server first
reports too many calls, then grows by 5 % with every clean round and falls to 80 % with every rate-limit
episode. A *round* is as many clean replies as calls allowed. An *episode* is everything that was sent before the fall
took effect: many 429 within one round count once.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson

from goldless.models.http_api.client import AttemptError

if TYPE_CHECKING:
    from goldless.models.http_api.client import Client
    from goldless.records import CallFailure

Done = TypeVar("Done")
LOGGER = logging.getLogger("goldless.models")
GROWTH = 1.05
FALL = 0.8
DEFAULT_START = 20
DEFAULT_MAXIMUM = 1024
LONGEST_PAUSE_SECONDS = 60.0
"""For a limit that a good reply says is used up; after it, the server's own answer decides."""


class Pace:
    """The allowed number of calls as pure state: no clock, no waiting."""

    __slots__ = ("_clean", "_doubling", "epoch", "limit", "maximum")

    def __init__(self, *, start: int = DEFAULT_START, maximum: int = DEFAULT_MAXIMUM) -> None:
        """Start with ``start`` calls, at most ``maximum``, both at least 1."""
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
    """Admits at most as many callers as the pace allows, in order of arrival."""

    __slots__ = ("_clock", "_paused_until", "_waiting", "in_flight", "pace")

    def __init__(self, pace: Pace, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.pace = pace
        self.in_flight = 0
        """Slots in use."""
        self._clock = clock
        self._paused_until = 0.0
        self._waiting: deque[anyio.Event] = deque()

    async def acquire(self) -> int:
        """Wait for a slot and for the end of any pause; returns the epoch to pass to ``clean`` or to the pace."""
        if self._waiting or self.in_flight >= self.pace.limit:
            await self._wait_for_turn()
        else:
            self.in_flight += 1
        if self._paused_until:
            await self._wait_out_pause()
        return self.pace.epoch

    def release(self) -> None:
        """Release the slot."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.pace.limit:
            self.in_flight += 1
            self._waiting.popleft().set()

    def clean(self, epoch: int) -> None:
        """Record a good reply; call it before ``release``."""
        # A limit nobody uses must not grow: the first burst would then test it all at once.
        if self._waiting or self.in_flight * 2 >= self.pace.limit:
            self.pace.clean(epoch)

    def pause(self, seconds: float) -> None:
        """Admit no caller for this many seconds, as the server requested."""
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


# --- attempts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and with which waits a failed call is retried."""

    attempts: int = 6
    """Total attempts, including the first."""
    wait_initial_seconds: float = 0.5
    """Wait before the second attempt; it doubles from there."""
    wait_max_seconds: float = 30.0
    wait_jitter_seconds: float = 1.0
    """A random part added to each wait, so that calls that failed together do not retry together."""
    longest_retry_after_seconds: float = 300.0
    """If the server requests a longer pause than this, the call is left open for another run."""
    lost_connections: bool = True
    """Whether timeouts and lost connections are retried too."""

    def wait_seconds(self, failures: int, retry_after_seconds: float | None) -> float:
        """The wait after this many failures, the last of which requested this pause.

        The server's request is the minimum; a server that always says "now" must not use up all attempts at once.
        """
        usual = min(self.wait_max_seconds, self.wait_initial_seconds * 2.0 ** (failures - 1))
        jitter = random.uniform(0.0, self.wait_jitter_seconds)  # noqa: S311 not secret
        return max(retry_after_seconds or 0.0, usual) + jitter

    def hasty(self) -> RetryPolicy:
        """For a first contact: a server that is down is reported at once, a busy one is tried once more."""
        return replace(self, attempts=min(self.attempts, 2), lost_connections=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded reply."""

    data: Any
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts before it."""


class Calls:
    """Calls with retries over one client and one limiter."""

    def __init__(self, client: Client, limiter: Limiter, policy: RetryPolicy) -> None:
        self._client = client
        self._limiter = limiter
        self._policy = policy

    async def get(self, route: str) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        return await self._insist("GET", route, None)

    async def post(self, route: str, payload: Any) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        return await self._insist("POST", route, orjson.dumps(payload))

    async def _insist(self, *request: Any) -> Answer:
        failed: list[CallFailure] = []
        while True:
            try:
                return Answer(await self._attempt(*request), tuple(failed))
            except AttemptError as failure:
                failed.append(failure.record())
                failure.attempts = len(failed)
                if len(failed) >= self._policy.attempts or not self._may_retry(failure):
                    raise
                wait = self._policy.wait_seconds(len(failed), failure.retry_after_seconds)
                LOGGER.info("attempt %d of %d: %s", len(failed), self._policy.attempts, failure.message)
            await anyio.sleep(wait)

    async def patiently(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """The result of work that may be repeated, outside the limit of calls. Raises the last AttemptError."""
        failures = 0
        while True:
            try:
                return await work()
            except AttemptError as failure:
                failures += 1
                failure.attempts = failures
                if failures >= self._policy.attempts or not self._may_retry(failure):
                    raise
                wait = self._policy.wait_seconds(failures, failure.retry_after_seconds)
            await anyio.sleep(wait)

    async def _attempt(self, *request: Any) -> Any:
        """One attempt in its own slot; the slot is released while a retry waits."""
        epoch = await self._limiter.acquire()
        try:
            data, pause = await self._client.send(*request)
        except AttemptError as failure:
            if failure.overloaded:
                self._limiter.pace.overloaded(epoch)
            if failure.retry_after_seconds and self._may_retry(failure):
                self._limiter.pause(failure.retry_after_seconds)
            raise
        else:
            self._limiter.clean(epoch)
            if pause:
                # the server says that nothing is left: the next call would be rejected
                self._limiter.pause(min(pause, LONGEST_PAUSE_SECONDS))
            return data
        finally:
            self._limiter.release()

    def _may_retry(self, failure: AttemptError) -> bool:
        if not failure.retryable:
            return False
        if not self._policy.lost_connections and failure.kind in {"connection", "timeout"}:
            return False
        return (failure.retry_after_seconds or 0.0) <= self._policy.longest_retry_after_seconds
