"""Calls to one server: attempts, retries, and patience with a server that is down."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson

from goldless.models.http_api.client import UNKNOWN_CHARGE, AttemptError

if TYPE_CHECKING:
    from goldless.models.http_api.client import Client
    from goldless.models.http_api.pacing import Limiter
    from goldless.models.interface import Usage
    from goldless.models.usage import Ledger
    from goldless.records import CallFailure

Done = TypeVar("Done")
LOGGER = logging.getLogger("goldless.models")
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

    def hasty(self) -> Calling:
        """For a first contact: a server that is down is reported at once, a busy one is tried once more."""
        return replace(self, retries=min(self.retries, 1), lost_connections=False, patience_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded reply."""

    data: Any
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts before it."""


class Calls:
    """Calls with retries over one client and one limiter."""

    def __init__(self, client: Client, limiter: Limiter, calling: Calling) -> None:
        self.purse: Ledger | None = None
        """Pays for attempts that nothing is set aside for; None: they are not counted."""
        self._client = client
        self._limiter = limiter
        self._calling = calling

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

    def _pay(self, failed: CallFailure, most: Usage | None) -> None:
        """Pay for a failed attempt before the next. Raises AttemptError if the budget does not allow both."""
        if failed.charged is None or self.purse is None or most is None:
            return
        aside = self.purse.set_aside(most)
        if aside is None:
            message = f"{failed.message}. It was not sent again: that could have exceeded the budget"
            raise AttemptError(failed.kind, message, charged=failed.charged)
        self.purse.book_unkept(aside, failed.charged)

    async def patiently(self, work: Callable[[], Awaitable[Any]], most: Usage | None = None) -> Answer:
        """The result of work that may be repeated, with the failures before it. Raises the last AttemptError."""
        failed: list[CallFailure] = []
        counted = refused = 0
        begun = 0.0
        # a server that says that there are too many calls gives each its turn with time
        most_refusals = 1 + 4 * self._calling.retries
        while True:
            try:
                if failed:
                    self._pay(failed[-1], most)
                return Answer(await work(), tuple(failed))
            except AttemptError as failure:
                begun = begun if failed else anyio.current_time()
                failed.append(failure.record())
                failure.attempts = len(failed)
                outage = failure.is_outage and self._calling.patience_seconds > 0 and self._calling.retries > 0
                limited = failure.kind == "rate_limited"
                counted += not outage and not limited
                refused += limited
                if outage:
                    given_up = self._gives_up(failure, anyio.current_time() - begun)
                else:
                    given_up = counted > self._calling.retries or refused >= most_refusals
                if given_up or not self._may_retry(failure):
                    raise
                wait = self._calling.wait_seconds(len(failed), failure.retry_after_seconds)
                if outage:
                    wait = min(wait, max(LONGEST_LOOK_SECONDS, failure.retry_after_seconds or 0.0))
                    if len(failed) > 1:
                        self._limiter.pause(wait)  # the others need not find out one by one
                LOGGER.info("attempt %d failed, next in %.1f s: %s", len(failed), wait, failure.message)
            await anyio.sleep(wait)

    def _gives_up(self, failure: AttemptError, seconds: float) -> bool:
        """Whether the server has been down for too long, for this call or for all."""
        patience = self._calling.patience_seconds
        if self._limiter.down_since is None:
            LOGGER.warning("the server is down, waiting up to %g seconds for it: %s", patience, failure.message)
        return max(seconds, self._limiter.down_seconds()) >= patience

    async def _attempt(self, method: str, route: str, body: bytes | None) -> Any:
        """One attempt in its own slot; the slot is released while a retry waits."""
        limiter = self._limiter
        sent = await limiter.acquire()
        try:
            with limiter.time_limit(sent):
                data, pause = await self._client.send(method, route, body)
        except TimeoutError as error:
            limiter.pace.overloaded(sent)
            raise self._client.failure(error, self._client.address(route)) from None
        except AttemptError as failure:
            if failure.kind != "connection":
                limiter.answered(sent, up=not failure.is_outage)
            if failure.overloaded:
                limiter.pace.overloaded(sent)
            if failure.retry_after_seconds and self._may_retry(failure):
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

    def _may_retry(self, failure: AttemptError) -> bool:
        if not failure.retryable:
            return False
        if not self._calling.lost_connections and failure.kind in {"connection", "timeout"}:
            return False
        return (failure.retry_after_seconds or 0.0) <= self._calling.longest_retry_after_seconds
