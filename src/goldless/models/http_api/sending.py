"""The order in which scoring requests are sent, so that a server with a prefix cache computes every context once.

Depth first: requests are sorted by context. Where the server shares contexts, the first request of a call goes alone
and computes what all contexts have in common, then the first of each context, then its other targets: requests that
arrive together under a new context would each compute it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

import anyio

from goldless.concurrency import side_by_side
from goldless.models.interface import ScoreRequest

Send = Callable[[int], Awaitable[None]]


async def send_by_context(requests: Sequence[ScoreRequest], send: Send, *, at_once: int, shared: bool) -> None:
    """Send every request by its index, at most ``at_once`` at a time; ``shared``: each context once before the rest."""
    order = sorted(range(len(requests)), key=lambda index: _place(requests[index]))
    if not shared or len(order) < 2:
        await side_by_side(send, order, at_once)
        return
    await send(order[0])
    contexts = [list(same) for _, same in groupby(order, key=lambda index: requests[index].context)]
    contexts[0].pop(0)
    slots = anyio.CapacityLimiter(at_once)

    async def one(index: int) -> None:
        async with slots:
            await send(index)

    async def context(targets: list[int]) -> None:
        if targets is not contexts[0]:
            await one(targets.pop(0))
        async with anyio.create_task_group() as tasks:
            for index in targets:
                tasks.start_soon(one, index)

    # as many contexts as fill the slots: the targets of one are sent before the next context is begun
    await side_by_side(context, contexts, max(1, at_once * len(contexts) // len(order)))


def _place(request: ScoreRequest) -> tuple[bool, tuple[int, ...] | str]:
    """A sorting key that puts equal and similar contexts together; ids and text do not compare."""
    return isinstance(request.context, str), request.context
