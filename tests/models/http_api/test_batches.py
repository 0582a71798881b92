"""Calls sent as batches: each is paid for once, whatever becomes of its batch."""

from __future__ import annotations

from contextlib import closing

import pytest

from goldless.errors import CallError, UserError, WaitingError
from goldless.models.catalogue import open_model
from goldless.models.interface import ChatReply, ChatRequest, Message, NotSentError
from goldless.models.journal import Journal
from goldless.models.journalled import (
    OVER_BUDGET,
    WAITING,
    BatchedChat,
    JournalledModel,
    batches_out,
    batching,
    chat_key,
    chunks,
    forget_batch,
    raise_if_waiting,
)
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Budget, Ledger, Price, batch_share
from tests.support.paid_twice import called_after_reply
from tests.support.servers.batch_providers import BatchServer
from tests.support.servers.loopback import Behaviour
from tests.support.servers.providers import KEY

pytestmark = pytest.mark.anyio

SPECS = {
    "openai": "openai:toy",
    "anthropic": "anthropic:claude-toy-1",
}
PRICE = Price(1_000_000, 1_000_000)
"""A dollar per token."""


@pytest.fixture
def server(monkeypatch):
    with BatchServer(Behaviour(), say=lambda asked: f"Reply to {asked}") as running:
        for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(key, KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.root)
        yield running


def request(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text),), max_tokens=10)


class Run:
    """One run of a command: opens a model, asks, sends what waits; everything else is in the journal's file."""

    def __init__(self, spec, path, *, price=None, budget=None):
        self.spec, self.path, self.price, self.budget = spec, path, price, budget
        self.ledger = None
        self.out, self.waits, self.unsent = [], False, 0

    def waiting(self):
        return self.out

    async def __call__(self, *texts):
        model = open_model(self.spec, use="chat")
        with closing(Journal(self.path)) as journal:
            budget = None if self.budget is None else Budget(self.budget)
            self.ledger = Ledger(self.spec, self.price, budget)
            chat = BatchedChat(model, journal, self.ledger)
            try:
                await chat.collect()
                replies = [await chat.chat(request(text)) for text in texts]
                await chat.submit()
                self.out, self.waits, self.unsent = chat.waiting(), chat.waits, chat.unsent
                assert called_after_reply(journal) == []
            finally:
                await model.aclose()
        return [reply.text if isinstance(reply, ChatReply) else reply for reply in replies]


@pytest.fixture
def run_of(tmp_path):
    return lambda provider, **money: Run(SPECS[provider], tmp_path / "journal.sqlite", **money)


def out(run):
    with closing(Journal(run.path)) as journal:
        return batches_out(journal)


@pytest.mark.parametrize("provider", SPECS)
async def test_calls_wait_in_one_batch_and_a_later_run_has_their_replies(server, run_of, provider):
    run = run_of(provider)
    assert await run("a", "b", "a") == [WAITING] * 3
    assert [batch.calls for batch in out(run)] == [2]
    assert await run("a", "b") == [WAITING] * 2  # still in progress: nothing is sent again
    assert len(server.batches) == 1
    server.end()
    assert await run("a", "b") == ["Reply to a", "Reply to b"]
    assert out(run) == []
    assert await run("a", "b") == ["Reply to a", "Reply to b"]
    assert len(server.batches) == 1


async def test_a_call_in_a_batch_that_is_out_is_not_paid_again_by_a_command_without_batches(server, run_of):
    run = run_of("openai")
    await run("a")
    asked = len(server.asked)
    with closing(Journal(run.path)) as journal:
        model = open_model(run.spec)
        chat = JournalledModel(model, journal, Ledger(run.spec, None, None))
        in_batch = await chat.chat(request("a"))
        await model.aclose()
    assert in_batch.kind == "waiting"
    assert "goldless journal show" in in_batch.message
    assert len(server.asked) == asked
    server.end()
    assert await run("a") == ["Reply to a"]


@pytest.mark.parametrize("provider", SPECS)
@pytest.mark.parametrize("how", ["expired", "cancelled"])
async def test_what_a_batch_did_not_get_to_is_sent_again_and_nothing_else(server, run_of, provider, how):
    run = run_of(provider)
    await run("a", "b", "c")
    server.end(how, answered=2)
    replies = await run("a", "b", "c")
    assert sorted(map(str, replies)) == sorted(["Reply to a", "Reply to b", str(WAITING)])
    assert [len(batch["calls"]) for batch in server.batches.values()] == [3, 1]
    server.end()
    assert await run("a", "b", "c") == ["Reply to a", "Reply to b", "Reply to c"]


FAILING = {
    "openai": {"status_code": 400, "request_id": "r", "body": {"error": {"message": "bad request"}}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "bad request"}},
}


@pytest.mark.parametrize("provider", SPECS)
async def test_a_call_that_fails_in_a_batch_is_a_failure_of_that_call(server, run_of, provider):
    run = run_of(provider)
    await run("a", "b")
    server.end(failing={0: FAILING[provider]})
    failure, other = sorted(await run("a", "b"), key=str)
    assert (failure.kind, "bad request" in failure.message) == ("rejected", True)
    assert other.startswith("Reply to")
    assert len(server.batches) == 1  # it is sent again by the next run, not by this one
    await run("a", "b")
    assert [len(batch["calls"]) for batch in server.batches.values()] == [2, 1]


async def test_a_batch_that_fails_as_a_whole_fails_each_call(server, run_of):
    run = run_of("openai")
    await run("a", "b")
    server.end("failed", answered=0)
    assert [(failure.kind, "not JSON" in failure.message) for failure in await run("a", "b")] == [
        ("rejected", True)
    ] * 2


QUEUE_FULL = {
    "code": "token_limit_exceeded",
    "message": "Enqueued token limit reached for toy in organization org-x. Limit: 90,000 enqueued tokens. Please try "
    "again once some in_progress batches have been completed.",
}
"""As in issue 2084 of openai-python."""


async def test_a_batch_that_did_not_fit_into_the_queue_is_sent_again_in_parts_one_after_the_other(server, run_of):
    run = run_of("openai", price=PRICE, budget=500)
    texts = list("abcdefgh")
    await run(*texts)
    server.failure = QUEUE_FULL
    server.end("failed", answered=0)
    assert await run(*texts) == [WAITING] * 8, "refused for now, not for ever"
    assert [len(batch["calls"]) for batch in server.batches.values()] == [8, 4]
    assert (run.unsent, run.ledger.spent_usd, run.waits) == (4, 0, True)
    with pytest.raises(WaitingError, match="4 wait until the provider's queue has room"):
        raise_if_waiting([run])
    assert await run(*texts) == [WAITING] * 8
    assert len(server.batches) == 2, "nothing is sent while another part is out"
    server.end("failed", answered=0)
    await run(*texts)
    for _ in range(4):
        server.end()
        replies = await run(*texts)
    assert [len(batch["calls"]) for batch in server.batches.values()] == [8, 4, 2, 2, 2, 2]
    assert replies == [f"Reply to {text}" for text in texts]
    assert (run.unsent, run.waits) == (0, False)


async def test_a_queue_that_takes_no_batch_now_keeps_the_calls_for_the_next_run(server, run_of):
    run = run_of("anthropic")
    server.behaviour.faults = [(429, {}, "too many batch requests in the queue")]
    assert await run("a") == [WAITING]
    assert (run.unsent, out(run), server.batches) == (1, [], {})
    assert await run("a") == [WAITING]
    assert (run.unsent, len(server.batches)) == (0, 1)


@pytest.mark.parametrize("code", ["billing_hard_limit_reached", "insufficient_quota"])
async def test_a_batch_that_a_spent_account_refused_leaves_its_calls_open(server, run_of, code):
    run = run_of("openai")
    await run("a", "b")
    server.failure = {"code": code, "message": "no credit"}
    server.end("failed", answered=0)
    failures = await run("a", "b")
    assert [(failure.kind, "no credit" in failure.message) for failure in failures] == [("rate_limited", True)] * 2
    assert await run("a", "b") == [WAITING] * 2


@pytest.mark.parametrize("provider", SPECS)
async def test_a_batch_that_is_gone_is_said_to_be_gone_with_the_way_out(server, run_of, provider):
    run = run_of(provider)
    await run("a", "b")
    [name] = server.batches
    server.batches.clear()
    with pytest.raises(UserError, match=f"goldless journal clear --batch {name}"):
        await run("a", "b")
    with closing(Journal(run.path)) as journal:
        assert forget_batch(journal, batches_out(journal)[0].label) == 2
    assert await run("a", "b") == [WAITING] * 2


async def test_a_batch_that_is_rejected_leaves_nothing_behind(server, run_of):
    run = run_of("anthropic")
    server.behaviour.faults = [(400, {}, "too many batches")]
    with pytest.raises(NotSentError, match="too many batches"):
        await run("a")
    assert out(run) == []
    assert await run("a") == [WAITING]


async def test_a_batch_that_may_have_been_sent_is_not_sent_again_unasked(server, run_of):
    run = run_of("anthropic")
    server.behaviour.faults = ["cut"]
    with pytest.raises(CallError):
        await run("a")
    [batch] = out(run)
    assert batch.id is None
    with pytest.raises(UserError, match=f"whether it arrived is not known.*--batch {batch.label}"):
        await run("a")
    assert server.batches == {}


async def test_an_upload_is_tried_again_because_it_costs_nothing(server, run_of):
    run = run_of("openai")
    server.behaviour.faults = [(503, {"Retry-After": "0"}, "busy")]
    assert await run("a") == [WAITING]
    assert len(server.batches) == 1


async def test_two_processes_do_not_send_the_same_call(server, run_of):
    path = run_of("openai").path
    with closing(Journal(path)) as one, closing(Journal(path)) as other:
        chats = [
            BatchedChat(open_model(SPECS["openai"], use="chat"), file, Ledger("toy", None)) for file in (one, other)
        ]
        for chat in chats:
            await chat.collect()
            assert await chat.chat(request("a")) == WAITING
        for chat in chats:
            await chat.submit()
            assert [batch.calls for batch in chat.waiting()] == [1]
            await chat._model.aclose()
    assert len(server.batches) == 1


async def test_a_batch_has_no_call_that_another_process_makes_or_has_made_meanwhile(server, run_of):
    """The look for replies is at the beginning of a run, the sending at its end, hours later."""
    path = run_of("openai").path
    with closing(Journal(path)) as one, closing(Journal(path)) as other:
        models = [open_model(SPECS["openai"], use="chat") for _ in range(2)]
        batched, live = BatchedChat(models[0], one, Ledger("toy", PRICE, Budget(100))), models[1]
        for text in ("made", "out", "free"):
            assert await batched.chat(request(text)) == WAITING
        assert (await JournalledModel(live, other, Ledger("toy", None)).chat(request("made"))).text == "Reply to made"
        async with other.claim([chat_key(live.identity, request("out"))]):
            await batched.submit()
        for model in models:
            await model.aclose()
        assert [batch.calls for batch in batched.waiting()] == [1]
        assert (batched.unsent, batched.waits) == (2, True)
    [sent] = server.batches.values()
    assert [body["messages"][-1]["content"] for body in sent["calls"].values()] == ["free"]
    assert server.paths().count("/v1/chat/completions") == 1


async def test_one_model_at_two_efforts_is_two_models(server, tmp_path):
    """2 calls in 2 batches at 27 dollars each; each is charged 15, and each is booked once, on its own model."""
    path = tmp_path / "journal.sqlite"
    runs = [Run(f"openai:toy?effort={effort}", path, price=PRICE, budget=10_000) for effort in ("low", "high")]
    for run in runs:
        assert await run("a") == [WAITING]
        assert [(batch.calls, batch.reserved_usd) for batch in run.waiting()] == [(1, 27 + 4096)]
        run.unsent = 0
    with pytest.raises(WaitingError, match=r"2 calls are in 2 batches"):
        raise_if_waiting(runs)
    server.end()
    for run in runs:
        assert await run("a") == ["Reply to a"]
        assert run.ledger.spent_usd == 15
    with closing(Journal(path)) as journal:
        assert journal.rows("select count(*), count(distinct model) from calls") == [(2, 2)]


async def test_a_batch_at_another_server_is_no_batch_of_this_one(server, run_of, monkeypatch):
    """It was looked for here, and said to be gone, with the advice to pay for it again."""
    run = run_of("openai")
    await run("a")
    with BatchServer(Behaviour(), say=lambda text: f"Another reply to {text}") as elsewhere:
        monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.url)
        assert await run("a") == [WAITING]
        elsewhere.end()
        assert await run("a") == ["Another reply to a"]
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.end()
    assert await run("a") == ["Reply to a"]


async def test_the_same_call_on_another_occasion_is_another_call(server, run_of):
    run = run_of("openai")
    await run("a")
    with closing(Journal(run.path, occasion="Tuesday")) as journal:
        model = open_model(run.spec, use="chat")
        chat = BatchedChat(model, journal, Ledger("toy", None))
        await chat.collect()
        assert await chat.chat(request("a")) == WAITING
        await chat.submit()
        await model.aclose()
    assert len(server.batches) == 2
    server.end()
    assert await run("a") == ["Reply to a"]
    assert [batch.occasion for batch in out(run)] == ["Tuesday"]


async def test_a_budget_reserves_what_is_out_and_takes_no_call_beyond_it(server, run_of):
    # a call is reserved at its bytes + 16 and 10 tokens of reply: 27 dollars for one letter; its reply uses 11 + 4
    run = run_of("openai", price=PRICE, budget=60)
    assert await run("a", "b", "c") == [WAITING, WAITING, OVER_BUDGET]
    assert [batch.reserved_usd for batch in out(run)] == [54]
    assert await run("a", "b", "c") == [WAITING, WAITING, OVER_BUDGET]  # what is out counts
    server.end()
    assert await run("a", "b", "c") == ["Reply to a", "Reply to b", WAITING]  # 30 were spent, 27 fit
    assert run.ledger.spent_usd == 30
    server.end()
    assert await run("a", "b", "c") == ["Reply to a", "Reply to b", "Reply to c"]
    assert run.ledger.spent_usd == 15


@pytest.mark.parametrize("spec", ["ollama:toy", "http://127.0.0.1:1/v1#toy", "embedded"])
def test_a_model_without_a_batch_api_is_refused(spec):
    with pytest.raises(UserError, match=r"has no batch API. --batch works with openai: and anthropic:"):
        batching(ScriptedModel() if spec == "embedded" else open_model(spec))


@pytest.mark.parametrize("provider", SPECS)
def test_the_price_in_a_batch_is_half(server, provider):
    model = open_model(SPECS[provider])
    assert batching(model) is model
    assert PRICE.shared(batch_share(model.identity)) == Price(500_000, 500_000)


def test_a_batch_has_no_more_calls_and_bytes_than_its_provider_takes():
    lines = {str(number): b"x" * 9 for number in range(5)}
    assert list(chunks(lines, most_calls=2, most_bytes=1000)) == [["0", "1"], ["2", "3"], ["4"]]
    assert list(chunks(lines, most_calls=10, most_bytes=28)) == [["0", "1"], ["2", "3"], ["4"]]
    assert list(chunks({"a": b"x" * 99}, most_calls=10, most_bytes=30)) == [["a"]]
    assert list(chunks({}, most_calls=10, most_bytes=30)) == []


async def test_what_is_out_is_said_with_its_price(server, run_of):
    run = run_of("openai", price=PRICE)
    await run("a", "b")
    with pytest.raises(WaitingError, match=r"2 calls are in 1 batch, at most 54.00 USD. .*Run the same command again"):
        raise_if_waiting([run])
