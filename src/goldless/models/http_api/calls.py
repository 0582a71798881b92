"""Calls to one server: how many at once, how long each may take, retries, and patience with a server that is down.

The number of calls at once doubles with every round as long as that brings at least a quarter more throughput; beyond
that, calls only wait in the server's queue. From the first time that a server is overloaded (429, 529, a timeout), the
number grows by 5 % with every clean round and falls to 80 % with every overload. A *round* is as many clean replies as
calls allowed. Calls that were sent before a fall took effect do not count: many 429 within one round are one overload.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson

from goldless.models.http_api.client import UNKNOWN_CHARGE, AttemptError

if TYPE_CHECKING:
    from goldless.models.http_api.client import Client
    from goldless.models.interface import Usage
    from goldless.models.usage import Ledger
    from goldless.records import CallFailure

Done = TypeVar("Done")
LOGGER = logging.getLogger("goldless.models")
GROWTH, FALL = 1.05, 0.8
LEAST_GAIN = 1.25
"""Throughput with twice the calls, as a multiple, for which the number doubles again."""
START = 8
LONGEST_PAUSE_SECONDS = 60.0
"""For a limit that a good reply says is used up; after it, the server's own answer decides."""
LONGEST_LOOK_SECONDS = 5.0
"""Between two attempts to find a server up again."""


@dataclass(frozen=True, slots=True)
class Calling:
    """How a server is called: time, repetition and number of calls, for whoever sets them."""

    timeout_seconds: float = 600.0
    """Timeout of one attempt; while a call waits in the server's queue, it starts again with every reply."""
    retries: int = 5
    """Attempts after the first."""
    patience_seconds: float = 120.0
    """How long a server that is down is waited for, such as one that restarts, however many attempts that takes."""
    concurrency: int | None = None
    """Concurrent calls, used from the start; None: start with a few and adapt to the server."""
    max_in_flight: int = 1024
    """Maximum concurrent calls when adapting to the server."""
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

    def may_retry(self, failure: AttemptError) -> bool:
        """Whether an attempt that failed in this way may be followed by another."""
        if not failure.retryable or (not self.lost_connections and failure.kind in {"connection", "timeout"}):
            return False
        return (failure.retry_after_seconds or 0.0) <= self.longest_retry_after_seconds


# --- how many at once, and how long each may take ----------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Sent:
    """A call in flight."""

    falls: int
    """Falls of the limit before it was sent."""
    changes: int
    """Changes of the limit before it was sent."""
    at: float
    """When it was sent, in seconds on the event loop's clock."""
    since: float
    """When its time limit started."""


class Limiter:
    """Admits so many callers at once, in order of arrival, and limits their time.

    A server that serves a few calls at a time lets the others wait, in whatever order, and that is no reason to give
    them up. So the time of a call starts when it is sent, and again with every reply to a call sent before it, or after
    it within its time. Replies to later calls do not count: a stalled call ends, however many others are served.
    """

    def __init__(self, *, start: int = START, maximum: int, timeout_seconds: float = 600.0) -> None:
        self.maximum = max(1, maximum)
        self.limit = max(1, min(start, self.maximum))
        """Calls allowed at once."""
        self.in_flight = 0
        self.down_since: float | None = None
        """When the server was first found to be down, if no reply came since."""
        self._timeout = timeout_seconds
        self._falls = self._changes = 0
        self._least_rate = 0.0
        """Calls per second that the present limit must reach before it doubles."""
        self._clean, self._busy, self._seconds = 0, 0, 0.0
        """Of the present round: good replies, the calls in flight beside each, and the time that each took."""
        self._sent: dict[Sent, None] = {}
        """Calls in flight, the oldest first."""
        self._renewed = 0.0
        """When the time of all calls in flight last started again."""
        self._paused_until = 0.0
        self._waiting: deque[anyio.Event] = deque()

    async def acquire(self) -> Sent:
        """Wait for a slot and for the end of any pause; returns what to pass to the other methods."""
        if self._waiting or self.in_flight >= self.limit:
            await self._wait_for_turn()
        else:
            self.in_flight += 1
        try:
            while (now := anyio.current_time()) < self._paused_until:  # noqa: ASYNC110 time ends a pause
                await anyio.sleep(self._paused_until - now)
        except BaseException:
            self._free()
            raise
        sent = Sent(self._falls, self._changes, now, now)
        self._sent[sent] = None
        return sent

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

    def release(self, sent: Sent) -> None:
        """Release the slot."""
        del self._sent[sent]
        self._free()

    def _free(self) -> None:
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.limit:
            self.in_flight += 1
            self._waiting.popleft().set()

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
        if clean and sent.changes == self._changes and (self._waiting or self.in_flight * 2 >= self.limit):
            self._count(now - sent.at)
        if sent.at <= next(iter(self._sent)).at + self._timeout:
            self._renewed = now
            return
        for other in self._sent:  # some are older than their time
            if sent.at <= other.at + self._timeout:
                other.since = now

    def _count(self, seconds: float) -> None:
        """Count a good reply to a call under the present limit, and change the limit at the end of a round."""
        self._clean += 1
        self._busy += self.in_flight
        self._seconds += seconds
        if self._clean < self.limit:
            return
        # by Little's law; replies that arrive in bursts do not disturb it, unlike a count per second
        rate = self._busy / max(self._seconds, 1e-9)
        if self._falls:
            self._change(max(self.limit + 1, int(self.limit * GROWTH)))
        elif rate >= self._least_rate and self.limit < self.maximum:
            self._least_rate = rate * LEAST_GAIN
            self._change(self.limit * 2)
        else:
            self._clean, self._busy, self._seconds = 0, 0, 0.0

    def overloaded(self, sent: Sent) -> None:
        """Fall once for all calls sent before the fall."""
        if sent.falls == self._falls:
            self._falls += 1
            self._change(int(self.limit * FALL))

    def _change(self, limit: int) -> None:
        self.limit = max(1, min(limit, self.maximum))
        self._changes += 1
        self._clean, self._busy, self._seconds = 0, 0, 0.0

    def down_seconds(self) -> float:
        """Record that the server is down; returns for how long it has been."""
        now = anyio.current_time()
        self.down_since = now if self.down_since is None else self.down_since
        return now - self.down_since

    def pause(self, seconds: float) -> None:
        """Admit no caller for this many seconds, as the server requested."""
        self._paused_until = max(self._paused_until, anyio.current_time() + seconds)


# --- attempts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded reply."""

    data: Any
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts before it."""


class Calls:
    """Calls with retries over one client and one limiter."""

    def __init__(self, client: Client, calling: Calling) -> None:
        self.calling = calling
        start, most = calling.concurrency or START, calling.concurrency or calling.max_in_flight
        self.limiter = Limiter(start=start, maximum=most, timeout_seconds=calling.timeout_seconds)
        self.purse: Ledger | None = None
        """Pays for attempts that nothing is set aside for; None: they are not counted."""
        self._client = client

    def hasty(self) -> Calls:
        """For a first contact: a server that is down is reported at once, a busy one is tried once more."""
        hasty, retries = copy.copy(self), min(self.calling.retries, 1)
        hasty.calling = replace(self.calling, retries=retries, lost_connections=False, patience_seconds=0.0)
        return hasty

    async def get(self, route: str) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        return await self.patiently(lambda: self._attempt("GET", route, None))

    async def post(self, route: str, payload: Any, most: Usage | None = None) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts.

        ``most``: what one attempt may be charged for. The caller has set it aside once; earlier attempts that may be
        charged for as well are paid for here.
        """
        body = orjson.dumps(payload)
        return await self.patiently(lambda: self._attempt("POST", route, body), most)

    async def paid(self, most: Usage, work: Callable[[], Awaitable[Done]], usage: Callable[[Done], Usage]) -> Done:
        """The result of a call that nothing is set aside for, such as a probe. Raises AttemptError."""
        purse = self.purse
        if purse is None:
            return await work()
        while (aside := purse.set_aside(most)) is None:
            if not await purse.settled():
                raise AttemptError("budget", "not sent: it could have exceeded the budget", attempts=0)
        charged: tuple[int, int] | None = UNKNOWN_CHARGE  # if the call is interrupted
        try:
            done = await work()
            charged = (usage(done).input_tokens, usage(done).output_tokens)
        except AttemptError as failure:
            charged = failure.charged
            raise
        else:
            return done
        finally:
            purse.book_unkept(aside, charged)

    async def patiently(self, work: Callable[[], Awaitable[Any]], most: Usage | None = None) -> Answer:
        """The result of work that may be repeated, with the failures before it. Raises the last AttemptError."""
        failed: list[CallFailure] = []
        counted = refused = 0
        began = 0.0
        # a server that says that there are too many calls gives each its turn with time
        most_refusals = 1 + 4 * self.calling.retries
        while True:
            try:
                if failed:
                    self._pay(failed[-1], most)
                return Answer(await work(), tuple(failed))
            except AttemptError as failure:
                began = began if failed else anyio.current_time()
                failed.append(failure.record())
                failure.attempts = len(failed)
                outage = failure.is_outage and self.calling.patience_seconds > 0 and self.calling.retries > 0
                limited = failure.kind == "rate_limited"
                counted += not outage and not limited
                refused += limited
                if outage:
                    given_up = self._gives_up(failure, anyio.current_time() - began)
                else:
                    given_up = counted > self.calling.retries or refused >= most_refusals
                if given_up or not self.calling.may_retry(failure):
                    raise
                wait = self.calling.wait_seconds(len(failed), failure.retry_after_seconds)
                if outage:
                    wait = min(wait, max(LONGEST_LOOK_SECONDS, failure.retry_after_seconds or 0.0))
                    if len(failed) > 1:
                        self.limiter.pause(wait)  # the others need not find out one by one
                LOGGER.info("attempt %d failed, next in %.1f s: %s", len(failed), wait, failure.message)
            await anyio.sleep(wait)

    def _pay(self, failed: CallFailure, most: Usage | None) -> None:
        """Pay for a failed attempt before the next. Raises AttemptError if the budget does not allow both."""
        if failed.charged is None or self.purse is None or most is None:
            return
        aside = self.purse.set_aside(most)
        if aside is None:
            message = f"{failed.message}. It was not sent again: that could have exceeded the budget"
            raise AttemptError(failed.kind, message, charged=failed.charged)
        self.purse.book_unkept(aside, failed.charged)

    def _gives_up(self, failure: AttemptError, seconds: float) -> bool:
        """Whether the server has been down for too long, for this call or for all."""
        patience = self.calling.patience_seconds
        if self.limiter.down_since is None:
            LOGGER.warning("the server is down, waiting up to %g seconds for it: %s", patience, failure.message)
        return max(seconds, self.limiter.down_seconds()) >= patience

    async def _attempt(self, method: str, route: str, body: bytes | None) -> Any:
        """One attempt in its own slot; the slot is released while a retry waits."""
        limiter = self.limiter
        sent = await limiter.acquire()
        try:
            with limiter.time_limit(sent):
                data, pause = await self._client.send(method, route, body)
        except TimeoutError as error:
            limiter.overloaded(sent)
            raise self._client.failure(error, self._client.address(route)) from None
        except AttemptError as failure:
            if failure.kind != "connection":
                limiter.answered(sent, up=not failure.is_outage)
            if failure.overloaded:
                limiter.overloaded(sent)
            if failure.retry_after_seconds and self.calling.may_retry(failure):
                limiter.pause(failure.retry_after_seconds)
            raise
        else:
            limiter.answered(sent, clean=True)
            if pause:
                # the server says that nothing is left: the next call would be rejected
                limiter.pause(min(pause, LONGEST_PAUSE_SECONDS))
            return data
        finally:
            limiter.release(sent)
