"""Concurrent jobs: many requests in flight, with one error raised where many failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio

from goldless.errors import GoldlessError, UserError

Job = TypeVar("Job")
Found = TypeVar("Found")


def in_own_thread(work: Callable[..., Awaitable[Found]], *arguments: object) -> Found:
    """Run async work to its end in a thread of its own.

    A loop may be running in this thread, or in the one that started it: then ``anyio.run`` refuses.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="goldless") as threads:
        return threads.submit(anyio.run, work, *arguments).result()


async def side_by_side(work: Callable[[Job], Awaitable[Found]], jobs: Sequence[Job], at_once: int) -> list[Found]:
    """The results of all jobs in their order, with ``at_once`` in progress at a time."""
    if at_once < 1:
        raise UserError(f"at_once must be at least 1, got {at_once}")
    queue, found = iter(enumerate(jobs)), dict[int, Found]()

    async def worker() -> None:
        for place, job in queue:
            found[place] = await work(job)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(at_once, len(jobs))):
                tasks.start_soon(worker)
    except BaseExceptionGroup as group:
        # jobs side by side may all have met the same error: one is enough
        ours, others = group.split(GoldlessError)
        if ours is None or others is not None:
            raise
        error: BaseException = ours
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    return [found[place] for place in range(len(jobs))]
