"""Servers that queue, stall, or restart in the middle."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from loopback import Behaviour, LoopbackServer, chat_reply, rejection
from virtual_time import VIRTUAL_TIME

from goldless.models.http_api import Calling
from goldless.models.interface import ChatReply, ChatRequest, Message

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))
WAITING = Calling(retries=1, wait_seconds=1)


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL_TIME


def drop_some(body):
    if body["messages"][0]["content"] == "drop this":
        raise rejection(502, "no server behind this gateway")
    return chat_reply("A fine reply.")


async def ask_many(model, calls):
    replies = []

    async def one():
        replies.append(await model.chat(ASK))

    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(one)
    return replies


async def test_a_server_that_serves_one_call_at_a_time_loses_none_to_its_queue(serve_here, connect):
    """70 of 120 calls failed with the timeout of 30 calls, before the time limit left out the server's queue."""
    server = await serve_here(serves_at_once=1, delay_seconds=1)
    model = connect(server, calling=Calling(timeout_seconds=30, retries=0, concurrency=120))
    replies = await ask_many(model, 120)
    assert [reply for reply in replies if not isinstance(reply, ChatReply)] == []


async def test_a_stalled_call_ends_however_many_others_are_served(serve_here, connect):
    server = await serve_here(faults=["stall"], delay_seconds=1)
    model = connect(server, calling=Calling(timeout_seconds=10, retries=0, concurrency=2))
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
        model = connect(server, calling=Calling(retries=0))
        await model.prepare()
    begun = anyio.current_time()
    failure = await model.chat(ASK)
    assert anyio.current_time() == begun
    assert (failure.kind, failure.attempts) == ("connection", 1)
