"""A failed call is tried again where that can help, and is a typed record where it cannot; a server is waited for."""

from __future__ import annotations

import random
from dataclasses import replace

import anyio
import pytest

from goldless.models.http_api import CallSettings
from goldless.models.interface import ChatReply, ChatRequest, Message
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply, rejection
from tests.support.servers.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


async def ask_many(model, calls):
    replies = []

    async def one():
        replies.append(await model.chat(ASK))

    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(one)
    return replies


FAULTS = [
    *((429, {"Retry-After": "0.05"}, "slow down"), (503, {"Retry-After": "0.05"}, "loading")),
    *((status, {}, "boom") for status in (429, 500, 502, 504, 529)),
    *("cut", "truncated", "invalid"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_passing_fault_is_tried_again(serve_here, connect, fault):
    server = await serve_here(faults=[fault])
    assert (await connect(server).chat(ASK)).text == "A fine reply."
    assert len(server.asked) == 2


async def test_after_the_last_attempt_the_failure_carries_how_often_it_was_tried(serve_here, connect):
    server = await serve_here(faults=[(500, {}, "boom")] * 10)
    failure = await connect(server).chat(ASK)
    assert (failure.kind, failure.attempts) == ("server_error", 4)
    assert "boom" in failure.message
    assert len(server.asked) == 4


async def test_an_error_inside_a_200_is_an_error(serve_here, connect):
    replies = iter([{"error": {"code": 502, "message": "provider down"}}])
    server = await serve_here()
    fine = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    server.behaviour.chat = lambda _: next(replies, fine)
    reply = await connect(server).chat(ASK)
    assert reply.text == "ok"
    assert len(server.asked) == 2


async def test_a_server_that_says_at_once_is_still_waited_for_longer_each_time(serve_here, connect):
    server = await serve_here(faults=[(429, {"Retry-After": "0"}, "")] * 3)
    model = connect(server, calling=CallSettings(wait_seconds=0.03))
    began = anyio.current_time()
    await model.chat(ASK)
    assert anyio.current_time() - began >= 0.03 + 0.06 + 0.12


async def test_a_pause_longer_than_allowed_leaves_the_call_open_at_once(serve_here, connect):
    server = await serve_here(faults=[(429, {"Retry-After": "3600"}, "")])
    model = connect(server)
    began = anyio.current_time()
    failure = await model.chat(ASK)
    assert (failure.kind, failure.attempts) == ("rate_limited", 1)
    assert isinstance(await model.chat(ASK), ChatReply)  # nor does it hold up the others
    assert anyio.current_time() - began < 60


async def test_retry_after_holds_back_calls_that_were_not_refused(serve_here, connect):
    server = await serve_here(faults=[(429, {"Retry-After": "40"}, "")])
    model = connect(server)
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.chat, ASK)
        await anyio.sleep(20)  # the refusal is back by now
        assert len(server.asked) == 1
        await model.chat(ASK)
        assert anyio.current_time() - began >= 40


async def test_a_waiting_retry_gives_its_slot_to_others(serve_here, connect):
    server = await serve_here(faults=[(500, {}, "boom")])
    patient = CallSettings(wait_seconds=5)
    model = connect(server, concurrency=1, calling=patient)
    finished: list[str] = []

    async def ask(name: str) -> None:
        await model.chat(ASK)
        finished.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "failed first")
        await anyio.sleep(1)
        tasks.start_soon(ask, "came later")
    assert finished == ["came later", "failed first"]


async def test_every_call_gets_through_a_server_that_takes_few_at_once(serve_here, connect):
    server = await serve_here(most_at_once=8, retry_after="2", delay_seconds=1)
    model = connect(server, calling=CallSettings(retries=29, wait_seconds=0.01))
    replies = await ask_many(model, 120)
    assert len(replies) == 120
    assert all(isinstance(reply, ChatReply) for reply in replies)
    assert len(server.asked) > 120
    # Started at 20 and fell: the second half of the calls was not sent as the first was.
    assert model._client.limiter.limit < 20


async def test_a_server_that_always_refuses_is_given_up(serve_here, connect):
    server = await serve_here(faults=[(429, {}, "slow down")] * 100)
    quick = CallSettings(retries=2, wait_seconds=0.0)
    failure = await connect(server, calling=quick).chat(ASK)
    assert (failure.kind, failure.attempts) == ("rate_limited", 9)


async def test_every_call_gets_through_a_storm_of_refusals(serve_here, connect):
    """Every second answer is 429, whatever the pace: six attempts would lose one call in 64."""
    server = await serve_here(faults=[])
    dice = random.Random(7)

    class Storm(list):
        """Faults that never run out."""

        def __bool__(self) -> bool:
            return dice.random() < 0.5

        def pop(self, _: int = -1) -> object:
            return (429, {"Retry-After": "0"}, "slow down")

    server.behaviour.faults = Storm()
    quick = CallSettings(wait_seconds=0.0)
    replies = await ask_many(connect(server, calling=quick), 60)
    assert sum(isinstance(reply, ChatReply) for reply in replies) == 60


# --- servers that queue, stall, or restart in the middle ------------------------------------------------------------

WAITING = CallSettings(retries=1, wait_seconds=1)


def drop_some(body):
    if body["messages"][0]["content"] == "drop this":
        raise rejection(502, "no server behind this gateway")
    return chat_reply("A fine reply.")


async def test_a_server_that_serves_one_call_at_a_time_loses_none_to_its_queue(serve_here, connect):
    """70 of 120 calls failed with the timeout of 30 calls, before the time limit left out the server's queue."""
    server = await serve_here(serves_at_once=1, delay_seconds=1)
    model = connect(server, calling=CallSettings(timeout_seconds=30, retries=0, concurrency=120))
    replies = await ask_many(model, 120)
    assert [reply for reply in replies if not isinstance(reply, ChatReply)] == []


async def test_a_stalled_call_ends_however_many_others_are_served(serve_here, connect):
    server = await serve_here(faults=["stall"], delay_seconds=1)
    model = connect(server, calling=CallSettings(timeout_seconds=10, retries=0, concurrency=2))
    async with anyio.create_task_group() as tasks:

        async def others() -> None:
            await anyio.sleep(1)
            while True:
                assert isinstance(await model.chat(ASK), ChatReply)

        tasks.start_soon(others)
        begun = anyio.current_time()
        failure = await model.chat(ASK)
        tasks.cancel_scope.cancel()
    assert failure.kind == "timeout"
    assert anyio.current_time() - begun <= 30


async def test_a_server_that_restarts_is_waited_for(connect):
    async with LoopbackServer(Behaviour()) as server:
        model = connect(server, calling=WAITING)
        await model.prepare()
    replies, all_there = [], anyio.Event()

    async def ask():
        replies.extend(await ask_many(model, 20))
        all_there.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(60)  # longer than two attempts take
        async with LoopbackServer(Behaviour(), port=server.port) as again:
            await all_there.wait()
            assert len(again.asked) == 20
    assert all(isinstance(reply, ChatReply) for reply in replies)


async def test_a_server_that_stays_down_is_given_up_once_for_all_calls(connect):
    async with LoopbackServer(Behaviour()) as server:
        model = connect(server, calling=replace(WAITING, patience_seconds=300))
        await model.prepare()
    begun = anyio.current_time()
    first = await ask_many(model, 3)
    then = anyio.current_time()
    later = await ask_many(model, 50)
    assert {reply.kind for reply in first + later} == {"connection"}
    assert then - begun >= 300
    assert anyio.current_time() - then < 300


async def test_one_call_that_a_gateway_always_drops_does_not_wait_for_ever(serve_here, connect):
    server = await serve_here(chat=drop_some)
    model = connect(server, calling=replace(WAITING, patience_seconds=20))
    dropped = ChatRequest((Message("user", "drop this"),))
    replies = []
    async with anyio.create_task_group() as tasks:

        async def ask():
            replies.append(await model.chat(dropped))
            tasks.cancel_scope.cancel()

        async def others():
            while True:
                assert isinstance(await model.chat(ASK), ChatReply)
                await anyio.sleep(1)

        tasks.start_soon(ask)
        tasks.start_soon(others)
    assert replies[0].kind == "server_error"


async def test_without_retries_a_server_that_is_down_is_not_waited_for(connect):
    async with LoopbackServer(Behaviour()) as server:
        model = connect(server, calling=CallSettings(retries=0))
        await model.prepare()
    begun = anyio.current_time()
    failure = await model.chat(ASK)
    assert anyio.current_time() == begun
    assert (failure.kind, failure.attempts) == ("connection", 1)
