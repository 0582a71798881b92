"""The number of calls in flight grows while that brings throughput, and falls once per episode."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from goldless.models.http_api.pacing import Limiter, Pace, Sent

pytestmark = pytest.mark.anyio


def sent_now(pace: Pace) -> Sent:
    return Sent(pace.falls, pace.changes, 0.0, 0.0)


def clean_round(pace: Pace, *, served_at_once: int = 1_000_000) -> None:
    """A round at a server that takes a second a call and lets others wait."""
    waited = max(1.0, pace.limit / served_at_once)
    for _ in range(pace.limit):
        pace.clean(sent_now(pace), seconds=waited, in_flight=pace.limit)


def test_the_limit_doubles_while_throughput_grows_until_the_maximum():
    pace = Pace(start=20, maximum=100)
    seen = []
    for _ in range(4):
        clean_round(pace)
        seen.append(pace.limit)
    assert seen == [40, 80, 100, 100]


@pytest.mark.parametrize("served_at_once", [1, 4, 30, 100])
def test_a_server_that_queues_is_not_flooded(served_at_once):
    pace = Pace(start=8, maximum=1024)
    most = 0
    for _ in range(400):
        clean_round(pace, served_at_once=served_at_once)
        most = max(most, pace.limit)
    assert most <= max(16, 4 * served_at_once)
    assert pace.limit >= min(8, served_at_once)


def test_a_server_that_gets_faster_is_used():
    pace = Pace(start=8, maximum=1024)
    for _ in range(3):
        clean_round(pace, served_at_once=8)
    assert pace.limit == 16
    for _ in range(20):
        clean_round(pace, served_at_once=64)
    assert pace.limit >= 64


def test_an_unfinished_round_does_not_grow_the_limit():
    pace = Pace(start=20, maximum=1024)
    for _ in range(19):
        pace.clean(sent_now(pace), seconds=1.0, in_flight=20)
    assert pace.limit == 20


def test_replies_to_calls_sent_under_another_limit_do_not_count():
    pace = Pace(start=8, maximum=1024)
    before = sent_now(pace)
    clean_round(pace)
    for _ in range(100):
        pace.clean(before, seconds=1.0, in_flight=8)
    assert pace.limit == 16


def test_after_the_first_episode_the_limit_grows_by_five_percent_a_round():
    pace = Pace(start=100, maximum=1024)
    pace.overloaded(sent_now(pace))
    assert pace.limit == 80
    clean_round(pace)
    assert pace.limit == 84
    clean_round(pace)
    assert pace.limit == 88


def test_a_small_limit_grows_by_at_least_one():
    pace = Pace(start=5, maximum=1024)
    pace.overloaded(sent_now(pace))
    clean_round(pace)
    assert pace.limit == 5


def test_many_rate_limits_of_one_round_are_one_episode():
    pace = Pace(start=100, maximum=1024)
    sent = sent_now(pace)
    for _ in range(100):
        pace.overloaded(sent)
    assert pace.limit == 80
    pace.overloaded(sent_now(pace))
    assert pace.limit == 64


def test_a_rate_limit_counts_although_the_limit_grew_after_its_call_was_sent():
    pace = Pace(start=20, maximum=1024)
    sent = sent_now(pace)
    clean_round(pace)
    pace.overloaded(sent)
    assert pace.limit == 32


def test_clean_replies_to_calls_sent_before_a_fall_do_not_count():
    pace = Pace(start=10, maximum=1024)
    before = sent_now(pace)
    pace.overloaded(before)
    for _ in range(50):
        pace.clean(before, seconds=1.0, in_flight=10)
    assert pace.limit == 8


def test_the_limit_never_falls_below_one():
    pace = Pace(start=2, maximum=1024)
    for _ in range(10):
        pace.overloaded(sent_now(pace))
    assert pace.limit == 1


def test_a_given_concurrency_is_start_and_maximum():
    pace = Pace(start=256, maximum=256)
    clean_round(pace)
    assert pace.limit == 256


async def test_no_more_callers_hold_a_slot_than_the_limit_allows():
    limiter = Limiter(Pace(start=3, maximum=3), 60.0)
    most = 0

    async def caller() -> None:
        nonlocal most
        sent = await limiter.acquire()
        most = max(most, limiter.in_flight)
        await anyio.sleep(0.001)
        limiter.release(sent)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(caller)
    assert most == 3
    assert limiter.in_flight == 0


async def test_callers_are_let_through_in_the_order_they_came():
    limiter = Limiter(Pace(start=1, maximum=1), 60.0)
    order: list[int] = []

    async def caller(number: int) -> None:
        sent = await limiter.acquire()
        order.append(number)
        await anyio.lowlevel.checkpoint()
        limiter.release(sent)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(caller, number)
    assert order == list(range(10))


async def test_a_cancelled_waiter_leaves_no_slot_behind():
    limiter = Limiter(Pace(start=1, maximum=1), 60.0)
    sent = await limiter.acquire()
    with anyio.move_on_after(0.01):
        await limiter.acquire()
    limiter.release(sent)
    assert limiter.in_flight == 0
    with anyio.fail_after(60):
        await limiter.acquire()


async def test_a_pause_holds_everybody_until_it_ends():
    limiter = Limiter(Pace(start=4, maximum=4), 60.0)
    began = anyio.current_time()
    limiter.pause(0.05)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(limiter.acquire)
    assert anyio.current_time() - began >= 0.049


async def test_a_limit_that_is_not_used_does_not_grow():
    limiter = Limiter(Pace(start=20, maximum=1024), 60.0)
    for _ in range(200):
        sent = await limiter.acquire()
        limiter.answered(sent, clean=True)
        limiter.release(sent)
    assert limiter.pace.limit == 20
