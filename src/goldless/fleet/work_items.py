"""Work items: the requests of one call of a model, computed together by one worker.

An item is cut by the caller, never by the number of workers, so what a model computes does not depend on them.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from goldless.errors import GoldlessError
from goldless.fleet.parts import Parts, Reply, Request, from_part, item_name
from goldless.fleet.signs_of_life import LostError
from goldless.fleet.worker import Done
from goldless.models.interface import ModelIdentity
from goldless.records import CallFailure

TRIES = 3
"""An item that cost this many workers is cut into halves, and a half that costs one is cut again: a single request is
left as failed.
"""
LOOK_SECONDS = 5.0
"""Between two looks whether there are workers at all."""


@dataclass(slots=True)
class Item:
    """Requests that one worker computes in one call."""

    model: int
    requests: Sequence[Request]
    name: str
    outcome: asyncio.Future[Done]
    tries: int
    """Workers that it may cost."""
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """Replies in the order of the requests, and the items that they are kept as."""

    replies: list[Reply]
    items: list[str]


@dataclass(slots=True)
class WorkItems:
    """The items of a run that wait for a worker."""

    parts: Parts
    _waiting: asyncio.Queue[Item] = field(default_factory=asyncio.Queue)
    _warned: set[str] = field(default_factory=set)

    async def answer(
        self,
        model: int,
        identity: ModelIdentity,
        requests: Sequence[Request],
        check: Callable[[], None],
        *,
        tries: int = TRIES,
    ) -> Answer:
        """The replies of a model to the requests, as one item. A request that no worker survives is a failed call.

        ``check``: raises an error if there will be no worker.
        """
        name = item_name(identity, requests)
        left = self.parts.left(name, len(requests))
        if left is not None:
            return Answer(left, [name])
        item = Item(model, requests, name, asyncio.get_running_loop().create_future(), tries)
        self._waiting.put_nowait(item)
        done = await _outcome(item, check)
        if done.error is not None:
            raise done.error
        for warning in done.warned:
            if warning not in self._warned:
                self._warned.add(warning)
                warnings.warn(warning, stacklevel=2)
        if not done.failure:
            return Answer(from_part(done.part, len(requests)), [name])
        if len(requests) == 1:
            return Answer([CallFailure("server_error", done.failure, attempts=max(1, item.losses))], [])
        middle = len(requests) // 2
        first = await self.answer(model, identity, requests[:middle], check, tries=1)
        second = await self.answer(model, identity, requests[middle:], check, tries=1)
        return Answer([*first.replies, *second.replies], [*first.items, *second.items])

    async def serve(self, alive: Callable[[], Awaitable[None]], compute: Callable[[Item], Awaitable[Done]]) -> None:
        """Hand items to a worker until it is lost. Raises LostError.

        ``alive``: raises LostError if the worker was lost while it had nothing to do, which is no item's fault.
        """
        while True:
            item = await self._waiting.get()
            if item.outcome.done():
                continue  # the run was stopped
            try:
                await alive()
            except BaseException:
                self._waiting.put_nowait(item)
                raise
            try:
                done = await compute(item)
            except LostError as lost:
                self._after_loss(item, str(lost))
                raise
            except asyncio.CancelledError:
                item.outcome.cancel()
                raise
            except GoldlessError as error:
                item.outcome.set_exception(error)
                raise
            if not item.outcome.done():
                item.outcome.set_result(done)

    def _after_loss(self, item: Item, reason: str) -> None:
        item.losses += 1
        if item.outcome.done():
            return
        finished = self.parts.data(item.name, len(item.requests))
        if finished is not None:
            item.outcome.set_result(Done(finished))
        elif item.losses >= item.tries:
            item.outcome.set_result(Done(failure=f"the worker that computed it {reason}"))
        else:
            self._waiting.put_nowait(item)


async def _outcome(item: Item, check: Callable[[], None]) -> Done:
    try:
        while True:
            done, _ = await asyncio.wait({item.outcome}, timeout=LOOK_SECONDS)
            if done:
                return item.outcome.result()
            check()
    finally:
        item.outcome.cancel()
