"""The number of calls in flight grows while that brings throughput, and falls once per episode."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from virtual_time import VIRTUAL_TIME

from goldless.models.http_api.client import Limiter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


async def calls(limiter: Limiter, number: int = 0, *, seconds: float = 1.0, overload: bool = False) -> None:
    """Calls sent together, as many as allowed, whose replies arrive together: good, or that there are too many."""
    there = 0
    all_there = anyio.Event()

    async def call() -> None:
        nonlocal there
        async with limiter.slot() as one:
            there += 1
            await anyio.sleep(seconds)
            there -= 1
            if not there:
                all_there.set()
            await all_there.wait()
            if overload:
                limiter.overloaded(one)
            else:
                limiter.answered(one, clean=True)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(number or limiter.limit):
            tasks.start_soon(call)


async def test_the_limit_doubles_while_throughput_grows_until_the_maximum():
    limiter = Limiter(start=20, maximum=100)
    seen = []
    for _ in range(4):
        await calls(limiter)
        seen.append(limiter.limit)
    assert seen == [40, 80, 100, 100]


@pytest.mark.parametrize("served_at_once", [1, 30])
async def test_a_server_that_queues_is_not_flooded_and_one_that_gets_faster_is_used(served_at_once):
    limiter = Limiter(start=8, maximum=1024)
    most = 0
    for _ in range(50):
        await calls(limiter, seconds=max(1.0, limiter.limit / served_at_once))
        most = max(most, limiter.limit)
    assert min(8, served_at_once) <= limiter.limit <= most <= max(16, 4 * served_at_once)
    for _ in range(20):
        await calls(limiter, seconds=max(1.0, limiter.limit / 256))
    assert limiter.limit >= 256


async def test_after_the_first_episode_the_limit_falls_by_a_fifth_and_grows_by_five_percent_or_one():
    limiter = Limiter(start=100, maximum=1024)
    await calls(limiter, overload=True)
    seen = [limiter.limit]
    for _ in range(2):
        await calls(limiter)
        seen.append(limiter.limit)
    assert seen == [80, 84, 88]
    small = Limiter(start=5, maximum=1024)
    await calls(small, 1, overload=True)
    await calls(small)
    assert small.limit == 5
    for _ in range(10):
        await calls(small, 1, overload=True)
    assert small.limit == 1


async def test_a_rate_limit_counts_although_the_limit_grew_after_its_call_was_sent():
    limiter = Limiter(start=20, maximum=1024)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: calls(limiter, 1, seconds=5, overload=True))
        tasks.start_soon(lambda: calls(limiter, 19, seconds=1))
        await anyio.sleep(2)
        await calls(limiter, 19, seconds=1)
        assert limiter.limit == 40
    assert limiter.limit == 32
