"""Tables of evidence, scores and labels for tests, written row by row or as plain columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from goldless.evidence import JUDGEMENTS, LOGPROBS, JudgementEvidence, failure_cells, verdicts_frame
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.metrics.metric import PAIRS, RESPONSES
from goldless.metrics.pair_labels import PairLabels, pair_labels
from goldless.records import CallFailure, Preference, Rating
from goldless.runs.evaluation import Evaluation
from goldless.studies.frames import NO_LABELS


class PairScore(NamedTuple):
    """A row of pair scores."""

    task: str
    agent: str
    peer: str
    score: float | None
    missing: str | None = None


class ResponseScore(NamedTuple):
    """A row of response scores."""

    task: str
    agent: str
    score: float | None
    asked: int
    used: int


def response_rows(responses: pl.DataFrame) -> list[ResponseScore]:
    """Response scores one by one."""
    return [ResponseScore(*row) for row in responses.select(*RESPONSES).iter_rows()]


class Logprob(NamedTuple):
    """A log-probability with its per-token values, or with a failure or a recorded number instead of them."""

    target: str
    given: str | None
    values: Sequence[float] | CallFailure | None = None
    task: str = "t"
    total: float | None = None
    mean: float | None = None


def logprobs_frame(rows: Iterable[Logprob]) -> pl.DataFrame:
    """Log-probabilities of one scorer under one template."""
    cells = []
    for row in rows:
        failure = row.values if isinstance(row.values, CallFailure) else None
        values = None if failure or row.values is None else list(row.values)
        total = row.total if values is None else sum(values)
        mean = sum(values) / len(values) if values else row.mean
        named = ("s", "general", None, row.task, row.target, row.given, None)
        cells.append((*named, total, mean, values and len(values), None, values, *failure_cells(failure)))
    return pl.DataFrame(cells, schema=LOGPROBS, orient="row")


def verdict(value, second_task="t", task="t", *, first="a", second="b", critic="c") -> JudgementEvidence:
    """A verdict with a value, or with a failure instead of it."""
    failure = value if isinstance(value, CallFailure) else None
    said = None if failure else value
    return JudgementEvidence(critic, "same-source", task, first, second, second_task, value=said, failure=failure)


def verdicts(*rows: JudgementEvidence) -> pl.DataFrame:
    """A table of these verdicts."""
    return verdicts_frame(rows)


def pairs_frame(rows: Iterable[tuple]) -> pl.DataFrame:
    """Pair scores as a table."""
    return pl.DataFrame([PairScore(*row) for row in rows], schema=PAIRS, orient="row")


def pair_rows(pairs: pl.DataFrame) -> list[PairScore]:
    """Pair scores one by one."""
    return [PairScore(*row) for row in pairs.select(*PAIRS).rows()]


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


def scores(result: Evaluation, metric: str | None = None) -> dict[str, float | None]:
    """Agents' scores on a leaderboard."""
    return {row.agent: row.score for row in result.leaderboard(metric).rows}
