"""The recorded evidence of a study that a plan's metrics need, with what signatures say of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import Evidence
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import reading
from goldless.runs.plan import RunPlan
from goldless.runs.recorded import (
    CONTRAST_KIND,
    CONTROL_KIND,
    LOGPROB_KIND,
    RECORDED,
    VERDICT_KIND,
    read_recorded,
    recorded_control,
    recorded_logprobs,
    recorded_tokens,
)
from goldless.runs.review_evidence import recorded_review
from goldless.signature import table_hash
from goldless.studies import Study
from goldless.templates import EXAMPLES, find_template


def recorded_evidence(plan: RunPlan) -> Evidence:
    """The recorded evidence of a study for the metrics. Raises if there is none."""
    study, options = plan.study, plan.options
    tables: dict[str, Any] = {}
    described: dict[str, dict[str, str]] = {}
    if plan.likelihood:
        logprobs = usable_logprobs(plan)
        used = {name: logprobs[name].unique().to_list() for name in ("scorer", "template")}
        tables["logprobs"] = logprobs
        tables["with_tokens"] = partial(recorded_tokens, study, scorers=used["scorer"], templates=used["template"])
        described["logprobs"] = {
            "scorer": "+".join(logprobs["scorer"].unique(maintain_order=True)),
            "evidence": f"recorded-{table_hash(logprobs.select(LOGPROB_KIND.hashed))}",
        }
        if any(metric.needs.logprobs is not None and metric.needs.logprobs.control for metric in plan.likelihood):
            control = recorded_control(study).filter(pl.col(name).is_in(values) for name, values in used.items())
            tables["control"] = control
            hashed = table_hash(control.select(CONTROL_KIND.hashed))
            described["control"] = {"control-evidence": f"recorded-{hashed}"}
    if plan.critic:
        found, described["verdicts"] = _verdicts_or_contrasts(plan)
        tables |= found
    if plan.scales:
        names = [str(name) for name in options.reviewers]
        tables["judgements"] = pl.concat(
            recorded_review(study, scale=scale, reviewers=names, convention=options.convention).judgements
            for scale in plan.scales
        )
    return Evidence(**tables, described=described)


def _name(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _of_one(rows: pl.DataFrame, column: str, named: str | None, what: str, option: str) -> pl.DataFrame:
    """The rows of the only value, or of the given one."""
    found = rows[column].unique(maintain_order=True).to_list()
    if len(found) == 1:
        return rows
    if named not in found:
        raise MetricError(f"{what}: {', '.join(sorted(found))}. Choose one with {option}{nearest(named or '', found)}")
    return rows.filter(pl.col(column) == named)


# --- log-probabilities ---------------------------------------------------------------------------------------------


def usable_logprobs(plan: RunPlan) -> pl.DataFrame:
    """The recorded log-probabilities of one scorer, for the given templates or all.

    Those after worked examples are of the jurors, or of all. Raises if they are not enough for a metric.
    """
    study, metrics, options = plan.study, plan.likelihood, plan.options
    templates = [find_template(name).name for name in options.templates]
    rows = recorded_logprobs(study)
    if rows.is_empty():
        raise _no_logprobs(study, metrics)
    worked = pl.col("template").cast(pl.String).str.contains(EXAMPLES, literal=True)
    plain, predicted = rows.filter(~worked), rows.filter(worked)
    wanted = {m.needs.logprobs.worked_examples for m in metrics if m.needs.logprobs is not None}
    if plain.is_empty() and False in wanted:
        raise _no_logprobs(study, [m for m in metrics if m.needs.logprobs and not m.needs.logprobs.worked_examples])
    if len(plain):
        plain = _of_one_scorer(study, plain, _name(options.scorer), templates)
    jurors = list(map(str, options.jurors))
    rows = pl.concat([plain, _of_jurors(study, predicted, jurors, templates)]) if True in wanted else plain
    sums = [m.name for m in metrics if m.needs.logprobs is not None and not m.needs.logprobs.per_token]
    if sums and not rows["sum_logprob_nats"].count() and rows["mean_token_logprob_nats"].count():
        raise MetricError(
            f"{study.name} has log-probabilities only as means over tokens, but {', '.join(sums)} "
            f"need{'s' * (len(sums) == 1)} sums. Means are enough for mi, gppm and gptscore"
        )
    return rows


def _no_logprobs(study: Study, metrics: Sequence[Metric]) -> MetricError:
    names = ", ".join(metric.name for metric in metrics)
    return MetricError(
        f"{study.name} has no recorded log-probabilities (table logprobs), which {names} "
        f"need{'s' * (len(metrics) == 1)}. Drop --recorded to call a scorer"
    )


def _of_one_scorer(study: Study, rows: pl.DataFrame, scorer: str | None, templates: Sequence[str]) -> pl.DataFrame:
    """The rows of one scorer, for the given templates or all."""
    rows = _of_one(rows, "scorer", scorer, f"{study.name} has log-probabilities of several scorers", "--scorer")
    known = rows["template"].unique(maintain_order=True).to_list()
    if not templates or known == [RECORDED]:
        return rows
    for name in templates:
        if name not in known:
            raise MetricError(
                f"{study.name} has no log-probabilities for the template {name!r}"
                f"{nearest(name, known) or '.'} It has: {', '.join(known)}"
            )
    return rows.filter(pl.col("template").is_in(list(templates)))


def _of_jurors(study: Study, rows: pl.DataFrame, jurors: Sequence[str], templates: Sequence[str]) -> pl.DataFrame:
    """The rows of these jurors, or of all, for the given templates or all."""
    known = rows["scorer"].unique(maintain_order=True).to_list()
    for name in jurors:
        if name not in known:
            advice = nearest(name, known) or f". Jurors: {', '.join(known) or 'none'}"
            raise MetricError(f"{study.name} has no log-probabilities of a juror {name!r}{advice}")
    if jurors:
        rows = rows.filter(pl.col("scorer").cast(pl.String).is_in(list(jurors)))
    before = pl.col("template").cast(pl.String).str.split(EXAMPLES).list.first()
    return rows.filter(before.is_in(list(templates))) if templates else rows


# --- verdicts ------------------------------------------------------------------------------------------------------


def _verdicts_or_contrasts(plan: RunPlan) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """The verdicts of one critic on one prompt, or contrasts, with what signatures say of them."""
    study, options = plan.study, plan.options
    rows = read_recorded(study, "verdicts", VERDICT_KIND)
    if rows.is_empty():
        contrasts = read_recorded(study, "critic_contrasts", CONTRAST_KIND)
        _check_contrasts(plan, contrasts)
        return {"contrasts": contrasts}, {"evidence": f"recorded-contrasts-{table_hash(contrasts)}"}
    rows = _of_one(rows, "critic", _name(options.critic), f"{study.name} has verdicts of several critics", "--critic")
    several = f"{study.name} has verdicts for several prompts"
    rows = _of_one(rows, "prompt", options.critic_prompt, several, "--critic-prompt")
    matched = int(rows.select((pl.col("task") == pl.col("second_task")).sum()).item())
    read = dict(rows["read_from"].drop_nulls().value_counts().iter_rows())
    return {"verdicts": rows}, {
        "critic": rows["critic"][0],
        "prompt": rows["prompt"][0],
        "verdicts": reading(read),
        "shuffles": f"off-diagonal-{(len(rows) - matched) / max(1, matched):g}",
        "evidence": f"recorded-{table_hash(rows.select(VERDICT_KIND.hashed))}",
    }


def _check_contrasts(plan: RunPlan, contrasts: pl.DataFrame) -> None:
    """Reject a study without contrasts, and a metric over both directions if it has only one."""
    if contrasts.is_empty():
        raise MetricError(
            f"{plan.study.name} has no recorded critic verdicts (table verdicts or critic_contrasts), which tvd-mi "
            "needs. Drop --recorded to call a critic"
        )
    both = [metric.name for metric in plan.metrics if metric.needs.verdicts == "both"]
    found = contrasts.select("first", "second").unique()
    turned = found.join(found, left_on=["first", "second"], right_on=["second", "first"], how="semi")
    if both and turned.is_empty():
        raise MetricError(
            f"{plan.study.name} has contrasts of each pair in only one direction, but {both[0]} is the mean of both. "
            "Use tvd-mi[given] or tvd-mi[about]"
        )
