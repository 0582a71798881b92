"""Calls go through the journal and the ledger: nothing is asked twice, and no budget is exceeded."""

from __future__ import annotations

import math

import anyio
import pytest

from goldless.models.interface import ChatReply, ChatRequest, Message, ScoreRequest, TokenLogprobs, Usage
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Budget, Ledger, Price
from goldless.records import CallFailure
from paid_twice import called_after_reply, counts

pytestmark = pytest.mark.anyio

FREE = Price(0.0, 0.0)
DOLLAR_A_TOKEN = Price(1e6, 1e6)


class Ids(ScriptedModel):
    """A scorer asked by token ids: log p of a token is its own negative; delivers in groups that are given."""

    def __init__(self, *groups: list[int], failing: set[int] = frozenset(), identity: str = "ids") -> None:
        super().__init__(logprobs={}, name=identity)
        self._groups = groups
        self._failing = failing

    async def score(self, requests, deliver) -> None:
        self.calls += requests
        for group in self._groups or [[i] for i in range(len(requests))]:
            deliver({i: self._reply(requests[i]) for i in group})

    def _reply(self, request: ScoreRequest):
        if self._failing & set(request.target):
            return CallFailure("server_error", "down")
        return TokenLogprobs(tuple(-float(t) for t in request.target), Usage(request.tokens, 0))


def scorer(model, journal, price=FREE, budget=None) -> JournalledModel:
    return JournalledModel(model, journal, Ledger("m", price, budget))


async def score(model: JournalledModel, *requests: ScoreRequest) -> dict:
    replies: dict = {}

    def deliver(some) -> None:
        assert not set(some) & set(replies), "a reply came twice"
        replies.update(some)

    await model.score(requests, deliver)
    return replies


def ask(*target: int, context: tuple[int, ...] = (7,)) -> ScoreRequest:
    return ScoreRequest(context, target)


# --- scoring -----------------------------------------------------------------------------------------------------


async def test_a_second_run_finds_every_reply_in_the_journal_and_asks_nothing(journal):
    requests = [ask(1, 2), ask(3)]
    first = await score(scorer(Ids(), journal), *requests)
    again = Ids()
    model = scorer(again, journal)
    second = await score(model, *requests)
    assert again.calls == []
    assert {i: r.logprobs for i, r in second.items()} == {i: r.logprobs for i, r in first.items()}
    assert [first[0].logprobs, first[1].logprobs] == [(-1.0, -2.0), (-3.0,)]
    assert (model.reused.calls, model.ledger.calls) == (2, 0)
    assert called_after_reply(journal) == []


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


async def test_a_failed_call_is_delivered_as_such_kept_apart_and_asked_again(journal):
    replies = await score(scorer(Ids(failing={5}), journal), ask(1), ask(5))
    assert replies[1] == CallFailure("server_error", "down")
    assert counts(journal) == {"calls": 1, "failures": 1, "attempts": 2}
    model = Ids()
    replies = await score(scorer(model, journal), ask(1), ask(5))
    assert model.calls == [ask(5)]
    assert replies[1].logprobs == (-5.0,)
    assert called_after_reply(journal) == []


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


async def test_the_budget_stops_before_it_is_exceeded_and_the_rest_is_missing_for_that_cause(journal):
    """A dollar a token, three set aside for each call of two. Of 10, 9 are set aside at first; 6 are spent, and 3 of
    the 4 left are enough for one more call. Then 2 are left, and no call may be made with them."""
    inner = Ids()
    model = scorer(inner, journal, DOLLAR_A_TOKEN, Budget(10))
    replies = await score(model, *(ask(i) for i in range(6)))
    assert [getattr(replies[i], "kind", "scored") for i in range(6)] == ["scored"] * 4 + ["budget"] * 2
    assert inner.calls == [ask(0), ask(1), ask(2), ask(3)]
    assert model.ledger.spent_usd == 8.0
    assert counts(journal) == {"calls": 4, "failures": 0, "attempts": 4}


# --- chat --------------------------------------------------------------------------------------------------------


def chat_request(text: str = "hello", **options) -> ChatRequest:
    return ChatRequest((Message("user", text),), **options)


def chat_model(answers, journal, price=FREE, budget=None) -> tuple[ScriptedModel, JournalledModel]:
    inner = ScriptedModel(answers=answers)
    return inner, JournalledModel(inner, journal, Ledger("m", price, budget))


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
