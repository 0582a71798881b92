"""Tables of evidence and of scores for tests, written row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from goldless.evidence import LOGPROBS, JudgementEvidence, failure_cells, verdicts_frame
from goldless.metrics.metric import PAIRS, RESPONSES
from goldless.records import CallFailure


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
