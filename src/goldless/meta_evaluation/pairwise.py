"""Votes: who is better of two responses to a task, by whom; one frame for reviewers, panels, metrics and people.

Rows have judge, kind, task, low, high and vote: tasks and agents are numbers, the lower agent first; a vote is 1 for
``low``, 0 for ``high``, 0.5 for neither, and null where it was requested but is missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import FloatArray, IntArray
from goldless.meta_evaluation.judges import Judge
from goldless.metrics.chair import PanelVerdicts, panel_verdicts
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.pair_labels import PairLabels

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are separate verdicts. ``together``: one vote on both."""
PAIR = ("task", "low", "high")


def toward(vote: str) -> pl.Expr:
    """The vote for high instead of low where ``turned`` is true."""
    return pl.when("turned").then(1 - pl.col(vote)).otherwise(pl.col(vote))


def people_votes(labels: PairLabels) -> pl.DataFrame:
    """People's votes on each labelled pair."""
    return _votes("people", "people", labels, (labels.sign + 1) / 2)


def comparisons(table: PairJudgements, convention: Convention) -> pl.DataFrame:
    """Every comparison that was requested: order 0 shows low first; value as given, and lean by the convention."""
    who, pair, order = np.nonzero(table.asked)
    names = [table.reviewers[number] for number in who]
    rows = {"judge": pl.Series(names, dtype=pl.String), **{name: getattr(table, name)[pair] for name in PAIR}}
    lean = 2 * table.filled(convention)[who, pair, order] - 1
    given = {"order": order, "value": table.value[who, pair, order], "lean": lean}
    return pl.DataFrame({**rows, **given}, nan_to_null=True).with_columns(kind=pl.lit("reviewer"))


def votes(judge: Judge) -> pl.DataFrame:
    """One vote on each pair: of a reviewer the mean over the orders, if none is missing; of scores the higher one."""
    if judge.compared is None:
        return _scored(judge)
    if judge.kind == "panel":
        return verdicts(judge, "together")
    whole = pl.col("lean").null_count() == 0
    rows = comparisons(judge.compared, judge.convention).group_by("judge", "kind", *PAIR, maintain_order=True)
    return rows.agg(vote=pl.when(whole).then((pl.col("lean").sign().mean() + 1) / 2))


def verdicts(judge: Judge, orders: Orders) -> pl.DataFrame:
    """The decisions for low, high or neither: on both orders of a pair together, or on each alone."""
    table = judge.compared
    if table is None:
        return _scored(judge)
    shown = [np.array(one) for one in ([True, False], [False, True])] if orders == "each" else [np.ones(2, np.bool_)]
    found = []
    for asked in (table.asked & one for one in shown):
        one = replace(table, asked=asked, value=np.where(asked, table.value, np.nan))
        voted = panel_verdicts(one, weights=judge.weights, convention=judge.convention)
        found.append(_votes(judge.name, judge.kind, voted, voted.verdict).filter(voted.asked > 0))
    return pl.concat(found)


def _scored(judge: Judge) -> pl.DataFrame:
    table = judge.response_scores
    task, agent = np.nonzero(table.asked > 0)
    rows = pl.DataFrame({"task": task, "agent": agent, "score": table.score[task, agent]}, nan_to_null=True)
    pairs = rows.join(rows, on="task", suffix="_high", maintain_order="left_right")
    vote = ((pl.col("score") - pl.col("score_high")).sign() + 1) / 2
    return pairs.filter(pl.col("agent") < pl.col("agent_high")).select(
        pl.lit(judge.name).alias("judge"),
        pl.lit(judge.kind).alias("kind"),
        "task",
        low="agent",
        high="agent_high",
        vote=vote if judge.convention == "default" else vote.fill_null(0.5),
    )


def _votes(name: str, kind: str, pairs: PairLabels | PanelVerdicts, vote: FloatArray | IntArray) -> pl.DataFrame:
    rows = {"judge": [name] * len(vote), "kind": [kind] * len(vote)}
    numbered = {column: getattr(pairs, column) for column in PAIR}
    types = {"judge": pl.String, "kind": pl.String}
    return pl.DataFrame({**rows, **numbered, "vote": vote}, schema_overrides=types, nan_to_null=True)
