"""What a server may take of time, attempts, places and memory is limited, and what it may say is checked."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from types import MappingProxyType

import anyio
import orjson
import pytest
from aiohttp import web

from goldless.models.http_api import client
from goldless.models.http_api.client import CallSettings
from goldless.models.interface import ChatRequest, Message, TokenLogprobs
from goldless.models.journalled import JournalledModel
from goldless.models.usage import Ledger
from goldless.records import CallFailure
from goldless.runs.opening import Part, open_models
from goldless.runs.options import Options
from tests.support.paid_twice import counts
from tests.support.servers.loopback import LoopbackServer, chat_reply

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Hello?"),))
CHOOSE = ChatRequest((Message("user", "Which?"),), choices=("one", "two"), logprobs=True)
ONCE = CallSettings(retries=0, patience_seconds=0.0)


class Raw(LoopbackServer):
    """Answers each call with this body and these headers, slowly if wanted."""

    body = b"{}"
    headers: Mapping[str, str] = MappingProxyType({})
    seconds_between_bytes = 0.0

    async def _answer_or_misbehave(self, request: web.Request, body: object) -> web.StreamResponse:
        if body is None:
            return await super()._answer_or_misbehave(request, body)
        response = web.StreamResponse(headers={"Content-Type": "application/json", **self.headers})
        await response.prepare(request)
        step = 1 if self.seconds_between_bytes else 1 << 16
        for begin in range(0, len(self.body), step):
            await response.write(self.body[begin : begin + step])
            await anyio.sleep(self.seconds_between_bytes)
        return response


@pytest.fixture
def raw():
    with Raw() as server:
        yield server


# --- size and time -----------------------------------------------------------------------------------------------


async def test_a_reply_longer_than_allowed_is_a_bad_reply_that_may_be_charged_for(raw, connect, monkeypatch):
    monkeypatch.setattr(client, "MOST_REPLY_BYTES", 1000)
    raw.body = orjson.dumps(chat_reply("x" * 2000))
    failure = await connect(raw).chat(ASK)
    assert (failure.kind, failure.attempts, failure.charged) == ("bad_reply", 1, (0, 0))
    assert "more than 1,000 bytes" in failure.message


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_packed_reply_is_limited_after_unpacking(raw, connect, encoding, pack):
    """Some 70 kB that unpack to 70 MB are given up at 64 MB."""
    raw.headers = {"Content-Encoding": encoding}
    raw.body = pack(b" " * 70_000_000)
    assert len(raw.body) < 100_000
    failure = await connect(raw, timeout_seconds=60).chat(ASK)
    assert failure.kind == "bad_reply"
    assert "more than 67,108,864 bytes" in failure.message


async def test_a_reply_that_trickles_ends_by_the_time_limit_although_bytes_arrive(raw, connect):
    raw.body, raw.seconds_between_bytes = orjson.dumps(chat_reply("slow")), 0.05
    failure = await connect(raw, calling=ONCE, timeout_seconds=0.4).chat(ASK)
    assert (failure.kind, failure.charged) == ("timeout", (0, 0))


# --- the options in a specification ----------------------------------------------------------------------------------


async def opened(spec: str, journal):
    async with open_models([Part("reviewer", spec, "chat")], Options(), journal) as models:
        model = models["reviewer"].model
        return model._client.calling.retries, model._client.calling.timeout_seconds, model._client.limiter.maximum


async def test_a_specification_limits_time_retries_and_calls_at_once(serve, journal):
    url = f"{serve().url}#toy"
    assert await opened(url, journal) == (5, 600.0, 1024)
    assert await opened(f"{url}?timeout=7.5&retries=2&concurrency=3", journal) == (2, 7.5, 3)
    assert await opened(f"{url}?retries=0", journal) == (0, 600.0, 1024)


# --- log-probabilities that cannot be ------------------------------------------------------------------------------


def chosen(*listed: float) -> dict:
    """A reply that writes "one", with these log-probabilities of "one", "two" and so on."""
    rows = [{"token": token, "logprob": value} for token, value in zip(("one", "two", "x"), listed, strict=False)]
    return chat_reply("one", logprobs=[{**rows[0], "top_logprobs": rows}])


@pytest.mark.parametrize("listed", [(2.0, -5.0), (0.0, 0.0), (5.0, 5.0), (-0.1, 0.5), (700.0, -1.0), (1000.0, -1.0)])
async def test_probabilities_that_cannot_be_are_a_bad_reply_and_never_a_verdict(serve, connect, listed):
    """The values that a trial of faults found to become verdicts."""
    failure = await connect(serve(chat=lambda _: chosen(*listed))).chat(CHOOSE)
    assert failure.kind == "bad_reply"


@pytest.mark.parametrize("value", [1e308, 0.0011, 2])
async def test_a_written_tokens_impossible_log_probability_is_a_bad_reply(serve, connect, value):
    reply = chat_reply("one", logprobs=[{"token": "one", "logprob": value}])
    failure = await connect(serve(chat=lambda _: reply)).chat(ChatRequest(ASK.messages, logprobs=True))
    assert failure.kind == "bad_reply"


# --- keys and the journal -----------------------------------------------------------------------------------------

SECRET = "sk-very-secret-0123456789"


def everything_in(journal):
    """The bytes of the journal and of the files beside it."""
    return b"".join(file.read_bytes() for file in journal.path.parent.glob("journal.sqlite*"))


@pytest.mark.parametrize("escaped", [False, True])
async def test_a_key_that_a_model_writes_is_not_in_the_journal(raw, connect, journal, monkeypatch, escaped):
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", SECRET)
    tokens = [{"token": part, "logprob": -0.5} for part in ("Key: ", SECRET[:9], SECRET[9:])]
    said = orjson.dumps(chat_reply(f"Key: {SECRET}", logprobs=tokens))
    raw.body = said.replace(SECRET.encode(), SECRET.replace("-", "\\u002d").encode()) if escaped else said
    asked = ChatRequest(ASK.messages, logprobs=True)
    reply = await JournalledModel(connect(raw), journal, Ledger("toy", None)).chat(asked)
    assert (reply.text, reply.token_logprobs) == ("Key: [redacted]", None)
    kept = everything_in(journal)
    assert b"Key: [redacted]" in kept
    assert SECRET[9:].encode() not in kept


async def test_the_key_is_not_in_the_journal_even_where_the_server_repeats_it(serve, connect, journal, monkeypatch):
    monkeypatch.setenv("GOLDLESS_HTTP_API_KEY", SECRET)
    server = serve(speaks={"vllm"}, key=SECRET, echo_header_in_errors=True)
    model = connect(server, use="both")
    await model.prepare()
    through = JournalledModel(model, journal, Ledger("toy", None))

    assert (await through.chat(ASK)).text == "A fine reply."
    server.behaviour.faults = [(400, {}, "boom")] * 5
    assert isinstance(await through.chat(CHOOSE), CallFailure)
    server.behaviour.faults = []
    replies: dict = {}
    await through.score([await through.encode([Message("user", "one two")], "three")], replies.update)
    assert isinstance(replies[0], TokenLogprobs)

    assert f"Bearer {SECRET}" in server.authorizations
    assert counts(journal)["calls"] == 2
    assert counts(journal)["failures"] >= 1
    kept = everything_in(journal)
    assert b"boom" in kept, "the server's words are kept"
    assert b"very-secret" not in kept
