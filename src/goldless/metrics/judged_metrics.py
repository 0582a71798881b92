"""Metrics that are judgements: live ratings by reviewers, ``review[SCALE]``, and win rates in recorded comparisons.

A judge that sees two responses prefers one position to the other by several points, so both orders are averaged: an
agent's score against a peer is the mean of its wins as first and of the peer's losses as first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from goldless.evidence import rows_frame
from goldless.metrics.chair import panel_scores
from goldless.metrics.judgement_table import response_ratings
from goldless.metrics.metric import PAIRS, RESPONSES, MetricInput, Needs, Scores, scores_over_peers
from goldless.signature import table_hash


@dataclass(frozen=True)
class ReviewMetric:
    """The mean rating of a response over the reviewers, on one scale."""

    name: str
    scale: str
    unit: str = "points"

    @property
    def needs(self) -> Needs:
        return Needs(judgements=self.scale)

    def scores(self, data: MetricInput) -> Scores:
        """Return the mean over reviewers; missing where none of them gave a rating.

        The settings name the reviewers that rated anything: scores of other reviewers are on another level.
        """
        rows = data.evidence.judgements.filter(pl.col("format") == self.scale)
        reviewers = rows["reviewer"].unique(maintain_order=True).to_list()
        table = response_ratings(rows, reviewers=reviewers, tasks=data.study.tasks, agents=data.agents)
        panel = panel_scores(table, normalisation="raw")
        task_number = {task: number for number, task in enumerate(data.study.tasks)}
        agent_number = {agent: number for number, agent in enumerate(data.agents)}
        found = []
        for item in data.items(peers=False):
            place = task_number[item.task.task], agent_number[item.agent]
            counts = int(panel.asked[place]), int(panel.used[place])
            found.append((item.task.task, item.agent, float(panel.score[place]), *counts))
        responses = rows_frame(found, RESPONSES).with_columns(pl.col("score").fill_nan(None))
        rating = [name for name, own in zip(reviewers, table.value, strict=True) if not np.isnan(own).all()]
        return Scores(responses, settings={"reviewers": "+".join(rating or reviewers), "against": "nothing"})


@dataclass(frozen=True)
class WinMetric:
    """Win rate in a recorded table of comparisons."""

    name: str
    table: str
    both_orders: bool = True
    unit: str = "win rate"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def needs(self) -> Needs:
        return Needs(table=self.table)

    def scores(self, data: MetricInput) -> Scores:
        """The share of wins of each agent against each peer, and its mean over the peers."""
        pairs = data.compared(win_scores(data.tables[self.table], both_orders=self.both_orders))
        evidence = table_hash(pairs.select("task", "agent", "peer", "score"))
        settings = {"evidence": f"recorded-{evidence}", "peers": data.peers_shown(pairs)}
        return scores_over_peers(pairs, "own", settings=settings)  # a share of wins is over those one has met


def win_scores(rows: pl.DataFrame, *, both_orders: bool = True) -> pl.DataFrame:
    """Share of wins of each agent against each peer on each task, from task, first, second and first_wins.

    With both orders a pair is missing where either order is.
    """
    pairs = rows.select("task", agent="first", peer="second", score="first_wins")
    if both_orders:
        turned = pairs.select("task", agent="peer", peer="agent", other="score")
        pairs = pairs.join(turned, on=["task", "agent", "peer"], how="left", maintain_order="left")
        pairs = pairs.with_columns(score=(pl.col("score") + 1 - pl.col("other")) / 2)
    missing = pl.when(pl.col("score").is_null()).then(pl.lit("not_recorded"))
    return pairs.with_columns(missing=missing).select(*PAIRS)
