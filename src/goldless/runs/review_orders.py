"""The orders in which pairs are shown: which of the recorded ones count, and how far reviewers follow the position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from goldless.judging.exams.items import one_order, pair_of
from goldless.metrics.judgement_table import PairJudgements
from goldless.runs.options import Options
from goldless.runs.review_evidence import ReviewEvidence
from goldless.statistics.bootstrap import Draws, Estimate, task_shares


def in_asked_orders(options: Options, evidence: ReviewEvidence) -> ReviewEvidence:
    """The evidence as if each pair had been asked about in the orders of the options; exams keep both.

    A pair that is recorded in one order only stays as it is.
    """
    if options.orders == "both":
        return evidence
    columns = ["reviewer", "task", "first", "second"]
    rows = evidence.judgements
    turned = rows.select("reviewer", "task", first="second", second="first")
    twice = rows.join(turned, on=columns, how="semi")
    drawn = []
    for (name,), own in twice.group_by("reviewer", maintain_order=True):
        pairs = {pair_of(*row) for row in own.select("task", "first", "second").iter_rows()}
        questions = one_order(sorted(pairs), seed=options.seed, reviewer=str(name))
        drawn += [(str(name), question.task, question.first, question.second) for question in questions]
    kept = pl.DataFrame(drawn, schema=dict.fromkeys(columns, pl.String), orient="row").cast(
        {name: rows.schema[name] for name in columns}
    )
    once = rows.join(turned, on=columns, how="anti")
    return replace(evidence, judgements=pl.concat([rows.join(kept, on=columns, how="semi"), once]))


def first_shown(table: PairJudgements, draws: Draws) -> Mapping[str, Estimate]:
    """How far each reviewer prefers the response shown first, over all its comparisons: one half is no bias.

    Each agent is shown first about as often as second, so quality cancels out.
    """
    value = np.stack([table.value[:, :, 0], 1 - table.value[:, :, 1]], axis=2)
    shares = task_shares(value.reshape(len(table.reviewers), -1), np.repeat(table.task, 2), **draws)
    return dict(zip(table.reviewers, shares, strict=True))
