"""A fleet of servers: where work goes, what happens when servers come and go, and that nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import anyio
import pytest
from loopback import Behaviour, LoopbackServer

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.catalogue import open_model, unopened_identity
from goldless.models.http_api import FleetModel, RetryPolicy, Timeouts, model_at, replicas
from goldless.models.interface import ChatReply, ChatRequest, Message, TokenLogprobs
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledScorer
from goldless.models.placing import about
from goldless.models.usage import Ledger
from goldless.records import CallFailure

pytestmark = pytest.mark.anyio

FAST = RetryPolicy(
    attempts=4, wait_initial_seconds=0.01, wait_max_seconds=0.05, wait_jitter_seconds=0.01, patience_seconds=5
)
WEIGHTS = [{"id": "toy", "object": "model", "root": "weights-1", "max_model_len": 2048}]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(replicas, "CHECK_SECONDS", 0.05)


@pytest.fixture
async def gather(anyio_backend) -> AsyncIterator[Callable[..., FleetModel]]:
    """Makes a model on several servers, and closes it at the end."""
    async with AsyncExitStack() as stack:

        def make(said: str, more: str = "", **options: object) -> FleetModel:
            options = {"retry": FAST, "timeouts": Timeouts(connect_seconds=60.0, total_seconds=60.0), **options}
            model = model_at(f"{said}#toy{more}", **options)
            assert isinstance(model, FleetModel)
            stack.push_async_callback(model.aclose)
            return model

        yield make


@pytest.fixture
def two(serve):
    return serve(speaks={"vllm"}, models=WEIGHTS), serve(speaks={"vllm"}, models=WEIGHTS)


def named(*servers: LoopbackServer) -> str:
    return ",".join(server.url for server in servers)


async def ask(model: FleetModel, task: str, number: int):
    with about(task):
        return await model.chat(ChatRequest((Message("user", f"question {number} of {task}"),)))


def asked_of(server: LoopbackServer) -> list[str]:
    """The questions of a server, without probes."""
    bodies = server.bodies("/v1/chat/completions")
    return [text for body in bodies if (text := body["messages"][-1]["content"]).startswith("question")]


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110 - nothing sets an event for it
            await anyio.sleep(0.005)


async def test_a_task_stays_on_one_server_and_tasks_are_spread(two, gather):
    model = gather(named(*two), use="chat")
    await model.prepare()
    for number in range(3):
        for task in range(40):
            assert isinstance(await ask(model, f"task {task}", number), ChatReply)
    counts = [Counter(text.split(" of ")[1] for text in asked_of(server)) for server in two]
    assert counts[0].keys().isdisjoint(counts[1])
    assert set(counts[0].values()) | set(counts[1].values()) == {3}
    assert min(len(tasks) for tasks in counts) >= 8  # 40 fair coins fall below in one case of 100,000


async def test_work_of_a_server_that_dies_is_done_by_the_others_and_nothing_is_scored_twice(gather, tmp_path):
    """The second server ends while it computes: what it has answered stays, what it has not goes to the first."""
    slow = Behaviour(speaks={"vllm"}, models=WEIGHTS)
    with LoopbackServer(Behaviour(speaks={"vllm"}, models=WEIGHTS)) as stays:
        dies = LoopbackServer(slow)
        dies.__enter__()
        said: list[str] = []
        model = gather(named(stays, dies), use="scoring", say=said.append, concurrency=4)
        await model.prepare()
        requests = [await model.encode([Message("user", f"review {i}")], f"answer {i}") for i in range(60)]
        before = len(stays.bodies("/v1/completions")) + len(dies.bodies("/v1/completions"))
        slow.delay_seconds = 0.02
        delivered: Counter[int] = Counter()

        def deliver(replies):
            delivered.update(replies.keys())
            assert all(isinstance(reply, TokenLogprobs) for reply in replies.values())

        async with anyio.create_task_group() as tasks:

            async def kill() -> None:
                await until(lambda: len(dies.bodies("/v1/completions")) >= 12)
                await anyio.to_thread.run_sync(dies.__exit__)

            tasks.start_soon(kill)
            journal = Journal(tmp_path / "journal.sqlite")
            await JournalledScorer(model, journal, Ledger("toy", None)).score(requests, deliver)
        assert delivered == Counter(range(60))
        assert journal.counts()["calls"] == 60
        journal.close()
        sent = len(stays.bodies("/v1/completions")) + len(dies.bodies("/v1/completions")) - before
        assert sent <= 60 + 4  # again only what was in flight
        assert model.findings[-1].ability == dies.url
        assert not model.findings[-1].works
        assert dies.url in said[0]


async def test_a_server_that_returns_is_used_again(gather):
    with LoopbackServer(Behaviour(models=WEIGHTS)) as stays:
        first = LoopbackServer(Behaviour(models=WEIGHTS))
        with first:
            model = gather(named(first, stays), use="chat")
            await model.prepare()
        for number in range(20):
            assert isinstance(await ask(model, f"task {number}", 0), ChatReply)
        assert list(model.replicas.up) == [stays.url]
        with LoopbackServer(Behaviour(models=WEIGHTS), port=first.port) as again:
            await model.replicas.wait(60)
            assert set(model.replicas.up) == {stays.url, again.url}
            for number in range(20):
                assert isinstance(await ask(model, f"task {number}", 1), ChatReply)
            assert len(asked_of(again)) >= 3


async def test_servers_may_be_added_to_the_file_and_taken_off_while_running(two, gather, tmp_path):
    file = tmp_path / "servers.txt"
    file.write_text(f"# the first\n{two[0].url}\n\n")
    model = gather(f"http:@{file}", use="chat")
    await model.prepare()
    assert list(model.replicas.up) == [two[0].url]
    file.write_text(f"{two[0].url}\n{two[1].url}\n")
    await model.replicas.wait(60)
    assert set(model.replicas.up) == {two[0].url, two[1].url}
    file.write_text(f"{two[1].url}\n")
    await until(lambda: two[0].url not in model.replicas.up)
    file.write_text("no address\n")
    await anyio.sleep(0.2)
    assert list(model.replicas.up) == [two[1].url]
    assert isinstance(await ask(model, "task", 0), ChatReply)


async def test_servers_with_different_weights_are_refused_by_name(serve, gather):
    other = [{**WEIGHTS[0], "root": "weights-2"}]
    one, two = serve(models=WEIGHTS), serve(models=other)
    model = gather(named(one, two), use="chat")
    with pytest.raises(ModelSpecError, match="serve different models: revision") as error:
        await model.prepare()
    assert one.url in str(error.value)
    assert two.url in str(error.value)


async def test_servers_that_give_different_log_probabilities_are_refused(serve, gather):
    def shifted(reply):
        for choice in reply["choices"]:
            for entry in choice.get("prompt_logprobs") or ():
                for value in (entry or {}).values():
                    value["logprob"] -= 0.3
        return reply

    one = serve(speaks={"vllm"}, models=WEIGHTS)
    two = serve(speaks={"vllm"}, models=WEIGHTS, damage=shifted)
    with pytest.raises(ModelSpecError, match=r"different log-probabilities to the same text, by 0\.3 nats per token"):
        await gather(named(one, two), use="scoring").prepare()


async def test_a_server_that_is_down_at_the_start_is_done_without(serve, gather):
    said: list[str] = []
    with LoopbackServer() as gone:
        pass
    there = serve(models=WEIGHTS)
    model = gather(f"{gone.url},{there.url}", use="chat", say=said.append)
    await model.prepare()
    assert isinstance(await ask(model, "task", 0), ChatReply)
    assert len(said) == 1
    assert said[0].startswith(f"{gone.url} is not used: no server responds at {gone.url}")


async def test_where_no_server_responds_the_run_does_not_start(gather):
    with LoopbackServer() as one, LoopbackServer() as two:
        said = named(one, two)
    with pytest.raises(PrerequisiteError, match="no server responds"):
        await gather(said).prepare()


async def test_a_call_waits_for_a_server_only_so_long(gather):
    with LoopbackServer(Behaviour(models=WEIGHTS)) as one, LoopbackServer(Behaviour(models=WEIGHTS)) as two:
        model = gather(named(one, two), "?patience=0.2", use="chat")
        await model.prepare()
    reply = await ask(model, "task", 0)
    assert isinstance(reply, CallFailure)
    assert reply.kind == "connection"
    assert reply.attempts == 2


async def test_a_full_server_passes_work_on_to_the_next(two, gather):
    for server in two:
        server.behaviour.delay_seconds = 0.05
    model = gather(named(*two), use="chat", concurrency=2)
    await model.prepare()
    async with anyio.create_task_group() as tasks:
        for number in range(24):
            tasks.start_soon(ask, model, "one task", number)
    assert min(len(asked_of(server)) for server in two) >= 8


async def test_a_fleet_has_the_identity_of_each_of_its_servers(two, gather, tmp_path):
    """What one server was paid for is not asked of a fleet, and the other way round."""
    model = gather(named(*two), use="scoring")
    await model.prepare()
    alone = model_at(f"{two[0].url}#toy", use="scoring")
    await alone.prepare()
    assert model.identity == alone.identity
    await alone.aclose()


async def test_servers_that_do_not_name_their_weights_are_known_by_what_the_user_wrote(serve, gather):
    bare = [{"id": "toy"}]
    one, two = serve(models=bare), serve(models=bare)
    model = gather(named(one, two), use="chat")
    await model.prepare()
    assert model.identity.settings["server"] == named(one, two)
    assert unopened_identity(f"{named(one, two)}#toy").settings["server"] == named(one, two)


async def test_a_bad_question_is_not_sent_to_every_server(two, gather):
    model = gather(named(*two), use="chat")
    await model.prepare()
    for server in two:
        server.behaviour.faults = [(400, {}, "too bad")]
    reply = await ask(model, "task", 0)
    assert isinstance(reply, CallFailure)
    assert reply.kind == "rejected"
    assert sum(len(server.behaviour.faults) for server in two) == 1


async def test_every_bad_line_of_the_file_is_named_at_once(tmp_path):
    file = tmp_path / "servers.txt"
    file.write_text("http://a:8000/v1\nftp://b\nhttp://c:8000/v1#other\n")
    with pytest.raises(ModelSpecError) as error:
        open_model(f"http:@{file}#toy")
    assert str(error.value).splitlines() == [
        f"{file}, line 2: not an http address: 'ftp://b'. Write http://host:port/v1#MODEL",
        f"{file}, line 3: the model must follow the last address or the file, got 'http://c:8000/v1#other'",
    ]
    with pytest.raises(ModelSpecError, match="cannot be read"):
        open_model(f"http:@{tmp_path / 'none.txt'}#toy")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(ModelSpecError, match="has no address"):
        open_model(f"http:@{tmp_path / 'empty.txt'}#toy")
    with pytest.raises(ModelSpecError, match="a file must follow"):
        open_model("http:@#toy")
