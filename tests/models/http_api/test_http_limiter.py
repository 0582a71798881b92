"""The number of calls in flight grows while that brings throughput, and falls once per episode."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from virtual_time import VIRTUAL_TIME

from goldless.models.http_api.calls import Limiter, Sent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


async def clean_round(limiter: Limiter, *, served_at_once: int = 1_000_000) -> None:
    """A round at a server that takes a second a call and lets others wait; all slots are in use."""
    sent = [await limiter.acquire() for _ in range(limiter.limit)]
    await anyio.sleep(max(1.0, limiter.limit / served_at_once))
    for one in sent:
        limiter.answered(one, clean=True)
    for one in sent:
        limiter.release(one)


async def overload(limiter: Limiter, *, calls: int = 1) -> None:
    """Calls sent together are all told that there are too many."""
    sent = [await limiter.acquire() for _ in range(calls)]
    for one in sent:
        limiter.overloaded(one)
        limiter.release(one)


async def test_the_limit_doubles_while_throughput_grows_until_the_maximum():
    limiter = Limiter(start=20, maximum=100)
    seen = []
    for _ in range(4):
        await clean_round(limiter)
        seen.append(limiter.limit)
    assert seen == [40, 80, 100, 100]


@pytest.mark.parametrize("served_at_once", [1, 4, 30, 100])
async def test_a_server_that_queues_is_not_flooded_and_one_that_gets_faster_is_used(served_at_once):
    limiter = Limiter(start=8, maximum=1024)
    most = 0
    for _ in range(50):
        await clean_round(limiter, served_at_once=served_at_once)
        most = max(most, limiter.limit)
    assert min(8, served_at_once) <= limiter.limit <= most <= max(16, 4 * served_at_once)
    for _ in range(20):
        await clean_round(limiter, served_at_once=256)
    assert limiter.limit >= 256


async def test_replies_count_only_in_whole_rounds_of_calls_sent_under_the_present_limit():
    limiter = Limiter(start=8, maximum=1024)
    early: list[Sent] = [await limiter.acquire() for _ in range(8)]
    for one in early[:7]:
        limiter.answered(one, clean=True)
    assert limiter.limit == 8
    limiter.answered(early[7], clean=True)
    assert limiter.limit == 16
    for one in early * 10:
        limiter.answered(one, clean=True)
    assert limiter.limit == 16


async def test_after_the_first_episode_the_limit_falls_by_a_fifth_and_grows_by_five_percent_or_one():
    limiter = Limiter(start=100, maximum=1024)
    await overload(limiter, calls=100)
    seen = [limiter.limit]
    for _ in range(2):
        await clean_round(limiter)
        seen.append(limiter.limit)
    assert seen == [80, 84, 88]
    small = Limiter(start=5, maximum=1024)
    await overload(small)
    await clean_round(small)
    assert small.limit == 5
    for _ in range(10):
        await overload(small)
    assert small.limit == 1


async def test_a_rate_limit_counts_although_the_limit_grew_after_its_call_was_sent():
    limiter = Limiter(start=20, maximum=1024)
    sent = await limiter.acquire()
    limiter.release(sent)
    await clean_round(limiter)
    limiter.overloaded(sent)
    assert limiter.limit == 32


async def test_callers_are_let_through_in_order_and_no_more_at_once_than_the_limit_allows():
    limiter = Limiter(start=3, maximum=3)
    most, order = 0, []

    async def caller(number: int) -> None:
        nonlocal most
        sent = await limiter.acquire()
        order.append(number)
        most = max(most, limiter.in_flight)
        await anyio.sleep(0.001)
        limiter.release(sent)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(caller, number)
    assert (order, most, limiter.in_flight) == (list(range(20)), 3, 0)


async def test_a_cancelled_waiter_leaves_no_slot_behind():
    limiter = Limiter(start=1, maximum=1)
    sent = await limiter.acquire()
    with anyio.move_on_after(0.01):
        await limiter.acquire()
    limiter.release(sent)
    assert limiter.in_flight == 0
    with anyio.fail_after(60):
        await limiter.acquire()


async def test_a_pause_holds_everybody_until_it_ends():
    limiter = Limiter(start=4, maximum=4)
    began = anyio.current_time()
    limiter.pause(0.05)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(limiter.acquire)
    assert anyio.current_time() - began >= 0.049


async def test_a_limit_that_is_not_used_does_not_grow():
    limiter = Limiter(start=20, maximum=1024)
    for _ in range(200):
        sent = await limiter.acquire()
        limiter.answered(sent, clean=True)
        limiter.release(sent)
    assert limiter.limit == 20
