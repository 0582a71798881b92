"""``--batch`` and pending batches by the command line, with an imitation of a provider."""

from __future__ import annotations

import json

import pytest

from tests.support.servers.batch_providers import BatchServer
from tests.support.servers.loopback import Behaviour
from tests.support.servers.providers import KEY

TEXTS = {t: {"ann": f"good {t}", "bob": f"poor {t}"} for t in ("t1", "t2", "t3")}


def verdict(asked: str) -> str:
    """The better of the two texts, wherever they stand in the question."""
    return "one" if 0 <= asked.find("good") < asked.find("poor") else "two"


@pytest.fixture
def server(monkeypatch):
    with BatchServer(Behaviour(), say=verdict) as running:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def test_a_review_by_batches_stops_comes_back_and_ranks_as_one_without(goldless, study_file, server, tmp_path):
    review = ("review", study_file(TEXTS), "--reviewers", "openai:toy?price=1:1", "--exam", "none", "--format", "json")
    batched = (*review, "--batch", "--budget", "1USD")
    first = goldless(*batched)
    assert (first.code, first.out) == (3, "")
    assert "6 calls are in 1 batch" in first.err
    assert goldless(*batched).code == 3
    assert len(server.batches) == 1
    listed = json.loads(goldless("journal", "show", "--format", "json").out)["batches"]
    assert [(batch["id"], batch["calls"], batch["model"]) for batch in listed] == [
        (next(iter(server.batches)), 6, "openai:toy")
    ]
    server.end()
    ended = goldless(*batched)
    assert ended.code == 0, ended.err
    plain = goldless(*review, "--journal", tmp_path / "other.sqlite")
    assert json.loads(ended.out)["rankings"] == json.loads(plain.out)["rankings"]
    assert json.loads(goldless("journal", "show", "--format", "json").out)["batches"] == []


def test_an_exam_by_batches_goes_on_in_a_later_round(goldless, study_file, server):
    review = ("review", study_file(TEXTS), "--reviewers", "openai:toy", "--exam", "consistency", "--batch")
    rounds = 0
    while (ended := goldless(*review)).code == 3 and rounds < 5:
        server.end()
        rounds += 1
    assert ended.code == 0, ended.err
    assert rounds >= 1
    asked = [key for batch in server.batches.values() for key in batch["calls"]]
    assert len(asked) == len(set(asked))


def test_a_batch_can_be_forgotten(goldless, study_file, server):
    goldless("review", study_file(TEXTS), "--reviewers", "openai:toy", "--exam", "none", "--batch")
    [name] = server.batches
    wrong = goldless("journal", "clear", "--batch", f"{name}0")
    assert (wrong.code, f"Did you mean '{name}'" in wrong.err) == (2, True)
    assert "sends its 6 calls again" in goldless("journal", "clear", "--batch", name).err
    assert json.loads(goldless("journal", "show", "--format", "json").out)["batches"] == []


def test_a_plan_with_batches_costs_half(goldless, study_file):
    plan = (
        "plan",
        study_file(TEXTS),
        "--metric",
        "tvd-mi",
        "--critic",
        "anthropic:claude-sonnet-4-5",
        "--format",
        "json",
    )
    usual, batched = (json.loads(goldless(*plan, *more).out)["together"] for more in ((), ("--batch",)))
    assert [row["cost_usd"] for row in batched] == [row["cost_usd"] / 2 for row in usual]
