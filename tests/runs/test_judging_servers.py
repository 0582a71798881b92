"""Critics on servers: one chat call per question if that shows the labels' probabilities, else scored labels."""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.meta_evaluation.cost import run_costs
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply, rejection
from tests.support.servers.toy_language import Reading

ROWS = [
    {"task": f"t{i}", "agent": agent, "text": f"{word} n{i}"}
    for i in range(4)
    for agent, word in (("ann", "zarn"), ("bob", "bluk"))
]
P_YES = 0.8
PROBES = 2
"""Of chat and of scoring."""
CANARIES = 12


def listed(*tokens):
    top = [{"token": token, "logprob": math.log(p)} for token, p in tokens]
    return [{**top[0], "top_logprobs": top}]


def sure(body):
    """A reply that shows both labels."""
    return chat_reply("Yes", logprobs=listed(("Yes", P_YES), ("No", 1 - P_YES)) if body.get("logprobs") else None)


def unsure(body):
    """A reply whose alternatives leave much room for a label that is not listed, except to the probe."""
    asked = body["messages"][-1]["content"]
    if "water wet" in asked:
        return sure(body)
    return chat_reply("Yes", logprobs=listed(("Yes", 0.5), ("Maybe", 0.2)))


@pytest.fixture
def judged(tmp_path):
    """TVD-MI by a critic on a server that also scores: the result, and the server."""

    def judge(chat, *, asked_with="", **options):
        listed_by_vllm = [{"id": "toy", "object": "model", "root": "toy", "max_model_len": 2048}]
        with LoopbackServer(Behaviour(speaks={"vllm"}, chat=chat, models=listed_by_vllm)) as server:
            server._bigram = Reading()
            result = goldless.evaluate(
                pl.DataFrame(ROWS),
                metrics="tvd-mi",
                critic=f"{server.url}#toy{asked_with}",
                journal=tmp_path / "j.sqlite",
                resamples=200,
                **options,
            )
        return result, server

    return judge


def test_a_critic_that_shows_its_probabilities_is_asked_once_per_question(judged):
    result, server = judged(sure)
    questions = len(result.verdicts)
    assert result.verdicts["value"].to_list() == pytest.approx([P_YES] * questions)
    assert len(server.bodies("/v1/chat/completions")) == questions + 1  # the probe
    assert len(server.bodies("/v1/completions")) == 1  # the probe: no label is scored, no canary flies
    (spent,) = result.spending
    assert spent.calls == questions + PROBES


def test_on_more_tasks_the_questions_grow_and_the_probes_do_not(judged, tmp_path):
    result, _ = judged(sure)
    folder = goldless.save_run(result, tmp_path / "run")
    (row,) = run_costs([folder], tasks=4 * 100).rows
    assert row.calls == len(result.verdicts) + PROBES
    assert row.scaled.calls == pytest.approx(100 * len(result.verdicts))
    (spent,) = result.spending
    kept = spent.kept_usage.input_tokens + spent.kept_usage.output_tokens
    assert kept < row.tokens
    assert row.scaled.tokens == pytest.approx(100 * kept)


def test_a_failed_call_is_no_progress(judged):
    """Asked about bob's text first, the server fails: half of the questions."""

    def failing(body):
        asked = body["messages"][-1]["content"]
        if "bluk" in asked and asked.index("bluk") < asked.index("zarn"):
            raise rejection(500, "out of memory")
        return sure(body)

    reports = []
    result, _ = judged(failing, asked_with="?retries=0", progress=reports.append)
    half = len(result.verdicts) // 2
    assert result.verdicts["value"].null_count() == half
    assert (reports[-1].done, reports[-1].failed, reports[-1].total) == (half, half, 2 * half)


def test_labels_are_scored_where_a_reply_does_not_show_them(judged):
    result, server = judged(unsure)
    questions = len(result.verdicts)
    assert set(result.verdicts["read_from"]) == {"probabilities"}
    (spent,) = result.spending
    labels = 2
    assert spent.calls == questions * (1 + labels) + PROBES + CANARIES
    assert len(server.bodies("/v1/chat/completions")) == questions + 1  # the probe
