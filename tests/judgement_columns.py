"""Judgements for tests, written as plain columns."""

from __future__ import annotations

import polars as pl

from goldless.evidence import JUDGEMENTS
from goldless.metrics.judgement_table import pair_judgements, response_ratings


def judgement_columns(**columns) -> pl.DataFrame:
    """A table of judgements on one scale; columns that are not given are null."""
    rows = pl.DataFrame({name: list(values) for name, values in columns.items()}, strict=False)
    lacking = [pl.lit(None, kind).alias(name) for name, kind in JUDGEMENTS.items() if name not in rows.columns]
    rows = rows.with_columns(lacking).with_columns(format=pl.lit("scale"))
    return rows.select(pl.col(name).cast(kind) for name, kind in JUDGEMENTS.items())


def pair_judgements_from_columns(reviewer, task, first, second, value, **names):
    rows = judgement_columns(reviewer=reviewer, task=task, first=first, second=second, value=value)
    return pair_judgements(rows, **names)


def response_ratings_from_columns(reviewer, task, agent, value, **names):
    return response_ratings(judgement_columns(reviewer=reviewer, task=task, agent=agent, value=value), **names)
