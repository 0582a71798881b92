"""Calls go through the journal and the ledger: nothing is asked or kept twice."""

from __future__ import annotations

import math

import anyio
import pytest

from goldless.models.interface import ChatReply, ChatRequest, Message, ScoreRequest, TokenLogprobs, Usage
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Ledger, Price
from tests.support.paid_twice import counts

pytestmark = pytest.mark.anyio

FREE = Price(0.0, 0.0)
DOLLAR_A_TOKEN = Price(1e6, 1e6)


class Ids(ScriptedModel):
    """A scorer asked by token ids: log p of a token is its own negative."""

    def __init__(self) -> None:
        super().__init__(logprobs={}, name="ids")

    async def score(self, requests, deliver) -> None:
        self.calls += requests
        for i, request in enumerate(requests):
            deliver({i: self._reply(request)})

    def _reply(self, request: ScoreRequest):
        return TokenLogprobs(tuple(-float(t) for t in request.target), Usage(request.tokens, 0))


def scorer(model, journal, price=FREE) -> JournalledModel:
    return JournalledModel(model, journal, Ledger("m", price))


async def score(model: JournalledModel, *requests: ScoreRequest) -> dict:
    replies: dict = {}

    def deliver(some) -> None:
        assert not set(some) & set(replies), "a reply came twice"
        replies.update(some)

    await model.score(requests, deliver)
    return replies


def ask(*target: int) -> ScoreRequest:
    return ScoreRequest((7,), target)


# --- scoring -----------------------------------------------------------------------------------------------------


async def test_equal_requests_of_tasks_that_run_side_by_side_are_asked_once(journal):
    class Slow(Ids):
        async def score(self, requests, deliver) -> None:
            await anyio.sleep(0.01)
            await super().score(requests, deliver)

    inner = Slow()
    model = scorer(inner, journal)
    results: dict[int, dict] = {}

    async def task(number: int) -> None:
        results[number] = await score(model, ask(9), ask(10 + number), ask(9, 9))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(task, number)
    assert sorted(r.target for r in inner.calls) == [(9,), (9, 9), (10,), (11,), (12,), (13,), (14,)]
    assert {n: [r[i].logprobs for i in range(3)] for n, r in results.items()} == {
        n: [(-9.0,), (-10.0 - n,), (-9.0, -9.0)] for n in range(5)
    }


@pytest.mark.parametrize("values", [(math.nan, -1.0), (-math.inf, -1.0), (-1.0,), (-1.0, -1.0, -1.0), ()])
async def test_values_that_cannot_be_summed_over_the_target_are_a_bad_reply_and_not_kept(journal, values):
    class Odd(Ids):
        def _reply(self, request):
            return TokenLogprobs(values, Usage(3, 0))

    model = scorer(Odd(), journal, DOLLAR_A_TOKEN)
    replies = await score(model, ask(1, 2))
    assert replies[0].kind == "bad_reply"
    assert counts(journal)["calls"] == 0
    assert model.ledger.spent_usd == 3.0, "it was charged nevertheless"


# --- chat --------------------------------------------------------------------------------------------------------


def chat_request(text: str = "hello", **options) -> ChatRequest:
    return ChatRequest((Message("user", text),), **options)


def chat_model(answers, journal) -> tuple[ScriptedModel, JournalledModel]:
    inner = ScriptedModel(answers=answers)
    return inner, JournalledModel(inner, journal, Ledger("m", FREE))


async def test_an_answer_is_asked_once_and_comes_back_whole(journal):
    reply = ChatReply("yes", "choice", (("yes", -0.25),), {"yes": -0.1, "no": -2.35}, Usage(5, 1))
    inner, model = chat_model(lambda _: reply, journal)
    request = chat_request(choices=("yes", "no"), logprobs=True)
    assert await model.chat(request) == reply
    again = await model.chat(request)
    assert len(inner.calls) == 1
    assert again == ChatReply("yes", "choice", (("yes", -0.25),), {"yes": -0.1, "no": -2.35})


async def test_another_replicate_is_another_call_and_the_same_one_is_not(journal):
    count = iter(range(10))
    inner, model = chat_model(lambda _: f"answer {next(count)}", journal)
    said = [(await model.replica(r).chat(chat_request())).text for r in (0, 1, 0, 1, 2)]
    assert said == ["answer 0", "answer 1", "answer 0", "answer 1", "answer 2"]
    assert len(inner.calls) == 3
