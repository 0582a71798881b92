"""Money has an owner: however a call ends, nothing stays reserved or claimed, and nothing is paid for twice."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import closing

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldless.errors import CallError, GoldlessError, UserError
from goldless.models.catalogue import open_model
from goldless.models.http_api import CallSettings
from goldless.models.interface import (
    ChatReply,
    ChatRequest,
    Message,
    ModelIdentity,
    NotSentError,
    QueueFullError,
    ScoreRequest,
    Usage,
)
from goldless.models.journal import Journal
from goldless.models.journalled import BatchedChat, JournalledModel, batches_out
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Budget, Ledger, Price, most_usage
from goldless.records import CallFailure
from tests.support.paid_twice import called_after_reply
from tests.support.servers.batch_providers import BatchServer
from tests.support.servers.loopback import Behaviour
from tests.support.servers.providers import KEY
from tests.support.servers.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

PRICE = Price(1e6, 1e6)
"""A dollar per token."""
QUESTION = ChatRequest((Message("user", "a"),), max_tokens=10)
MOST_USD = 27.0
"""One letter, 16 for the marks of a message, and 10 tokens of reply."""
SPEC = "openai:toy"


def question(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text),), max_tokens=10)


# --- calls that are made at once -----------------------------------------------------------------------------------


class Ending(ScriptedModel):
    """Ends a call in the given way; scores as it writes."""

    def __init__(self, how: str) -> None:
        super().__init__(name="ending", answers={}, logprobs={})
        self.how = how

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        self.calls.append(request)
        if self.how == "is refused":
            return CallFailure("rejected", "no")
        if self.how == "fails":
            return CallFailure("server_error", "no", charged=(0, 0))
        if self.how == "raises":
            raise UserError("no call would fare better")
        if self.how == "breaks":
            raise RuntimeError("broken")
        if self.how in {"is cancelled", "times out"}:
            await anyio.sleep(3600)
        return ChatReply("yes", usage=Usage(5, 1))

    async def score(self, requests, deliver) -> None:
        for number, request in enumerate(requests):
            deliver({number: await self.chat(request)})


ENDS = {
    "returns": 6.0,
    "is refused": 0.0,
    "fails": MOST_USD,
    "raises": MOST_USD,
    "breaks": MOST_USD,
    "is cancelled": MOST_USD,
    "times out": MOST_USD,
}
"""What each way to end costs: what the reply says, nothing if it was not taken, else what it can have cost at most."""


async def end(how: str, work) -> None:
    """Run work to the end that it has."""
    with contextlib.suppress(GoldlessError, TimeoutError, RuntimeError):
        if how == "times out":
            with anyio.fail_after(0.05):
                await work()
        elif how == "is cancelled":
            with anyio.move_on_after(0.05):
                await work()
        else:
            await work()


@pytest.mark.parametrize("anyio_backend", [VIRTUAL_TIME])
@pytest.mark.parametrize("how", ENDS)
async def test_however_a_call_ends_nothing_of_it_stays(journal, how):
    model, budget = Ending(how), Budget(MOST_USD + 1)
    ledger = Ledger("m", PRICE, budget)
    chat = JournalledModel(model, journal, ledger)
    await end(how, lambda: chat.chat(QUESTION))
    assert ledger.spent_usd == ENDS[how]
    assert (budget.committed_usd, budget.under_way) == (ledger.spent_usd, 0)
    assert journal.rows("select * from claims") == []
    # the next call is answered or refused at once: it waits for nobody
    model.how = "returns"
    with anyio.fail_after(10):
        reply = await chat.chat(question("b"))
    assert isinstance(reply, ChatReply) == (ENDS[how] == 0)
    assert ledger.spent_usd <= budget.limit_usd


@pytest.mark.parametrize("anyio_backend", [VIRTUAL_TIME])
@pytest.mark.parametrize("how", sorted(ENDS.keys() - {"returns", "breaks"}))
async def test_however_scoring_ends_nothing_of_it_stays(journal, how):
    budget = Budget(100)
    ledger = Ledger("m", PRICE, budget)
    requests = [ScoreRequest((1, 2), (number,)) for number in range(3)]
    scorer = JournalledModel(Ending(how), journal, ledger)
    await end(how, lambda: scorer.score(requests, lambda _: None))
    most_usd = sum(PRICE.cost(most_usage(request)) for request in requests)
    assert ledger.spent_usd == (0.0 if how == "is refused" else most_usd)
    assert (budget.committed_usd, budget.under_way) == (ledger.spent_usd, 0)
    assert journal.rows("select * from claims") == []


# --- probes and batches, at a server -------------------------------------------------------------------------------

FAULTS = {
    "returns": None,
    "is refused": (400, {}, "no"),
    "is told to wait": (429, {"Retry-After": "0"}, "later"),
    "fails": (500, {}, "boom"),
    "breaks off": "cut",
    "is cancelled": "stall",
}
QUICK = CallSettings(retries=0, patience_seconds=0.0, timeout_seconds=60.0)


@pytest.fixture
def server(monkeypatch):
    with BatchServer(Behaviour(), say=lambda text: f"Reply to {text}") as running:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.root)
        yield running


@pytest.mark.parametrize("how", FAULTS)
async def test_however_a_probe_ends_nothing_of_it_stays(serve, connect, how):
    server = serve(faults=[] if FAULTS[how] is None else [FAULTS[how]] * 9)
    model, budget = connect(server, use="chat", calling=QUICK), Budget(1e4)
    ledger = Ledger("toy", PRICE, budget)
    model.charge_to(ledger)
    with contextlib.suppress(GoldlessError), anyio.move_on_after(1.0):
        await model.prepare()
    free = how in {"is refused", "is told to wait"}
    assert (ledger.calls, ledger.spent_usd > 0) == (0 if free else 1, not free)
    assert (budget.committed_usd, budget.under_way) == (ledger.spent_usd, 0)


@pytest.mark.parametrize("spec", [SPEC, "anthropic:claude-toy-1"])
@pytest.mark.parametrize("how", FAULTS)
async def test_however_the_sending_of_a_batch_ends_each_call_is_in_one_batch_or_free(server, journal, spec, how):
    """Only where nobody knows whether a batch arrived, its calls stay claimed and committed until the user decides."""
    model, budget = open_model(f"{spec}?retries=0", use="chat"), Budget(100)
    chat = BatchedChat(model, journal, Ledger("toy", PRICE, budget))
    assert [(await chat.chat(question(text))).kind for text in "ab"] == ["waiting"] * 2
    server.behaviour.faults = [] if FAULTS[how] is None else [FAULTS[how]] * 9
    with contextlib.suppress(CallError, NotSentError), anyio.move_on_after(1.0):
        await chat.submit()
    await model.aclose()
    assert budget.under_way == 0, "calls of a batch end with no call: nobody waits for them"
    out, claims = batches_out(journal), journal.rows("select count(*) from claims")[0][0]
    perhaps = (how in {"fails", "breaks off", "is cancelled"} and spec != SPEC) or (how, spec) == ("is cancelled", SPEC)
    if how == "returns":
        assert [(batch.calls, batch.id is None) for batch in out] == [(2, False)]
    elif perhaps:
        assert [(batch.calls, batch.id) for batch in out] == [(2, None)]
    else:
        assert out == []
        assert chat.unsent == 2
    assert claims == (2 if out else 0)
    assert budget.committed_usd == (2 * MOST_USD if out else 0.0)


# --- kill -9 -------------------------------------------------------------------------------------------------------

DOOMED = """
    import sys
    import anyio
    from goldless.models.catalogue import open_model
    from goldless.models.interface import ChatRequest, Message
    from goldless.models.journal import Journal
    from goldless.models.journalled import BatchedChat, JournalledModel
    from goldless.models.usage import Ledger

    async def work():
        model = open_model("openai:toy", use="chat")
        journal, ledger = Journal(sys.argv[1]), Ledger("toy", None)
        request = ChatRequest((Message("user", "a"),), max_tokens=10)
        if sys.argv[2] == "live":
            await JournalledModel(model, journal, ledger).chat(request)
        else:
            chat = BatchedChat(model, journal, ledger)
            await chat.chat(request)
            await chat.submit()

    anyio.run(work)
"""


def kill_while_asking(server, path, kind: str, asked: str) -> None:
    """Start a process that asks for one text, and kill it once the server has its request."""
    server.behaviour.faults = ["stall"]
    command = [sys.executable, "-c", textwrap.dedent(DOOMED), str(path), kind]
    with subprocess.Popen(command) as process:
        while asked not in server.paths():
            assert process.poll() is None
        process.kill()
    server.behaviour.faults = []


@pytest.mark.slow
async def test_a_killed_process_keeps_no_call_from_others(server, tmp_path):
    """Its reply was not received, so the call is made once more: by whoever comes, alone or in a batch."""
    path = tmp_path / "journal.sqlite"
    kill_while_asking(server, path, "live", "/v1/chat/completions")
    model = open_model(SPEC, use="chat")
    with closing(Journal(path)) as journal:
        assert journal.rows("select count(*) from claims") == [(1,)]
        chat = BatchedChat(model, journal, Ledger("toy", None))
        await chat.chat(QUESTION)
        await chat.submit()
        assert [batch.calls for batch in chat.waiting()] == [1]
        live = await JournalledModel(model, journal, Ledger("toy", None)).chat(QUESTION)
        assert live.kind == "waiting", "now it is in the batch"
    await model.aclose()


@pytest.mark.slow
async def test_a_batch_whose_process_was_killed_while_sending_is_not_sent_again_unasked(server, tmp_path):
    path = tmp_path / "journal.sqlite"
    kill_while_asking(server, path, "batch", "/v1/files")
    model = open_model(SPEC, use="chat")
    with closing(Journal(path)) as journal:
        assert (await JournalledModel(model, journal, Ledger("toy", None)).chat(QUESTION)).kind == "waiting"
        with pytest.raises(UserError, match="whether it arrived is not known"):
            await BatchedChat(model, journal, Ledger("toy", None)).collect()
    await model.aclose()
    assert server.batches == {}


# --- any number of processes, in any order -------------------------------------------------------------------------


class Provider(ScriptedModel):
    """A provider with live calls, batches and a bounded queue, which counts what it works on; shared by processes."""

    most_batch_calls = 3
    most_batch_bytes = 10**9

    def __init__(self) -> None:
        super().__init__(name="provider", answers={})
        self.answered: Counter[str] = Counter()
        self.unheard: Counter[str] = Counter()
        """Of these, the live ones whose asker was cancelled before the reply came."""
        self.cost_usd = 0.0
        self.queued: dict[str, list[str]] = {}
        self.ended: dict[str, dict[str, ChatReply]] = {}
        self.overfull: set[str] = set()
        self.fault = ""

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("openai", "provider")

    def reply(self, text: str) -> ChatReply:
        self.answered[text] += 1
        self.cost_usd += 6.0
        return ChatReply(f"Reply to {text}", usage=Usage(5, 1))

    async def chat(self, request: ChatRequest) -> ChatReply:
        text = request.messages[-1].content
        reply = self.reply(text)
        self.unheard[text] += 1
        await anyio.sleep(1)
        self.unheard[text] -= 1
        return reply

    def batch_line(self, key: str, request: ChatRequest) -> bytes:
        return f"{key} {request.messages[-1].content}".encode()

    async def send_batch(self, lines: list[bytes]) -> str:
        await anyio.sleep(0.1)
        if self.fault == "not taken":
            raise NotSentError("not taken")
        if self.fault == "queue":
            raise QueueFullError("queue")
        name = f"batch{len(self.queued) + len(self.ended) + len(self.overfull)}"
        self.queued[name] = [line.decode() for line in lines]
        if self.fault == "too many":
            self.overfull.add(name)
        return name

    def end_batches(self) -> None:
        for name, lines in self.queued.items():
            if name not in self.overfull:
                calls = [line.split() for line in lines]
                self.ended[name] = {key: self.reply(text) for key, text in calls}
        self.queued = {}

    async def batch_replies(self, batch: str, requests):
        if batch in self.queued:
            return None
        if batch in self.overfull:
            raise QueueFullError("queue")
        return self.ended[batch]


TEXTS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("live"), TEXTS, st.sampled_from([0.5, 3.0, 3600.0])),  # cancelled after so many seconds
        st.tuples(st.just("batch"), TEXTS, st.sampled_from(["", "", "not taken", "queue", "too many"])),
        st.tuples(st.just("both"), TEXTS, st.sampled_from([0.05, 3600.0])),
        st.tuples(st.just("end"), TEXTS, st.just("")),
    ),
    max_size=12,
)


async def run_live(provider: Provider, path, texts: list[str], seconds: float, budget: Budget) -> None:
    ledger = Ledger("m", PRICE, budget)
    with closing(Journal(path)) as journal, anyio.move_on_after(seconds):
        chat = JournalledModel(provider, journal, ledger)
        async with anyio.create_task_group() as tasks:
            for text in texts:
                tasks.start_soon(chat.chat, question(text))
    assert budget.under_way == 0
    assert budget.committed_usd == ledger.spent_usd <= budget.limit_usd


async def run_batch(provider: Provider, path, texts: list[str], fault: str) -> None:
    budget = Budget(1000)
    with closing(Journal(path)) as journal:
        chat = BatchedChat(provider, journal, Ledger("m", PRICE, budget))
        await chat.collect()
        for text in texts:
            await chat.chat(question(text))
        await anyio.sleep(0.02)
        provider.fault = fault
        with contextlib.suppress(NotSentError):
            await chat.submit()
        provider.fault = ""
        assert budget.under_way == 0
        reserved = sum(batch.reserved_usd for batch in chat.waiting())
        assert budget.committed_usd <= chat.ledger.spent_usd + reserved


async def follow(schedule, path) -> None:
    provider = Provider()
    for kind, texts, detail in schedule:
        if kind == "live":
            await run_live(provider, path, texts, detail, Budget(3 * MOST_USD))
        elif kind == "batch":
            await run_batch(provider, path, texts, detail)
        elif kind == "both":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_live, provider, path, texts, detail, Budget(1000))
                tasks.start_soon(run_batch, provider, path, texts, "")
        else:
            provider.end_batches()
    provider.end_batches()
    await run_batch(provider, path, ["a"], "")
    with closing(Journal(path)) as journal:
        assert called_after_reply(journal) == []
        twice = {text: n for text, n in provider.answered.items() if n - provider.unheard[text] > 1}
        assert twice == {}, "answered again although the reply had come"
        owners = {owner for (owner,) in journal.rows("select owner from claims")}
        assert owners <= {batch.label for batch in batches_out(journal)}, "only batches that are out claim anything"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_in_any_order_of_runs_nothing_is_paid_for_twice_and_the_budget_holds(tmp_path_factory, schedule):
    path = tmp_path_factory.mktemp("schedule") / "journal.sqlite"
    anyio.run(follow, schedule, path, backend=VIRTUAL_TIME[0], backend_options=VIRTUAL_TIME[1])
