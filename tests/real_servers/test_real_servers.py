"""Every dialect against its real server; the embedded engine, with the same weights, is the other implementation."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
import time
import urllib.request
from contextlib import closing, contextmanager
from dataclasses import asdict

import polars as pl
import pytest

from goldless.models.catalogue import ANY_SERVER
from goldless.models.http_api import service_model
from goldless.models.interface import ChatRequest, Message
from tests.real_servers.running import LITELLM_KEY, MODEL

NOISE_NATS = 5e-3
"""Largest difference allowed for a sum of some ten to a hundred tokens in float32. vLLM differed by 1.9e-4 on x86-64,
and by 2.9e-3 on arm64, where transformers differs by 2.9e-4."""
JSON = {"Content-Type": "application/json"}
KEYS = ("task", "target", "given")


@pytest.fixture
def score(goldless, small_study, tmp_path):
    """Scores the small study with a model; returns its log-probabilities."""

    def run(model: str, *options: object, out: str = "run") -> pl.DataFrame:
        folder = tmp_path / out
        shared = ("--journal", tmp_path / f"{out}.sqlite", "--out", folder)
        ended = goldless("score", small_study, "--metric", "gem-raw", "--scorer", model, *shared, *options)
        assert ended.code == 0, ended.err
        return pl.read_parquet(folder / "logprobs").sort(*KEYS)

    return run


@pytest.fixture(scope="session")
def embedded_sums():
    return {}


@pytest.fixture
def of_embedded(score, embedded_sums) -> pl.DataFrame:
    if not embedded_sums:
        embedded_sums["sums"] = score("embedded", out="embedded")
    return embedded_sums["sums"]


def largest_difference(one: pl.DataFrame, other: pl.DataFrame) -> float:
    """The largest difference of a sum; the tokens must be the same."""
    assert one.select(*KEYS, "tokens").equals(other.select(*KEYS, "tokens"))
    assert one["sum_logprob_nats"].null_count() == 0
    return (one["sum_logprob_nats"] - other["sum_logprob_nats"]).abs().max()


def test_vllm_gives_the_scores_of_the_embedded_engine(vllm, score, of_embedded, record_property):
    found = score(f"{vllm.url}#{MODEL}")
    record_property("largest difference in nats", difference := largest_difference(found, of_embedded))
    assert difference < NOISE_NATS


def test_through_litellm_the_scores_are_those_of_vllm(litellm, weights, score, of_embedded, record_property):
    found = score(f"{litellm.url}#{MODEL}?tokenizer={weights}&key={LITELLM_KEY}")
    record_property("largest difference in nats", difference := largest_difference(found, of_embedded))
    assert difference < NOISE_NATS


def test_llama_server_is_refused_as_a_scorer_and_used_as_a_critic(llama_server, goldless, small_study, tmp_path):
    model = f"{llama_server.url}"
    shared = ("--journal", tmp_path / "journal.sqlite")
    ended = goldless("score", small_study, "--metric", "gem-raw", "--scorer", model, *shared)
    assert ended.code != 0
    assert "does not return log-probabilities of a given text" in " ".join(ended.err.split())
    ended = goldless("score", small_study, "--metric", "tvd-mi", "--critic", model, *shared, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    assert pl.read_parquet(tmp_path / "run" / "verdicts")["value"].null_count() == 0


def test_transformers_serve_writes(transformers_serve, weights, goldless, small_study, tmp_path):
    model = f"{transformers_serve.url}#{weights}"
    ended = goldless("doctor", model, "--format", "json")
    assert ended.code == 0, ended.err
    assert '"chat": true' in ended.out
    assert '"scoring": false' in ended.out


def test_a_critic_lets_vllm_compute_little_more_than_a_plain_chat_loop(
    vllm, goldless, small_study, tmp_path, record_property
):
    """It was 6.4 times as much when every label was scored."""
    journal = tmp_path / "journal.sqlite"
    shared = ("--journal", journal, "--out", tmp_path / "run")
    with computing(vllm) as ours:
        ended = goldless("score", small_study, "--metric", "tvd-mi", "--critic", f"{vllm.url}#{MODEL}", *shared)
    assert ended.code == 0, ended.err
    assert pl.read_parquet(tmp_path / "run" / "verdicts")["value"].null_count() == 0

    with closing(sqlite3.connect(journal)) as kept:
        requests = [json.loads(row[0]) for row in kept.execute("select request from calls where kind = 'chat'")]
    with computing(vllm) as plain:
        for request in requests:
            ask(vllm, messages=request["messages"], max_tokens=1, logprobs=True, top_logprobs=20)
    record_property("tokens computed for goldless", ours["tokens"])
    record_property("tokens computed for the plain loop", plain["tokens"])
    assert ours["tokens"] <= 1.2 * plain["tokens"]


@pytest.mark.anyio
async def test_a_label_that_vllm_does_not_list_has_no_guessed_probability_and_can_be_scored(vllm, record_property):
    asked, labels = (Message("user", "Write a poem about the sea, or say Yes."),), ("The", "No")
    listed = ask(vllm, messages=[asdict(asked[0])], max_tokens=1, temperature=0, logprobs=True, top_logprobs=20)
    top = listed["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    tokens = {one["token"]: one["logprob"] for one in top}
    assert "The" in tokens
    assert "No" not in tokens
    model = service_model(ANY_SERVER, f"{vllm.url}#{MODEL}")
    await model.prepare()
    reply = await model.chat(ChatRequest(asked, max_tokens=8, choices=labels))
    scored = {}
    await model.score([await model.encode(asked, label) for label in labels], scored.update)
    await model.aclose()
    assert reply.choice_logprobs is None
    record_property("log p of the label, below the least listed", f"{scored[1].logprobs[0]} < {min(tokens.values())}")
    assert scored[1].logprobs[0] < min(tokens.values())


@contextmanager
def computing(server):
    """The prompt tokens that were computed, not taken from the prefix cache, which is empty in the beginning."""
    post(server.url.removesuffix("/v1") + "/reset_prefix_cache")
    counters = ("vllm:prompt_tokens_total", "vllm:prefix_cache_hits_total")
    before = [server.metric(name) for name in counters]
    found = {}
    yield found
    sent, cached = (server.metric(name) - old for name, old in zip(counters, before, strict=True))
    found["tokens"] = sent - cached


def ask(server, **asked):
    """The reply to a chat request."""
    return json.loads(post(f"{server.url}/chat/completions", {"model": MODEL, **asked}))


def post(url, data=None):
    body = urllib.request.Request(url, b"" if data is None else json.dumps(data).encode(), JSON, method="POST")
    with urllib.request.urlopen(body, timeout=300) as reply:
        assert reply.status == 200
        return reply.read()


def test_a_vllm_that_restarts_in_the_middle_of_a_run_is_waited_for(new_vllm, goldless, small_study, tmp_path):
    """It needs about a minute to start, and a call waits for up to two."""
    server = new_vllm()
    with server:

        def restart() -> None:
            before = server.metric("vllm:request_success_total")
            while server.metric("vllm:request_success_total") < before + 5:
                time.sleep(0.1)
            server.end(signal.SIGKILL)
            server.start()

        helper = threading.Thread(target=restart)
        helper.start()
        shared = ("--journal", tmp_path / "journal.sqlite", "--out", tmp_path / "run")
        model = f"{server.url}#{MODEL}?patience=600"
        ended = goldless("score", small_study, "--metric", "tvd-mi", "--critic", model, *shared)
        helper.join()
    assert ended.code == 0, ended.err
    assert pl.read_parquet(tmp_path / "run" / "verdicts")["value"].null_count() == 0


def test_through_a_router_over_two_servers_nothing_is_lost_or_scored_twice_when_one_is_killed(  # noqa: PLR0917 - fixtures
    vllm, new_vllm, new_litellm, weights, goldless, small_study, tmp_path
):
    journal = tmp_path / "journal.sqlite"
    shared = ("--journal", journal, "--out", tmp_path / "run")
    with new_vllm() as other, new_litellm(vllm, other) as router:
        done = threading.Event()
        before = {server: server.metric("vllm:request_success_total") for server in (vllm, other)}

        def kill() -> None:
            while not done.is_set() and other.metric("vllm:request_success_total") < before[other] + 5:
                time.sleep(0.1)
            other.end(signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        model = f"{router.url}#{MODEL}?tokenizer={weights}&key={LITELLM_KEY}"
        try:
            ended = goldless("score", small_study, "--metric", "gem-raw", "--scorer", model, *shared)
        finally:
            done.set()
            killer.join()
    assert ended.code == 0, ended.err
    assert vllm.metric("vllm:request_success_total") > before[vllm]
    found = pl.read_parquet(tmp_path / "run" / "logprobs")
    assert found["sum_logprob_nats"].null_count() == 0
    with closing(sqlite3.connect(journal)) as kept:
        assert kept.execute("select count(*) from calls where kind = 'score'").fetchone()[0] == len(found)
