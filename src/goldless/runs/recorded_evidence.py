"""The recorded evidence of a study that a plan's metrics need, with what signatures say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import polars as pl

from goldless.errors import MetricError
from goldless.evidence import Evidence, LargeTable
from goldless.metrics.tvd_mi import reading
from goldless.runs.plan import RunPlan
from goldless.runs.recorded import (
    LOGPROB_KEY,
    LOGPROBS_HASHED,
    VERDICTS_HASHED,
    recorded_contrasts,
    recorded_tokens,
    recorded_verdicts,
    usable_control,
    usable_logprobs,
)
from goldless.runs.recorded_parts import large_logprobs, large_table, large_verdicts
from goldless.runs.recorded_table import RecordedTable
from goldless.runs.review_evidence import recorded_review
from goldless.signature import table_hash
from goldless.studies import Study
from goldless.templates import find_template


def recorded_evidence(plan: RunPlan) -> Evidence:
    """The recorded evidence of a study for the metrics. Raises if there is none."""
    study, options = plan.study, plan.options
    tables: dict[str, Any] = {}
    large: dict[Literal["logprobs", "verdicts"], LargeTable] = {}
    templates = [find_template(name).name for name in options.templates]
    if plan.likelihood and (table := _large(plan, "logprobs")) is not None:
        large["logprobs"] = large_logprobs(table, plan.likelihood, _name(options.scorer), templates)
        tables["with_tokens"] = _with_tokens(study, large["logprobs"].ways)
    elif plan.likelihood:
        tables["logprobs"] = usable_logprobs(
            study, plan.likelihood, _name(options.scorer), list(map(str, options.jurors)), templates
        )
        if any(metric.needs.logprobs is not None and metric.needs.logprobs.control for metric in plan.likelihood):
            tables["control"] = usable_control(study, tables["logprobs"])
        tables["with_tokens"] = _with_tokens(study, tables["logprobs"])
    if plan.critic and (table := _large(plan, "verdicts")) is not None:
        large["verdicts"] = large_verdicts(table, _name(options.critic), options.critic_prompt)
    elif plan.critic:
        tables |= _verdicts_or_contrasts(plan)
    if plan.scales:
        names = [str(name) for name in options.reviewers]
        tables["judgements"] = pl.concat(
            recorded_review(study, scale=scale, reviewers=names, convention=options.convention).judgements
            for scale in plan.scales
        )
    return Evidence(**tables, large=large, described=_description(large, **tables))


def _large(plan: RunPlan, name: Literal["logprobs", "verdicts"]) -> RecordedTable | None:
    """The table, if it does not fit memory and every metric that needs it can read it in parts."""
    options, study = plan.options, plan.study
    using = [metric for metric in plan.metrics if getattr(metric.needs, name) is not None]
    task_by_task = all(getattr(metric, "task_by_task", False) for metric in using)
    whole = options.pairing is not None or plan.until is not None or bool(study.samples)
    return large_table(study, name) if task_by_task and not whole else None


def _with_tokens(study: Study, rows: pl.DataFrame) -> Callable[[], pl.LazyFrame]:
    used = {name: rows[name].unique().to_list() for name in ("scorer", "template")}
    return partial(recorded_tokens, study, scorers=used["scorer"], templates=used["template"])


def _verdicts_or_contrasts(plan: RunPlan) -> dict[str, pl.DataFrame]:
    verdicts = recorded_verdicts(plan.study, _name(plan.options.critic), plan.options.critic_prompt)
    if not verdicts.is_empty():
        return {"verdicts": verdicts}
    contrasts = recorded_contrasts(plan.study)
    if contrasts.is_empty():
        raise MetricError(
            f"{plan.study.name} has no recorded critic verdicts (table verdicts or critic_contrasts), which tvd-mi "
            "needs. Drop --recorded to call a critic"
        )
    _check_directions(plan, contrasts)
    return {"contrasts": contrasts}


def _check_directions(plan: RunPlan, contrasts: pl.DataFrame) -> None:
    """Reject a metric over both directions if the study has only one."""
    both = [metric.name for metric in plan.metrics if metric.needs.verdicts == "both"]
    found = contrasts.select("first", "second").unique()
    turned = found.join(found, left_on=["first", "second"], right_on=["second", "first"], how="semi")
    if both and turned.is_empty():
        raise MetricError(
            f"{plan.study.name} has contrasts of each pair in only one direction, but {both[0]} is the mean of both. "
            "Use tvd-mi[given] or tvd-mi[about]"
        )


def _name(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _description(
    large: Mapping[Literal["logprobs", "verdicts"], LargeTable],
    logprobs: pl.DataFrame | None = None,
    control: pl.DataFrame | None = None,
    verdicts: pl.DataFrame | None = None,
    contrasts: pl.DataFrame | None = None,
    **_: Any,
) -> dict[str, dict[str, str]]:
    """Settings of recorded evidence for signatures: its source and a hash."""
    described: dict[str, dict[str, str]] = {}
    if "logprobs" in large:
        described["logprobs"] = _of_logprobs(large["logprobs"].ways, large["logprobs"].hash)
    if logprobs is not None:
        described["logprobs"] = _of_logprobs(logprobs, table_hash(logprobs.select(LOGPROBS_HASHED)))
    if control is not None:
        hashed = table_hash(control.select(*LOGPROB_KEY[1:], "target_task", *LOGPROBS_HASHED[-2:]))
        described["control"] = {"control-evidence": f"recorded-{hashed}"}
    if "verdicts" in large:
        described["verdicts"] = _of_verdicts(large["verdicts"].ways, large["verdicts"].hash)
    if verdicts is not None:
        ways = verdicts.group_by(
            "critic", "prompt", "read_from", matched=pl.col("task") == pl.col("second_task"), maintain_order=True
        ).len()
        described["verdicts"] = _of_verdicts(ways, table_hash(verdicts.select(VERDICTS_HASHED)))
    if contrasts is not None:
        described["verdicts"] = {"evidence": f"recorded-contrasts-{table_hash(contrasts)}"}
    return described


def _of_logprobs(rows: pl.DataFrame, hashed: str) -> dict[str, str]:
    scorers = rows["scorer"].unique(maintain_order=True).to_list()
    return {"scorer": "+".join(scorers), "evidence": f"recorded-{hashed}"}


def _of_verdicts(ways: pl.DataFrame, hashed: str) -> dict[str, str]:
    matched = int(ways.filter("matched")["len"].sum())
    read = ways.drop_nulls("read_from").group_by(pl.col("read_from").cast(pl.String)).agg(pl.col("len").sum())
    return {
        "critic": ways["critic"][0],
        "prompt": ways["prompt"][0],
        "verdicts": reading(dict(read.iter_rows())),
        "shuffles": f"off-diagonal-{(int(ways['len'].sum()) - matched) / max(1, matched):g}",
        "evidence": f"recorded-{hashed}",
    }
