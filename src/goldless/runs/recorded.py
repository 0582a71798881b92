"""Evidence that a study carries: read as it is, so that a leaderboard can be computed again without a model."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import LogprobEvidence, RewriteEvidence, VerdictEvidence
from goldless.metrics.catalogue import Metric
from goldless.metrics.scores import PairScore
from goldless.metrics.tvd_mi import contrasts_from_table
from goldless.records import CallFailure
from goldless.runs.wordings import Preprocessor
from goldless.studies import Study

NOT_RECORDED = CallFailure("not_recorded", "the study does not carry it", attempts=0)
ROUNDING_NATS = 1e-2
"""In half precision the log-probability of a certain token comes out a little above zero."""
RECORDED = "recorded"
"""Stands for a name that the study does not give."""


def recorded_logprobs(study: Study) -> list[LogprobEvidence]:
    """The rows of the study's logprobs table."""
    table = study.table("logprobs")
    if table is None:
        return []
    _check_names(study, "logprobs", table, ("target", "given"))
    rows = [_logprob(study, row) for row in table.iter_rows(named=True) if row["target"] != row.get("given")]
    keys = [(row.scorer, row.template, row.rewriter, row.synopsis, row.task, row.target, row.given) for row in rows]
    _check_once(study, "logprobs", keys)
    return rows


def _logprob(study: Study, row: dict[str, Any]) -> LogprobEvidence:
    where = f"{study.name}: the table logprobs, {row['target']} on {row['task']}"
    values = row.get("logprobs_nats")
    if values is not None:
        numbers = [_number(value, where) for value in (values if isinstance(values, list) else [values])]
        values = [number for number in numbers if number is not None]
        values = values if values and len(values) == len(numbers) else None
    total, mean = _number(row.get("sum_logprob_nats"), where), _number(row.get("mean_token_logprob_nats"), where)
    tokens = _number(row.get("tokens"), where)
    if any(x is not None and x > ROUNDING_NATS for x in (total, mean, *(values or ()))):
        raise MetricError(f"{where}: a log-probability is at most 0; this one is above")
    if tokens is not None and (tokens < 1 or tokens != int(tokens)):
        raise MetricError(f"{where}: a number of tokens is a whole number from 1 on, not {tokens:g}")
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
        logprobs_nats=None if values is None else array("d", values),
        failure=_failure(row) or (NOT_RECORDED if values is None and total is None and mean is None else None),
        recorded_sum_nats=total,
        recorded_mean_nats=mean,
        texts=row.get("texts"),
    )


def _number(value: Any, where: str) -> float | None:
    """A finite number; None for an empty cell, NaN or infinity: what is not a number is not recorded."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise MetricError(f"{where}: a number is needed, not {value!r}")
    return float(value) if math.isfinite(value) else None


def _failure(row: dict[str, Any]) -> CallFailure | None:
    kind = row.get("failure")
    return None if kind is None else CallFailure(kind, row.get("failure_message") or "recorded as failed")


def usable_logprobs(
    study: Study, metrics: list[Metric], scorer: str | None, templates: Sequence[str]
) -> list[LogprobEvidence]:
    """The recorded log-probabilities of one scorer, under the templates named or all.

    Raises where they cannot give a metric.
    """
    rows = recorded_logprobs(study)
    if not rows:
        names = ", ".join(metric.name for metric in metrics)
        raise MetricError(
            f"{study.name} carries no log-probabilities (a table logprobs), which {names} "
            f"need{'s' * (len(metrics) == 1)}. Leave --recorded out to ask a scorer."
        )
    chosen = _one(study, "log-probabilities by several scorers", {row.scorer for row in rows}, scorer, "--scorer")
    rows = [row for row in rows if row.scorer == chosen]
    if templates and any(row.template != RECORDED for row in rows):
        known = dict.fromkeys(row.template for row in rows)
        for name in templates:
            if name not in known:
                raise MetricError(
                    f"{study.name} carries no log-probabilities under the template {name!r}"
                    f"{nearest(name, known) or '.'} It has: {', '.join(known)}."
                )
        rows = [row for row in rows if row.template in templates]
    if all(row.sum_nats is None for row in rows) and any(row.mean_nats is not None for row in rows):
        sums = [metric.name for metric in metrics if not metric.log_probabilities.per_token]
        if sums:
            raise MetricError(
                f"{study.name} carries log-probabilities as means over tokens only; {', '.join(sums)} "
                f"need{'s' * (len(sums) == 1)} sums. From means goldless can compute mi, gppm and gptscore."
            )
    return rows


def _one(study: Study, what: str, found: set[str], named: str | None, option: str) -> str:
    """The only one found, or the one that is named."""
    if len(found) == 1:
        return next(iter(found))
    if named not in found:
        raise MetricError(
            f"{study.name} carries {what}: {', '.join(sorted(found))}. "
            f"Name one of them with {option}{nearest(named or '', found)}"
        )
    return str(named)


def recorded_verdicts(study: Study, critic: str | None, prompt: str | None) -> list[VerdictEvidence]:
    """The verdicts of one critic on one prompt in the study's verdicts table, as a run folder keeps them."""
    table = study.table("verdicts")
    if table is None:
        return []
    _columns(study, "verdicts", table, ("task", "first", "second", "second_task", "value"))
    _check_names(study, "verdicts", table, ("first", "second"))
    rows = [_verdict(study, row) for row in table.iter_rows(named=True) if row["first"] != row["second"]]
    if not rows:
        return []
    chosen = _one(study, "verdicts of several critics", {row.critic for row in rows}, critic, "--critic")
    rows = [row for row in rows if row.critic == chosen]
    asked = _one(study, "verdicts on several prompts", {row.prompt for row in rows}, prompt, "--critic-prompt")
    rows = [row for row in rows if row.prompt == asked]
    _check_once(study, "verdicts", [(row.task, row.first, row.second, row.second_task) for row in rows])
    return rows


def _verdict(study: Study, row: dict[str, Any]) -> VerdictEvidence:
    value = _number(row["value"], f"{study.name}: the table verdicts, {row['first']} on {row['task']}")
    if value is not None and not 0 <= value <= 1:
        raise MetricError(
            f"{study.name}: the table verdicts has a value of {value:g} for {row['first']} and {row['second']} on "
            f"{row['task']}; a verdict lies between 0 and 1, or is empty where it is missing"
        )
    return VerdictEvidence(
        critic=row.get("critic") or RECORDED,
        prompt=row.get("prompt") or RECORDED,
        task=row["task"],
        first=row["first"],
        second=row["second"],
        second_task=row["second_task"],
        value=value,
        label=row.get("label"),
        read_from=row.get("read_from"),
        failure=_failure(row) or (NOT_RECORDED if value is None else None),
    )


def recorded_contrasts(study: Study) -> list[PairScore]:
    """The contrasts in the study's critic_contrasts table."""
    table = study.table("critic_contrasts")
    if table is None:
        return []
    _check_names(study, "critic_contrasts", table, ("first", "second"))
    return contrasts_from_table(table)


def check_wins(study: Study, table: str) -> None:
    """Raise where the study has no such table of a judge's comparisons."""
    if study.table(table) is None:
        known = [name for name in study.recorded if name.startswith("judge_")]
        have = f"It has {', '.join(known)}." if known else "It has no table judge_… at all."
        raise MetricError(f"{study.name} has no table {table}{nearest(table, known) or '.'} {have}")


def recorded_wins(study: Study, name: str) -> list[tuple[str, str, str, float | None]]:
    """Task, first, second and whether the first wins, of a table of a judge's comparisons."""
    check_wins(study, name)
    table = study.table(name)
    if table is None:
        return []
    _columns(study, name, table, ("task", "first", "second", "first_wins"))
    _check_names(study, name, table, ("first", "second"))
    rows = [
        (row["task"], row["first"], row["second"], _number(row["first_wins"], f"{study.name}: the table {name}"))
        for row in table.iter_rows(named=True)
        if row["first"] != row["second"]
    ]
    bad = [value for *_, value in rows if value is not None and not 0 <= value <= 1]
    if bad:
        raise MetricError(f"{study.name}: {name} has first_wins of {bad[0]:g}; it lies between 0 and 1")
    _check_once(study, name, [row[:3] for row in rows])
    return rows


def _check_names(study: Study, name: str, table: pl.DataFrame, agents: tuple[str, ...]) -> None:
    """Refuse evidence on tasks or agents that the study does not have."""
    known = {"task": set(study.tasks), "second_task": set(study.tasks)}
    known |= {column: {agent.agent for agent in study.agents} for column in agents}
    for column, allowed in known.items():
        if column not in table.columns:
            continue
        strange = [x for x in table[column].cast(pl.String).unique().drop_nulls() if x not in allowed]
        if strange:
            what = "tasks" if column.endswith("task") else "agents"
            raise MetricError(
                f"{study.name}: the table {name} names {what} that the study does not have: "
                f"{', '.join(sorted(strange)[:5])}{' …' * (len(strange) > 5)}"
            )


def _check_once(study: Study, name: str, keys: Sequence[tuple[Any, ...]]) -> None:
    """Refuse evidence that is there twice: which of the two holds cannot be told."""
    if len(set(keys)) < len(keys):
        twice = Counter(keys).most_common(1)[0][0]
        told = ", ".join(str(part) for part in twice if part is not None)
        raise MetricError(f"{study.name}: the table {name} has more than one row for {told}; keep one")


def _columns(study: Study, name: str, table: pl.DataFrame, columns: tuple[str, ...]) -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise MetricError(
            f"{study.name}: the table {name} lacks {', '.join(missing)}; it has {', '.join(table.columns)}"
        )


def recorded_preprocessors(study: Study) -> list[Preprocessor]:
    """The rewrites that the study carries, by rewriter and template."""
    table = study.table("rewrites")
    found: dict[tuple[str, str | None], dict[tuple[str, str], RewriteEvidence]] = {}
    for row in [] if table is None else table.to_dicts():
        if row.get("text") and row["text"].strip():
            name, template = row.get("rewriter") or RECORDED, row.get("template")
            key = row["task"], row["agent"]
            if study.response(*key) is not None:
                rewrite = RewriteEvidence(name, *key, row["text"].strip(), template=template)
                found.setdefault((name, template), {})[key] = rewrite
    return [Preprocessor(template, rewrites) for (_, template), rewrites in found.items()]


def evidence_hash(rows: Iterable[tuple[Any, ...]]) -> str:
    """Eight digits that tell two tables of recorded evidence apart, whatever the order of their rows."""
    digest = hashlib.sha256()
    for line in sorted(repr(row) for row in rows):
        digest.update(line.encode())
    return digest.hexdigest()[:8]
