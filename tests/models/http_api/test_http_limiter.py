"""The number of calls in flight grows while the server is content and falls once per episode."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from goldless.models.http_api.calls import Limiter, Pace

pytestmark = pytest.mark.anyio


def clean_round(pace: Pace) -> None:
    for _ in range(pace.limit):
        pace.clean(pace.epoch)


def test_the_limit_doubles_with_every_clean_round_until_the_maximum():
    pace = Pace(start=20, maximum=100)
    seen = []
    for _ in range(4):
        clean_round(pace)
        seen.append(pace.limit)
    assert seen == [40, 80, 100, 100]


def test_an_unfinished_round_does_not_grow_the_limit():
    pace = Pace(start=20)
    for _ in range(19):
        pace.clean(pace.epoch)
    assert pace.limit == 20


def test_after_the_first_episode_the_limit_grows_by_five_percent_a_round():
    pace = Pace(start=100)
    pace.overloaded(pace.epoch)
    assert pace.limit == 80
    clean_round(pace)
    assert pace.limit == 84
    clean_round(pace)
    assert pace.limit == 88


def test_a_small_limit_grows_by_at_least_one():
    pace = Pace(start=5)
    pace.overloaded(pace.epoch)
    clean_round(pace)
    assert pace.limit == 5


def test_many_rate_limits_of_one_round_are_one_episode():
    pace = Pace(start=100)
    sent_in = pace.epoch
    for _ in range(100):
        pace.overloaded(sent_in)
    assert pace.limit == 80
    pace.overloaded(pace.epoch)
    assert pace.limit == 64


def test_clean_replies_to_calls_sent_before_a_fall_do_not_count():
    pace = Pace(start=10)
    before = pace.epoch
    pace.overloaded(before)
    for _ in range(50):
        pace.clean(before)
    assert pace.limit == 8


def test_the_limit_never_falls_below_one():
    pace = Pace(start=2)
    for _ in range(10):
        pace.overloaded(pace.epoch)
    assert pace.limit == 1


def test_a_given_concurrency_is_start_and_maximum():
    pace = Pace(start=256, maximum=256)
    clean_round(pace)
    assert pace.limit == 256


async def test_no_more_callers_hold_a_slot_than_the_limit_allows():
    limiter = Limiter(Pace(start=3, maximum=3))
    most = 0

    async def caller() -> None:
        nonlocal most
        await limiter.acquire()
        most = max(most, limiter.in_flight)
        await anyio.sleep(0.001)
        limiter.release()

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(caller)
    assert most == 3
    assert limiter.in_flight == 0


async def test_callers_are_let_through_in_the_order_they_came():
    limiter = Limiter(Pace(start=1, maximum=1))
    order: list[int] = []

    async def caller(number: int) -> None:
        await limiter.acquire()
        order.append(number)
        await anyio.lowlevel.checkpoint()
        limiter.release()

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(caller, number)
    assert order == list(range(10))


async def test_a_cancelled_waiter_leaves_no_slot_behind():
    limiter = Limiter(Pace(start=1, maximum=1))
    await limiter.acquire()
    with anyio.move_on_after(0.01):
        await limiter.acquire()
    limiter.release()
    assert limiter.in_flight == 0
    with anyio.fail_after(1):
        await limiter.acquire()


async def test_a_pause_holds_everybody_until_it_ends():
    limiter = Limiter(Pace(start=4, maximum=4))
    began = anyio.current_time()
    limiter.pause(0.05)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(limiter.acquire)
    assert anyio.current_time() - began >= 0.049


async def test_a_limit_that_is_not_used_does_not_grow():
    limiter = Limiter(Pace(start=20))
    for _ in range(200):
        epoch = await limiter.acquire()
        limiter.clean(epoch)
        limiter.release()
    assert limiter.pace.limit == 20
