"""Scoring requests are sent so that a server with a prefix cache computes every context once."""

from __future__ import annotations

import anyio
import pytest

from goldless.models.http_api.sending import send_by_context
from goldless.models.interface import Message, ScoreRequest, TokenLogprobs

pytestmark = pytest.mark.anyio


class CountingServer:
    """Computes like a radix cache: a prefix is free once a request that has it was answered."""

    def __init__(self, requests):
        self.requests = requests
        self.known: set[tuple[int, ...]] = set()
        self.computed = 0
        self.now = self.most = 0
        self.order: list[int] = []

    async def send(self, index: int) -> None:
        self.order.append(index)
        self.now += 1
        self.most = max(self.most, self.now)
        request = self.requests[index]
        ids = (*request.context, *request.target)
        free = max((n for n in range(len(request.context) + 1) if ids[:n] in self.known), default=0)
        self.computed += len(ids) - free
        await anyio.sleep(0.001)
        self.known |= {ids[:n] for n in range(1, len(ids) + 1)}
        self.now -= 1


def tree(agents: int) -> list[ScoreRequest]:
    """Instructions and a synopsis of 50 tokens, responses of 10 tokens, every pair, in an order that is not sorted."""
    shared = tuple(range(1000, 1050))
    texts = [tuple(range(10 * agent, 10 * agent + 10)) for agent in range(agents)]
    pairs = [(x, y) for y in texts for x in texts if x != y]
    return [ScoreRequest((*shared, *x), y) for x, y in pairs]


async def test_with_sharing_every_node_of_the_tree_is_computed_once():
    requests = tree(6)
    server = CountingServer(requests)
    await send_by_context(requests, server.send, at_once=100, shared=True)
    assert sorted(server.order) == list(range(30))
    assert server.computed == 50 + 6 * 10 + 30 * 10


async def test_without_sharing_all_go_at_once_and_each_computes_everything():
    requests = tree(6)
    server = CountingServer(requests)
    await send_by_context(requests, server.send, at_once=100, shared=False)
    assert sorted(server.order) == list(range(30))
    assert server.most == 30
    assert server.computed == 30 * 70


async def test_no_more_are_sent_than_allowed_and_a_context_is_finished_before_the_next_begins():
    requests = tree(6)
    server = CountingServer(requests)
    await send_by_context(requests, server.send, at_once=4, shared=True)
    assert server.most <= 4
    contexts = [requests[index].context for index in server.order]
    assert [a for a, b in zip(contexts, [None, *contexts], strict=False) if a != b] == sorted(set(contexts))


@pytest.mark.parametrize(("number", "shared"), [(0, True), (1, True), (0, False), (3, True)])
async def test_every_request_is_sent_once(number, shared):
    requests = [ScoreRequest("some text", f"target {i}") for i in range(number)]
    sent: list[int] = []

    async def send(index: int) -> None:
        sent.append(index)

    await send_by_context(requests, send, at_once=2, shared=shared)
    assert sorted(sent) == list(range(number))


async def test_sglang_gets_at_most_a_hundred_calls_at_once_whatever_it_could_take(serve, connect):
    """Above 128 waiting calls its policy lpm turns itself off (its scheduler's _determine_active_policy)."""
    server = serve(speaks={"sglang"})
    model = connect(server, use="scoring")
    await model.prepare()
    requests = [await model.encode([Message("user", "one two")], f"word {i}") for i in range(400)]
    replies: dict = {}
    server.behaviour.delay_seconds = 0.005
    server.most_seen_at_once = 0
    await model.score(requests, replies.update)
    assert all(isinstance(reply, TokenLogprobs) for reply in replies.values())
    assert len(replies) == 400
    assert 1 < server.most_seen_at_once <= 100
    assert model._limiter.pace.maximum == 100  # how much of it is used depends on how fast this machine is
