"""Judgements and labels for tests, written as plain columns or one by one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from goldless.evidence import JUDGEMENTS
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.metrics.pair_labels import PairLabels, pair_labels
from goldless.records import Preference, Rating
from goldless.studies.frames import NO_LABELS


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


def label_columns(*labels: Rating | Preference) -> pl.DataFrame:
    """The labels as the table of a study."""
    kinds = [[one for one in labels if isinstance(one, kind)] for kind in (Rating, Preference)]
    return pl.concat([NO_LABELS, *(pl.DataFrame(some) for some in kinds if some)], how="diagonal_relaxed")


def pair_labels_of(labels: Sequence[Rating | Preference], **how) -> PairLabels:
    """The labels of pairs, with tasks and agents as they appear."""
    tasks = list(dict.fromkeys(one.task for one in labels))
    rated = [one.agent for one in labels if isinstance(one, Rating)]
    sides = [side for one in labels if isinstance(one, Preference) for side in (one.first, one.second)]
    return pair_labels(label_columns(*labels), tasks=tasks, agents=list(dict.fromkeys([*rated, *sides])), **how)
