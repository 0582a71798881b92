"""The budget holds whatever a server says it charged, and whatever fails on the way."""

from __future__ import annotations

import anyio
import pytest

import goldless
from goldless.errors import BudgetError
from goldless.models.canaries import check_scorer
from goldless.models.http_api.client import CallSettings
from goldless.models.interface import ChatReply, ChatRequest, Message, Usage
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Budget, Ledger, Price, most_usage
from goldless.records import CallFailure
from tests.support.servers.loopback import chat_reply
from tests.support.servers.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

PRICE = Price(10.0, 10.0)
ASK = ChatRequest((Message("user", "word " * 400),), max_tokens=8)
MOST_USD = PRICE.cost(most_usage(ASK))
TRUE_USD = PRICE.cost(Usage(500, 1))
"""What a call really costs here: about 500 tokens."""
USAGES = {
    "none": None,
    "absurd": {"prompt_tokens": 1_000_000, "completion_tokens": 1},
    "too large for a journal": {"prompt_tokens": 2**63, "completion_tokens": 1},
}
"""What else is no count is read as none (``test_providers``), and booked as such (``test_usage``)."""


def replying(usage: object) -> dict:
    reply = chat_reply("one")
    reply["usage"] = usage
    return reply


def numbered(number: int) -> ChatRequest:
    return ChatRequest((Message("user", f"{number:03} " + ASK.messages[0].content[4:]),), max_tokens=ASK.max_tokens)


async def ask_all(model, journal: Journal, budget: Budget, calls: int = 121) -> tuple[list, Ledger]:
    ledger = Ledger("toy", PRICE, budget)
    model.charge_to(ledger)
    chat = JournalledModel(model, journal, ledger)
    replies: list = []

    async def ask(number: int) -> None:
        replies.append(await chat.chat(numbered(number)))

    async with anyio.create_task_group() as tasks:
        for number in range(calls):
            tasks.start_soon(ask, number)
    assert len(replies) == calls
    return replies, ledger


@pytest.mark.parametrize("usage", USAGES.values(), ids=USAGES.keys())
async def test_121_calls_stop_within_the_budget_whatever_the_server_says_it_charged(serve, connect, journal, usage):
    """All 121 would really cost 0.6 USD. Each is booked at the most it can cost, so the budget is enough for ten."""
    server = serve(chat=lambda _: replying(usage))
    budget = Budget(10.5 * MOST_USD)
    replies, ledger = await ask_all(connect(server), journal, budget)
    sent = len(server.bodies("/v1/chat/completions"))
    assert sent == 10
    assert sent * TRUE_USD <= ledger.spent_usd <= budget.limit_usd
    assert (ledger.calls, ledger.estimated) == (10, 10)
    assert journal.rows("select count(*), sum(estimated) from calls") == [(10, 10)]
    assert sum(isinstance(reply, CallFailure) and reply.kind == "budget" for reply in replies) == 111


FAULTS = [(500, {}, "boom"), (502, {}, "boom"), "cut", "truncated", "invalid"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_failed_attempts_that_may_be_charged_for_are_paid_for_within_the_budget(serve, connect, journal, fault):
    """Every attempt may be charged for, so no more are sent than the budget pays at the most each can cost."""
    server = serve(faults=[fault] * 1000)
    quick = CallSettings(retries=2, wait_seconds=0.0, patience_seconds=0.0)
    replies, ledger = await ask_all(connect(server, calling=quick), journal, Budget(20.5 * MOST_USD), calls=30)
    sent = len(server.bodies("/v1/chat/completions"))
    assert not any(isinstance(reply, ChatReply) for reply in replies)
    assert 1 <= sent <= 20
    assert ledger.calls == ledger.estimated == sent
    assert ledger.spent_usd == pytest.approx(sent * MOST_USD)
    (noted,) = journal.rows("select sum(cost_usd) from failures")[0]
    assert noted <= ledger.spent_usd + 1e-9


@pytest.mark.parametrize("fault", [(429, {}, "slow"), (503, {}, "loading"), (400, {}, "no")], ids=str)
async def test_attempts_that_the_server_did_not_take_cost_nothing(serve, connect, journal, fault):
    server = serve(faults=[fault] * 1000)
    quick = CallSettings(retries=1, wait_seconds=0.0, patience_seconds=0.0)
    replies, ledger = await ask_all(connect(server, calling=quick), journal, Budget(20 * MOST_USD), calls=3)
    assert all(isinstance(reply, CallFailure) for reply in replies)
    assert (ledger.calls, ledger.spent_usd) == (0, 0.0)


async def test_a_reply_that_cannot_be_read_is_booked_at_what_it_says(serve, connect, journal):
    broken = {"choices": [{"message": 7}], "usage": {"prompt_tokens": 500, "completion_tokens": 1}}
    replies, ledger = await ask_all(connect(serve(chat=lambda _: broken)), journal, Budget(1.0), calls=3)
    assert [reply.kind for reply in replies] == ["bad_reply"] * 3
    assert ledger.spent_usd == pytest.approx(3 * TRUE_USD)
    assert (ledger.calls, ledger.kept, ledger.estimated) == (3, 0, 0)
    assert journal.rows("select count(*), sum(cost_usd) from failures")[0] == (3, pytest.approx(3 * TRUE_USD))


async def test_probes_and_canaries_are_paid_for(serve, connect, journal):
    """A scoring probe, a chat probe, and 12 canaries: 9 texts, and 3 of them again."""
    server = serve(speaks={"vllm"})
    model, ledger = connect(server, use="both"), Ledger("toy", PRICE, Budget(1.0))
    model.charge_to(ledger)
    await model.prepare()
    charged = [len(server.bodies(path)) for path in ("/v1/chat/completions", "/v1/completions")]
    assert ledger.calls == sum(charged) == 2
    with pytest.raises(goldless.errors.CanaryError):
        await check_scorer(model, journal, ledger)  # the toy language does not read its context
    assert ledger.calls == 1 + len(server.bodies("/v1/completions")) == 14
    assert ledger.kept == 0
    assert ledger.spent_usd > 0


async def test_a_budget_too_small_for_a_probe_sends_nothing(serve, connect):
    server = serve()
    model = connect(server)
    model.charge_to(Ledger("toy", PRICE, Budget(1e-9)))
    with pytest.raises(BudgetError, match="does not allow the short calls"):
        await model.prepare()
    assert server.bodies("/v1/chat/completions") == []


NO_MAX_TOKENS = (400, {}, "Unsupported parameter: 'max_tokens' is not supported with this model.")
"""What OpenAI says of its reasoning models, whose limit includes 4,096 tokens of thinking here."""


async def test_a_probe_reserves_what_it_is_really_sent_with(serve, connect):
    """The second wording allows 16 + 4096 tokens at 60 dollars per million, so at least .2467 dollars."""
    server = serve(faults=[NO_MAX_TOKENS])
    budget, model = Budget(0.01), connect(server, use="chat")
    model.charge_to(Ledger("toy", Price(15.0, 60.0), budget))
    with pytest.raises(BudgetError, match="does not allow the short calls"):
        await model.prepare()
    assert len(server.bodies("/v1/chat/completions")) == 1, "only the one that was refused"
    assert (budget.committed_usd, budget.under_way) == (0.0, 0)


@pytest.mark.parametrize(("usd", "sent"), [(0.1, 1), (1.0, 2)])
async def test_a_call_that_must_be_sent_in_another_way_reserves_anew(serve, connect, journal, usd, sent):
    """8 tokens at 60 dollars per million, then 8 + 4096: at least .246 dollars."""
    server = serve(faults=[NO_MAX_TOKENS], chat=lambda _: replying(None))
    model, budget = connect(server, use="chat"), Budget(usd)
    ledger = Ledger("toy", Price(0.0, 60.0), budget)
    model.charge_to(ledger)
    reply = await JournalledModel(model, journal, ledger).chat(ASK)
    bodies = server.bodies("/v1/chat/completions")
    assert [body.get("max_tokens", body.get("max_completion_tokens")) for body in bodies] == [8, 8 + 4096][:sent]
    assert ledger.spent_usd == pytest.approx((sent - 1) * (8 + 4096) * 60e-6)
    assert isinstance(reply, ChatReply) == (sent == 2)
    assert (budget.committed_usd, budget.under_way) == (ledger.spent_usd, 0)


@pytest.mark.parametrize("anyio_backend", [VIRTUAL_TIME])
async def test_a_call_that_timed_out_may_be_charged_for(serve_here, connect, journal):
    server = await serve_here(faults=["stall"])
    model = connect(server, calling=CallSettings(retries=0, timeout_seconds=60))
    replies, ledger = await ask_all(model, journal, Budget(1.0), calls=1)
    assert replies[0].kind == "timeout"
    assert (ledger.calls, ledger.spent_usd) == (1, MOST_USD)
