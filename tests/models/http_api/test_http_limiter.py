"""The number of calls in flight grows while that brings throughput."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from goldless.models.http_api.client import Limiter
from tests.support.servers.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


async def calls(limiter: Limiter, *, seconds: float = 1.0) -> None:
    """Calls sent together, as many as allowed, whose replies arrive together."""
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
            limiter.answered(one, clean=True)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(limiter.limit):
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
