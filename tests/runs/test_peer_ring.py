"""Peers drawn in a ring: everyone serves as often as it is scored, and scores are near those with all peers."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import goldless
from goldless.errors import UserError
from goldless.metrics.metric import scores_over_peers
from goldless.runs.peer_ring import DRAWN_PEERS, FEWEST_AGENTS, ring, ring_pairing
from goldless.runs.replay import replay
from goldless.runs.store import save_run
from tests.support.evidence_frames import scores

TASKS = ("zarn", "bluk", "vond", "rask", "mipo", "tolu")
CODE = "{0}1 {0}2 {0}3 {0}4 {0}5 {0}6 {0}7 {0}8"
WORD = np.log(4)


def names(count):
    return [f"a{number:02}" for number in range(count)]


def study(agents=12, colluding=0):
    """Honest agents share one word on each task; colluding ones share eight of their own."""
    rows = [
        {"task": task, "agent": agent, "text": CODE.format(task) if place < colluding else f"{task} {agent}"}
        for task in TASKS
        for place, agent in enumerate(names(agents))
    ]
    return pl.DataFrame(rows)


def evaluate(frame, scorer, **options):
    options = {"metrics": "shared-info", "resamples": 200, "journal": None, **options}
    return goldless.evaluate(frame, scorer=scorer, **options)


def peers_in_signature(result, metric="shared-info"):
    return re.search(r"\|peers:([^|]*)\|", result.leaderboard(metric).signature)[1]


@pytest.mark.parametrize("size", range(2, 16))
@pytest.mark.parametrize("peers", [1, 2, 3, 8, 20])
def test_every_agent_serves_as_often_as_it_is_scored(size, peers):
    found = ring(names(size), peers, seed=0, task="t")
    expected = min(peers, size - 1)
    assert all(len(set(mine) - {agent}) == len(mine) == expected for agent, mine in found.items())
    assert set(Counter(peer for mine in found.values() for peer in mine).values()) == {expected}


def test_with_an_even_number_a_pair_counts_for_both():
    found = ring(names(14), 8, seed=0, task="t")
    assert all(agent in found[peer] for agent, peers in found.items() for peer in peers)


def test_the_draw_is_by_seed_and_task_and_not_by_the_order_of_agents():
    def drawn(agents, seed=0, task="t"):
        return {agent: set(peers) for agent, peers in ring(agents, 4, seed, task).items()}

    usual = drawn(names(9))
    assert drawn(names(9)[::-1]) == usual
    assert drawn(names(9), seed=1) != usual
    assert drawn(names(9), task="u") != usual


def test_calls_grow_with_the_agents_and_not_with_their_square(toy_scorer):
    def calls(agents, **options):
        return evaluate(study(agents), toy_scorer(), metrics="gem-raw+both", **options).asked

    tasks = len(TASKS)
    for agents in (12, 24):
        assert calls(agents, peers=DRAWN_PEERS) == tasks * agents * (1 + DRAWN_PEERS)
    assert calls(12) == tasks * 12 * 12


def test_from_eleven_agents_on_shared_info_draws_eight_peers_and_the_papers_metrics_none(toy_scorer):
    few = evaluate(study(FEWEST_AGENTS - 1), toy_scorer())
    many = evaluate(study(FEWEST_AGENTS), toy_scorer(), metrics=["shared-info", "gem-raw"])
    every = evaluate(study(FEWEST_AGENTS), toy_scorer(), peers=["all"])
    three = evaluate(study(FEWEST_AGENTS), toy_scorer(), metrics="shared-info[peers=3]")
    assert peers_in_signature(few) == peers_in_signature(every) == peers_in_signature(many, "gem-raw") == "all"
    assert peers_in_signature(many) == "ring-8"
    assert peers_in_signature(three) == "ring-3"
    assert {row.asked for row in many.leaderboard("shared-info").rows} == {len(TASKS) * (DRAWN_PEERS - 1)}
    assert {row.asked for row in many.leaderboard("gem-raw").rows} == {len(TASKS) * (FEWEST_AGENTS - 1)}
    assert "over:drawn-but-closest-peers" in many.leaderboard("shared-info").signature
    with pytest.raises(UserError, match="exclude each other"):
        evaluate(study(), toy_scorer(), metrics="shared-info[peers=3]", peers=4)


def test_a_run_is_replayed_with_the_peers_that_it_drew(toy_scorer, tmp_path):
    live = evaluate(study(), toy_scorer(), metrics=["shared-info", "gem-raw"], seed=5)
    save_run(live, tmp_path / "run")
    assert asyncio.run(replay(tmp_path / "run")).outcome == "equal"


@pytest.mark.parametrize("colluding", [2, 3])
def test_agents_with_a_code_of_their_own_gain_nothing_or_are_named(toy_scorer, colluding):
    result = evaluate(study(12, colluding), toy_scorer())
    found = scores(result, "shared-info")
    honest = [found[agent] for agent in names(12)[colluding:]]
    if colluding == 2:
        assert max(found[agent] for agent in names(12)[:2]) < min(honest)
    assert any(set(names(12)[:colluding]) == set(one.agents) for one in result.findings if one.kind == "link")


def pairs_of(recorded):
    """Every pair's gain on alpaca_dev, of a response given its peer's, from the recorded table."""
    rows = pl.read_parquet(recorded).with_columns(pl.col("task", "target", "given", "target_task").cast(pl.String))
    pairs = rows.filter(target_task="").select("task", agent="target", peer="given", score="gain")
    return pairs.with_columns(missing=pl.lit(None, pl.String)).sort("task", "agent", "peer")


def agents_scores(pairs, over):
    found = scores_over_peers(pairs, over, but_closest=True).responses
    return found.group_by("agent").agg(pl.col("score").mean()).sort("agent")["score"].to_numpy()


def test_eight_drawn_peers_order_agents_as_all_peers_do(recorded):
    """22 models and one that cheats on 25 open questions."""
    pairs = pairs_of(recorded / "truth/gains_135m/alpaca_dev.parquet")
    tasks, agents = (pairs[name].unique(maintain_order=True).to_list() for name in ("task", "agent"))
    source = Drawn(tasks, agents)
    every = agents_scores(pairs, "common")
    of_seeds = []
    for seed in range(10):
        pairing = ring_pairing(source, DRAWN_PEERS, seed)
        drawn = [(task, agent, peer) for (task, agent), peers in pairing.items() for peer in peers]
        some = pairs.join(pl.DataFrame(drawn, ["task", "agent", "peer"], orient="row"), on=["task", "agent", "peer"])
        found = agents_scores(some, "drawn")
        of_seeds.append((spearmanr(found, every)[0], np.corrcoef(found, every)[0, 1]))
    ranks, values = np.transpose(of_seeds)
    assert ranks.mean() >= 0.97
    assert values.min() >= 0.99


class Drawn:
    """The names of a study, without texts."""

    def __init__(self, tasks, agents):
        self.samples = {}
        self.agent_list = tuple(agents)
        self._tasks = tasks

    def __iter__(self):
        return iter([(SimpleNamespace(task=task), ()) for task in self._tasks])
