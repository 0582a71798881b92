"""Servers that queue, stall, or restart in the middle."""

from __future__ import annotations

import time
from dataclasses import replace

import anyio
import pytest
from loopback import Behaviour, LoopbackServer, chat_reply, rejection

from goldless.models.http_api import RetryPolicy, Timeouts
from goldless.models.http_api.turns import Turns
from goldless.models.interface import ChatReply, ChatRequest, Message
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))
CALL_SECONDS = 0.03
WAITING = RetryPolicy(attempts=2, wait_initial_seconds=0.02, wait_max_seconds=0.1, wait_jitter_seconds=0.0)


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


async def test_a_server_that_serves_one_call_at_a_time_loses_none_to_its_queue(serve, connect):
    """70 of 120 calls failed with the timeout of 30 calls, before the time limit left out the server's queue."""
    server = serve(serves_at_once=1, delay_seconds=CALL_SECONDS)
    options = {"timeouts": Timeouts(total_seconds=30 * CALL_SECONDS), "retry": RetryPolicy(attempts=1)}
    replies = await ask_many(connect(server, concurrency=50, **options), 50)
    assert [reply for reply in replies if not isinstance(reply, ChatReply)] == []


async def test_a_stalled_call_beside_good_ones_ends_in_time(serve, connect):
    server = serve(faults=["stall"], delay_seconds=CALL_SECONDS)
    model = connect(server, timeouts=Timeouts(total_seconds=0.3), retry=RetryPolicy(attempts=1), concurrency=4)
    replies = await ask_many(model, 12)
    assert [reply.kind for reply in replies if isinstance(reply, CallFailure)] == ["timeout"]


async def test_a_stalled_call_ends_however_many_others_are_served():
    turns = Turns(0.1)

    async def others():
        while True:
            with turns.turn():
                await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        with pytest.raises(TimeoutError), turns.turn():
            await anyio.sleep(60)
        tasks.cancel_scope.cancel()


async def test_turns_keep_no_record_of_every_reply():
    turns = Turns(1e-4)
    for _ in range(1000):
        with turns.turn():
            pass
    assert len(turns._answered) < 1000


async def test_a_server_that_restarts_is_waited_for(connect):
    with LoopbackServer(Behaviour()) as server:
        model = connect(server, retry=WAITING)
        await model.prepare()
    replies, all_there = [], anyio.Event()

    async def ask():
        replies.extend(await ask_many(model, 20))
        all_there.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(0.6)  # longer than two attempts take
        with LoopbackServer(Behaviour(), port=server.port) as again:
            await all_there.wait()
            assert len(again.asked) == 20
    assert all(isinstance(reply, ChatReply) for reply in replies)


async def test_a_server_that_stays_down_is_given_up_once_for_all_calls(connect):
    with LoopbackServer(Behaviour()) as server:
        model = connect(server, retry=replace(WAITING, patience_seconds=0.3))
        await model.prepare()
    begun = time.monotonic()
    first = await ask_many(model, 3)
    then = time.monotonic()
    later = await ask_many(model, 50)
    assert {reply.kind for reply in first + later} == {"connection"}
    assert then - begun >= 0.3
    assert time.monotonic() - then < 2  # not 50 times the patience


async def test_one_call_that_a_gateway_always_drops_does_not_wait_for_ever(serve, connect):
    server = serve(chat=drop_some)
    model = connect(server, retry=replace(WAITING, patience_seconds=0.2))
    dropped = ChatRequest((Message("user", "drop this"),))
    replies = []
    async with anyio.create_task_group() as tasks:

        async def ask():
            replies.append(await model.chat(dropped))
            tasks.cancel_scope.cancel()

        async def others():
            while True:
                assert isinstance(await model.chat(ASK), ChatReply)
                await anyio.sleep(0.01)

        tasks.start_soon(ask)
        tasks.start_soon(others)
    assert replies[0].kind == "server_error"


async def test_without_retries_a_server_that_is_down_is_not_waited_for(connect):
    with LoopbackServer(Behaviour()) as server:
        model = connect(server, retry=RetryPolicy(attempts=1))
        await model.prepare()
    with anyio.fail_after(5):
        failure = await model.chat(ASK)
    assert (failure.kind, failure.attempts) == ("connection", 1)
