"""Evidence that a study carries: read as it is, so that a leaderboard can be computed again without a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import LogprobEvidence, RewriteEvidence, VerdictEvidence
from goldless.metrics.catalogue import Metric
from goldless.records import CallFailure
from goldless.runs.wordings import Preprocessor
from goldless.studies import Study

NOT_RECORDED = CallFailure("not_recorded", "the study does not carry it", attempts=0)
RECORDED = "recorded"
"""Stands for a name that the study does not give."""


def recorded_logprobs(study: Study) -> list[LogprobEvidence]:
    """The rows of the study's logprobs table."""
    table = study.table("logprobs")
    return [] if table is None else [_logprob(row) for row in table.iter_rows(named=True)]


def _logprob(row: dict[str, Any]) -> LogprobEvidence:
    values, total, tokens = row.get("logprobs_nats"), row.get("sum_logprob_nats"), row.get("tokens")
    mean = row.get("mean_token_logprob_nats")
    if mean is None and total is not None and tokens:
        mean = total / tokens
    return LogprobEvidence(
        scorer=row.get("scorer") or RECORDED,
        template=row.get("template") or RECORDED,
        rewriter=row.get("rewriter"),
        task=row["task"],
        target=row["target"],
        given=row.get("given"),
        synopsis=row.get("synopsis"),
        logprobs_nats=None if values is None else tuple(values),
        failure=_failure(row) or (NOT_RECORDED if values is None and total is None and mean is None else None),
        recorded_sum_nats=total,
        recorded_mean_nats=mean,
    )


def _failure(row: dict[str, Any]) -> CallFailure | None:
    kind = row.get("failure")
    return None if kind is None else CallFailure(kind, row.get("failure_message") or "recorded as failed")


def usable_logprobs(study: Study, metrics: list[Metric], scorer: str | None) -> list[LogprobEvidence]:
    """The recorded log-probabilities of one scorer. Raises where they cannot give a metric."""
    rows = recorded_logprobs(study)
    if not rows:
        names = ", ".join(metric.name for metric in metrics)
        raise MetricError(
            f"{study.name} carries no log-probabilities (a table logprobs), which {names} "
            f"need{'s' * (len(metrics) == 1)}. Leave --recorded out to ask a scorer."
        )
    scorers = sorted({row.scorer for row in rows})
    if len(scorers) > 1:
        if scorer not in scorers:
            raise MetricError(
                f"{study.name} carries log-probabilities by several scorers: {', '.join(scorers)}. "
                f"Name one of them with --scorer{nearest(scorer or '', scorers)}"
            )
        rows = [row for row in rows if row.scorer == scorer]
    if all(row.sum_nats is None for row in rows):
        sums = [metric.name for metric in metrics if not metric.log_probabilities.per_token]
        if sums:
            raise MetricError(
                f"{study.name} carries log-probabilities as means over tokens only; {', '.join(sums)} "
                f"need{'s' * (len(sums) == 1)} sums. From means goldless can compute mi, gppm and gptscore."
            )
    return rows


def recorded_verdicts(study: Study) -> list[VerdictEvidence]:
    """The rows of the study's verdicts table, as a run folder keeps them."""
    table = study.table("verdicts")
    if table is None:
        return []
    _columns(study, "verdicts", table, ("task", "first", "second", "second_task", "value"))
    return [
        VerdictEvidence(
            critic=row.get("critic") or RECORDED,
            prompt=row.get("prompt") or RECORDED,
            task=row["task"],
            first=row["first"],
            second=row["second"],
            second_task=row["second_task"],
            value=row["value"],
            label=row.get("label"),
            read_from=row.get("read_from"),
            failure=_failure(row) or (NOT_RECORDED if row["value"] is None else None),
        )
        for row in table.iter_rows(named=True)
    ]


def recorded_contrasts(study: Study) -> list[tuple[str, str, str, float | None]]:
    """Task, first, second and contrast of the study's critic_contrasts table."""
    return list(_rows(study, "critic_contrasts", ("task", "first", "second", "contrast")))


def recorded_wins(study: Study, table: str) -> list[tuple[str, str, str, float | None]]:
    """Task, first, second and whether the first wins, of a table of a judge's comparisons."""
    if study.table(table) is None:
        known = [name for name in study.recorded if name.startswith("judge_")]
        have = f"It has {', '.join(known)}." if known else "It has no table judge_… at all."
        raise MetricError(f"{study.name} has no table {table}{nearest(table, known)} {have}")
    return list(_rows(study, table, ("task", "first", "second", "first_wins")))


def _rows(study: Study, name: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    table = study.table(name)
    if table is None:
        return iter(())
    _columns(study, name, table, columns)
    return table.select(pl.col(columns[:3]).cast(pl.String), pl.col(columns[3]).cast(pl.Float64)).iter_rows()


def _columns(study: Study, name: str, table: pl.DataFrame, columns: tuple[str, ...]) -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise MetricError(
            f"{study.name}: the table {name} lacks {', '.join(missing)}; it has {', '.join(table.columns)}"
        )


def recorded_preprocessors(study: Study) -> list[Preprocessor]:
    """The rewrites that the study carries, by rewriter."""
    table = study.table("rewrites")
    found: dict[str, dict[tuple[str, str], RewriteEvidence]] = {}
    for row in [] if table is None else table.to_dicts():
        if row.get("text") and row["text"].strip():
            name = row.get("rewriter") or RECORDED
            key = row["task"], row["agent"]
            if study.response(*key) is not None:
                found.setdefault(name, {})[key] = RewriteEvidence(name, *key, row["text"].strip())
    return [Preprocessor(None, rewrites) for rewrites in found.values()]
