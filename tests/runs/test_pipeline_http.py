"""The whole way over a real server on this machine: tasks run side by side, and nothing is asked twice."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl
import pytest

import goldless
from goldless.models.journal import Journal
from tests.support.evidence_frames import scores
from tests.support.paid_twice import called_after_reply, counts
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply
from tests.support.servers.toy_language import Reading

pytestmark = pytest.mark.slow

LN4 = math.log(4)
TASKS = 40
CHECKS = 13
"""A probe of scoring, and the canaries: 9 texts, and 3 of them again."""
ROWS = [
    {"task": f"t{i}", "agent": agent, "text": text}
    for i in range(TASKS)
    for agent, text in (("ann", f"zarn bluk n{i}"), ("bob", f"zarn n{i}"), ("null", "mipo"))
]
# ann's tells both of bob's words and none of null's; bob's tells two of ann's three words; null's tells none
EXPECTED = {"ann": LN4, "bob": LN4, "null": 0.0}


@pytest.fixture
def server():
    with LoopbackServer(Behaviour(speaks={"vllm"}, delay_seconds=0.002)) as running:
        running._bigram = Reading()
        yield running


def evaluate(server, journal, **options):
    settings = {"metrics": "gem-raw", "scorer": f"{server.url}#toy", "journal": journal, "resamples": 200}
    return goldless.evaluate(pl.DataFrame(ROWS), **{**settings, **options})


def prompts(server) -> list[tuple[int, ...]]:
    return [tuple(body["prompt"]) for body in server.bodies("/v1/completions")]


def test_figures_are_the_worked_ones_and_no_question_is_sent_twice(server, tmp_path):
    result = evaluate(server, tmp_path / "j.sqlite")
    assert scores(result) == pytest.approx(EXPECTED)
    assert result.complete
    assert server.most_seen_at_once > 1, "tasks ran side by side"
    marginals_of_null = result.logprobs.filter(pl.col("target") == "null", pl.col("given").is_null())
    assert len(marginals_of_null) == TASKS
    # nine questions a task, but one marginal of null for all of them
    (spent,) = result.spending
    assert (spent.calls, spent.reused) == (8 * TASKS + 1 + CHECKS, 0)
    repeated = {prompt for prompt, count in Counter(prompts(server)).items() if count > 1}
    assert len(repeated) <= 10, "only the canaries and the probe ask again"
    journal = Journal(tmp_path / "j.sqlite")
    assert called_after_reply(journal) == []
    assert counts(journal)["attempts"] == counts(journal)["calls"] == 8 * TASKS + 1
    journal.close()


def test_a_second_run_scores_nothing_anew(server, tmp_path):
    first = evaluate(server, tmp_path / "j.sqlite")
    before = len(prompts(server))
    second = evaluate(server, tmp_path / "j.sqlite")
    assert second.leaderboard() == first.leaderboard()
    assert len(prompts(server)) - before <= 2, "only the probe of what the server can do"


def test_the_same_response_to_many_tasks_is_rewritten_and_paid_once(server, tmp_path):
    server.behaviour.chat = lambda body: chat_reply(body["messages"][-1]["content"])
    spec = f"{server.url}#toy"
    result = evaluate(server, tmp_path / "j.sqlite", metrics="gem", rewriter=spec)
    assert scores(result) == pytest.approx(EXPECTED)
    asked = Counter(body["messages"][-1]["content"] for body in server.bodies("/v1/chat/completions"))
    assert asked["mipo"] == 1
    assert asked["zarn n7"] == 1
    (spent,) = result.spending  # one model in two parts
    assert spent.calls == (8 * TASKS + 1) + (2 * TASKS + 1) + CHECKS + 1  # and the probe of chat
