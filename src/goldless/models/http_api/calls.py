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
    from goldless.models.http_api.turns import Turns
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
    patience_seconds: float = 120.0
    """How long a server that is down is waited for, such as one that restarts, however many attempts that takes."""

    def wait_seconds(self, failures: int, retry_after_seconds: float | None) -> float:
        """The wait after this many failures, the last of which requested this pause.

        The server's request is the minimum; a server that always says "now" must not use up all attempts at once.
        """
        usual = min(self.wait_max_seconds, self.wait_initial_seconds * 2.0 ** (failures - 1))
        jitter = random.uniform(0.0, self.wait_jitter_seconds)  # noqa: S311 not secret
        return max(retry_after_seconds or 0.0, usual) + jitter

    @property
    def most_refusals(self) -> int:
        """How often a server may say that there are too many calls: with time each gets its turn."""
        return 1 + 4 * (self.attempts - 1)

    @property
    def waits_for_servers(self) -> bool:
        """Whether a server that is down is waited for."""
        return self.patience_seconds > 0 and self.attempts > 1

    def hasty(self) -> RetryPolicy:
        """For a first contact: a server that is down is reported at once, a busy one is tried once more."""
        return replace(self, attempts=min(self.attempts, 2), lost_connections=False, patience_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded reply."""

    data: Any
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts before it."""


class Calls:
    """Calls with retries over one client and one limiter."""

    def __init__(self, client: Client, limiter: Limiter, policy: RetryPolicy, turns: Turns) -> None:
        self.purse: Ledger | None = None
        """Pays for attempts that nothing is set aside for; None: they are not counted."""
        self._client = client
        self._limiter = limiter
        self._policy = policy
        self._turns = turns

    async def get(self, route: str) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        return await self._insist("GET", route, None)

    async def post(self, route: str, payload: Any, most: Usage | None = None) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts.

        ``most``: what one attempt may be charged for. The caller has set it aside once; earlier attempts that may be
        charged for as well are paid for here.
        """
        return await self._insist("POST", route, orjson.dumps(payload), most=most)

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

    async def _insist(self, *request: Any, most: Usage | None = None) -> Answer:
        failed: list[CallFailure] = []

        async def attempt() -> Any:
            try:
                if failed:
                    self._pay(failed[-1], most)
                return await self._attempt(*request)
            except AttemptError as failure:
                failed.append(failure.record())
                raise

        data = await self.patiently(attempt)
        return Answer(data, tuple(failed))

    async def patiently(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """The result of work that may be repeated, outside the limit of calls. Raises the last AttemptError."""
        failures = counted = refused = 0
        begun: float | None = None
        while True:
            try:
                return await work()
            except AttemptError as failure:
                failures += 1
                failure.attempts = failures
                begun = anyio.current_time() if begun is None else begun
                outage = failure.is_outage and self._policy.waits_for_servers
                limited = failure.kind == "rate_limited"
                counted += not outage and not limited
                refused += limited
                if outage:
                    given_up = self._gives_up(failure, anyio.current_time() - begun)
                else:
                    given_up = counted >= self._policy.attempts or refused >= self._policy.most_refusals
                if given_up or not self._may_retry(failure):
                    raise
                wait = self._policy.wait_seconds(failures, failure.retry_after_seconds)
                if outage:
                    wait = min(wait, max(LONGEST_LOOK_SECONDS, failure.retry_after_seconds or 0.0))
                    if failures > 1:
                        self._limiter.pause(wait)  # the others need not find out one by one
                LOGGER.info("attempt %d failed, next in %.1f s: %s", failures, wait, failure.message)
            await anyio.sleep(wait)

    def _gives_up(self, failure: AttemptError, seconds: float) -> bool:
        """Whether the server has been down for too long, for this call or for all."""
        if self._limiter.down_since is None:
            LOGGER.warning(
                "the server is down, waiting up to %g seconds for it: %s",
                self._policy.patience_seconds,
                failure.message,
            )
        return max(seconds, self._limiter.down_seconds()) >= self._policy.patience_seconds

    async def _attempt(self, *request: Any) -> Any:
        """One attempt in its own slot; the slot is released while a retry waits."""
        sent = await self._limiter.acquire()
        try:
            data, pause = await self._timed(*request)
        except AttemptError as failure:
            if not failure.is_outage and failure.kind != "timeout":
                self._limiter.down_since = None
            if failure.overloaded:
                self._limiter.pace.overloaded(sent)
            elif failure.kind == "timeout":
                self._limiter.pace.timed_out(sent)
            if failure.retry_after_seconds and self._may_retry(failure):
                self._limiter.pause(failure.retry_after_seconds)
            raise
        else:
            self._limiter.clean(sent)
            if pause:
                # the server says that nothing is left: the next call would be rejected
                self._limiter.pause(min(pause, LONGEST_PAUSE_SECONDS))
            return data
        finally:
            self._limiter.release()

    async def _timed(self, *request: Any) -> tuple[Any, float | None]:
        failure: AttemptError | None = None
        try:
            with self._turns.turn():
                try:
                    return await self._client.send(*request, limited=False)
                except AttemptError as caught:
                    if caught.kind in {"connection", "timeout"}:
                        raise
                    failure = caught  # an answer, too: the server goes on to the next call
        except TimeoutError as late:
            raise self._client.timed_out(request[1], late) from None
        assert failure is not None
        raise failure

    def _may_retry(self, failure: AttemptError) -> bool:
        if not failure.retryable:
            return False
        if not self._policy.lost_connections and failure.kind in {"connection", "timeout"}:
            return False
        return (failure.retry_after_seconds or 0.0) <= self._policy.longest_retry_after_seconds
