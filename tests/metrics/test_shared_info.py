"""shared-info: both directions with task control, without each response's closest peer where there are many agents.

The toy scorer knows a word or does not: a word of the target that the context has is worth ln 4 nats, so expected
values are counts of shared words, done by hand.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.runs.store import save_run
from tests.support.evidence_frames import scores

WORD = math.log(4)
HONEST = tuple(f"h{number}" for number in range(6))
COLLUDING = ("a", "b")
TASKS = ("zarn", "bluk", "vond", "rask", "mipo", "tolu")
CODE = "{0}1 {0}2 {0}3 {0}4 {0}5 {0}6 {0}7 {0}8"


def study(agents=(*HONEST, *COLLUDING), samples=1):
    """Honest agents share one word on each task, colluding ones eight of their own and half a word with the others."""
    rows = [
        {
            "task": task,
            "agent": agent,
            "text": CODE.format(task) + f" {task}" * (place % 2) if agent in COLLUDING else task,
            "sample": str(sample),
        }
        for place, task in enumerate(TASKS)
        for agent in agents
        for sample in range(samples)
    ]
    frame = pl.DataFrame(rows)
    return frame if samples > 1 else frame.drop("sample")


def evaluate(frame, toy_scorer, **options):
    options = {"metrics": "shared-info", "control_tasks": 1, "resamples": 200, **options}
    return goldless.evaluate(frame, scorer=toy_scorer(), **options)


def test_two_agents_cannot_lift_each_other(toy_scorer):
    result = evaluate(study(), toy_scorer, metrics=["shared-info", "gem-raw+control+both"])
    found = scores(result, "shared-info")
    # an honest one: of five honest peers one is left out, so four of six and half a word from each colluding one
    assert found["h0"] == pytest.approx((4 + 2 * 0.5) / 6 * WORD)
    assert found["a"] == pytest.approx(6 * 0.5 / 6 * WORD)
    assert [row.agent for row in result.leaderboard("gem-raw+control+both").rows][:2] == ["a", "b"]
    signature = result.leaderboard("shared-info").signature
    assert "|short-for:gem-raw+control+both|" in signature
    assert "|over:but-closest-peers|" in signature
    assert any("closest peer is left out" in note for note in result.leaderboard("shared-info").notes)


def test_the_pair_is_named_with_the_ranks_that_it_would_have(toy_scorer):
    (finding,) = [one for one in evaluate(study(), toy_scorer).findings if one.kind == "link"]
    assert set(finding.agents) == set(COLLUDING)
    assert "It is left out of their scores" in finding.message
    assert "with it they would rank 1st and 1st instead of 7th and 8th" in finding.message


def test_with_fewer_than_eight_agents_all_peers_count(toy_scorer):
    result = evaluate(study(("h0", "h1", "h2", *COLLUDING)), toy_scorer)
    assert [row.agent for row in result.leaderboard("shared-info").rows][:2] == ["a", "b"]
    assert scores(result)["h0"] == pytest.approx((2 + 2 * 0.5) / 4 * WORD)
    assert "|over:common-peers|" in result.leaderboard("shared-info").signature
    assert any("All peers count" in note for note in result.leaderboard("shared-info").notes)


def test_samples_of_a_colluding_agent_are_left_out_together(toy_scorer):
    result = evaluate(study(samples=2), toy_scorer)
    assert scores(result) == pytest.approx(scores(evaluate(study(), toy_scorer)))


def test_differences_are_those_of_the_scores_in_one_run_and_in_two(toy_scorer, tmp_path):
    changed = study().with_columns(
        text=pl.when(pl.col("agent") == "h0").then(pl.lit("nothing")).otherwise(pl.col("text"))
    )
    found = [evaluate(frame, toy_scorer) for frame in (study(), changed)]
    for number, one in enumerate(found):
        save_run(one, tmp_path / str(number))
    told = goldless.compare(tmp_path / "0", agents=("h0", "a"), resamples=200).metric("shared-info")
    assert told.difference.value == pytest.approx(scores(found[0])["a"] - scores(found[0])["h0"])
    assert told.peers == "but-closest"
    told = goldless.compare(tmp_path / "0", tmp_path / "1", resamples=200).metric("shared-info")
    assert told.difference.value == pytest.approx(scores(found[1])["h0"] - scores(found[0])["h0"])
    assert told.peers == "but-closest"
