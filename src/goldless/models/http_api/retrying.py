"""One call as often as it takes: attempts, waits between them, and a slot of the limiter for each."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import stamina

from goldless.models.http_api.failures import AttemptError

if TYPE_CHECKING:
    from goldless.models.http_api.client import Client
    from goldless.models.http_api.limiter import Limiter
    from goldless.records import CallFailure

# stamina logs every retry as a warning, and Python prints warnings that no handler takes. A thousand rate-limited
# calls would bury the progress display; whoever sets up logging still gets them.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a failed call is tried again."""

    attempts: int = 6
    """Attempts in all, the first included."""
    wait_initial_seconds: float = 0.5
    """Wait before the second attempt; it doubles from there."""
    wait_max_seconds: float = 30.0
    wait_jitter_seconds: float = 1.0
    """A random part added to each wait, so that calls that failed together do not return together."""
    longest_retry_after_seconds: float = 300.0
    """A server that asks for a longer pause than this is left alone: the call stays open for another run."""
    lost_connections: bool = True
    """Whether timeouts and lost connections are tried again too."""

    def hasty(self) -> RetryPolicy:
        """For a first contact: a server that is not there is reported at once, a busy one asked once more."""
        return replace(self, attempts=min(self.attempts, 2), lost_connections=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded reply."""

    data: Any
    retries: tuple[CallFailure, ...] = ()
    """Failed attempts that came before it."""


Send = Callable[[], Awaitable[Any]]


class Calls:
    """Calls with retries over one client and one limiter."""

    def __init__(self, client: Client, limiter: Limiter, policy: RetryPolicy) -> None:
        self._client = client
        self._limiter = limiter
        self._policy = policy

    async def get(self, route: str) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        return await self._insist(lambda: self._client.get(route))

    async def post(self, route: str, payload: Any) -> Answer:
        """The reply. Raises the last AttemptError, which then carries the number of attempts."""
        body = orjson.dumps(payload)
        return await self._insist(lambda: self._client.post(route, body))

    async def _insist(self, send: Send) -> Answer:
        # Nearly every call succeeds at once; the retry machinery is set up only for those that do not.
        try:
            return Answer(await self._attempt(send))
        except AttemptError as failure:
            if not self._may_retry(failure):
                raise
            first = failure
        return await self._retry(send, first)

    async def _retry(self, send: Send, first: AttemptError) -> Answer:
        policy = self._policy
        failed: list[CallFailure] = []
        pending: AttemptError | None = first
        try:
            async for attempt in stamina.retry_context(
                on=lambda error: self._wait(error, len(failed)),
                attempts=policy.attempts,
                timeout=None,
                wait_initial=policy.wait_initial_seconds,
                wait_max=policy.wait_max_seconds,
                wait_jitter=policy.wait_jitter_seconds,
            ):
                with attempt:
                    try:
                        if pending is not None:  # stamina's first attempt is the one already made
                            made, pending = pending, None
                            raise made
                        return Answer(await self._attempt(send), tuple(failed))
                    except AttemptError as failure:
                        failed.append(failure.record())
                        raise
        except AttemptError as last:
            last.attempts = len(failed)
            raise
        raise AssertionError("stamina neither returned nor raised")  # pragma: no cover

    async def _attempt(self, send: Send) -> Any:
        """One attempt in a slot of its own; the slot is free again while a retry waits."""
        epoch = await self._limiter.acquire()
        try:
            data = await send()
        except AttemptError as failure:
            if failure.overloaded:
                self._limiter.overloaded(epoch)
            if failure.retry_after_seconds and self._may_retry(failure):
                self._limiter.pause(failure.retry_after_seconds)
            raise
        else:
            self._limiter.clean(epoch)
            return data
        finally:
            self._limiter.release()

    def _may_retry(self, failure: AttemptError) -> bool:
        if not failure.retryable:
            return False
        if not self._policy.lost_connections and failure.kind in {"connection", "timeout"}:
            return False
        return (failure.retry_after_seconds or 0.0) <= self._policy.longest_retry_after_seconds

    def _wait(self, error: Exception, failures: int) -> bool | float:
        """For stamina: no retry, one after its usual wait, or one after so many seconds."""
        if not isinstance(error, AttemptError) or not self._may_retry(error):
            return False
        if error.retry_after_seconds is None:
            return True
        # What the server asks for is the least; one that always says "at once" must not use up all attempts at once.
        policy = self._policy
        usual = min(policy.wait_max_seconds, policy.wait_initial_seconds * 2.0 ** (failures - 1))
        jitter = random.uniform(0.0, policy.wait_jitter_seconds)  # noqa: S311 not secret
        return max(error.retry_after_seconds, usual) + jitter
