"""Recorded evidence of a study, so that a leaderboard can be recomputed without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import CONTROL, LOGPROBS, REWRITES, TOKENS, VERDICTS, Schema, empty
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import checked_contrasts
from goldless.runs.recorded_table import RECORDED, Names, RecordedTable, find_table, named
from goldless.studies import Study
from goldless.templates import EXAMPLES

ROUNDING_NATS = 1e-2
"""Tolerance: in half precision the log-probability of a certain token can be slightly above zero."""
LOGPROB_NAMES: Names = {"task": "task", "target": "agent", "given": "agent"}
LOGPROB_WAYS = ("scorer", "template", "rewriter", "synopsis")
LOGPROB_KEY = (*LOGPROB_WAYS, "task", "target", "given")
LOGPROBS_HASHED = (*LOGPROB_KEY[1:], "sum_logprob_nats", "mean_token_logprob_nats")
"""The columns that the hash in a signature is of."""
VERDICT_NAMES: Names = {"task": "task", "second_task": "task", "first": "agent", "second": "agent"}
VERDICT_KEY = ("task", "first", "second", "second_task")
VERDICTS_HASHED = (*VERDICT_KEY, "value")


# --- log-probabilities ---------------------------------------------------------------------------------------------


def recorded_logprobs(study: Study) -> pl.DataFrame:
    """The study's logprobs table, without per-token values. Raises if it has impossible values."""
    table = find_table(study, "logprobs")
    if table is None:
        return empty(LOGPROBS).drop(TOKENS)
    found = checked_logprobs(table, table.read(logprob_rows(table), LOGPROB_NAMES))
    table.check_once(found, LOGPROB_KEY)
    return found


def logprob_rows(table: RecordedTable) -> pl.LazyFrame:
    """The columns of a logprobs table, not read yet. Raises if they cannot be log-probabilities."""
    table.require(("task", "target"))
    table.check_numbers(("sum_logprob_nats", "mean_token_logprob_nats", "tokens", TOKENS), place="{target} on {task}")
    names = pl.col(LOGPROB_WAYS).cast(pl.Categorical)
    return _logprobs(table, values=_lacks_sums(table)).drop(TOKENS, strict=False).with_columns(names)


def checked_logprobs(table: RecordedTable, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a logprobs table, each possible in itself."""
    table.check_named(rows, ("task", "target"))
    _check_logprobs(table, rows)
    return _as_logprobs(rows.lazy()).collect()


def recorded_control(study: Study) -> pl.DataFrame:
    """The study's log-probabilities of responses to other tasks. Raises where it holds what cannot be."""
    table = find_table(study, "control_logprobs")
    if table is None:
        return empty(CONTROL)
    table.require(("task", "target", "target_task"))
    table.check_numbers(("sum_logprob_nats", "mean_token_logprob_nats", "tokens"), place="{target} on {task}")
    rows = _logprobs(table, values=False, schema=CONTROL).with_columns(pl.col(LOGPROB_WAYS).cast(pl.Categorical))
    found = table.read(rows, {"task": "task", "target_task": "task", "target": "agent", "given": "agent"})
    table.check_named(found, ("task", "target", "target_task"))
    _check_logprobs(table, found)
    table.check_once(found, (*LOGPROB_KEY, "target_task"))
    return _as_logprobs(found.lazy()).collect()


def recorded_tokens(study: Study, *, scorers: Sequence[str], templates: Sequence[str] | None = None) -> pl.LazyFrame:
    """The rows of a study's checked logprobs table with their per-token values, not read yet."""
    table = find_table(study, "logprobs")
    assert table is not None
    rows = _logprobs(table, values=TOKENS in table.rows.collect_schema())
    rows = rows.filter(pl.col("scorer").is_in(list(scorers)))
    if templates is not None:
        rows = rows.filter(pl.col("template").is_in(list(templates)))
    if TOKENS not in rows.collect_schema():
        rows = rows.with_columns(pl.lit(None, LOGPROBS[TOKENS]).alias(TOKENS))
    return _as_logprobs(rows).select(*LOGPROBS)


def _lacks_sums(table: RecordedTable) -> bool:
    """Whether per-token values must be read because sums or means are not recorded."""
    if TOKENS not in table.rows.collect_schema():
        return False
    lacking = pl.col("sum_logprob_nats").is_null() | pl.col("mean_token_logprob_nats").is_null()
    with table.study.reading(table.name):
        rows = _logprobs(table, values=False).select((lacking & pl.col("failure").is_null()).any())
        return bool(rows.collect().item())


def _logprobs(table: RecordedTable, *, values: bool, schema: Schema = LOGPROBS) -> pl.LazyFrame:
    """The columns with sums and means as recorded or, with ``values``, computed from per-token values.

    If a per-token value is not a number, there is no sum.
    """
    rows = table.columns({**schema, "tokens": pl.Float64}, without=() if values else (TOKENS,))
    rows = rows.filter(pl.col("target").ne_missing(pl.col("given"))).with_columns(
        *(named(name) for name in ("scorer", "template")),
        mean_token_logprob_nats=pl.coalesce("mean_token_logprob_nats", pl.col("sum_logprob_nats") / pl.col("tokens")),
    )
    if not values:
        return rows
    known = pl.col(TOKENS).list.eval(pl.element().is_finite().fill_null(False))
    whole = pl.when((known.list.len() > 0) & known.list.all())
    return rows.with_columns(
        sum_logprob_nats=pl.coalesce("sum_logprob_nats", whole.then(pl.col(TOKENS).list.sum())),
        mean_token_logprob_nats=pl.coalesce("mean_token_logprob_nats", whole.then(pl.col(TOKENS).list.mean())),
        tokens=pl.coalesce("tokens", whole.then(pl.col(TOKENS).list.len())),
        highest=pl.col(TOKENS).list.max(),
    )


def _as_logprobs(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns of the schema; values missing without a cause count as not recorded."""
    lacking = pl.col("sum_logprob_nats").is_null() & pl.col("mean_token_logprob_nats").is_null()
    counts = pl.col("tokens").cast(pl.Int64, strict=False)  # a number of tokens that cannot be is not known
    return _with_failures(rows, lacking).with_columns(counts).drop("highest", strict=False)


def _check_logprobs(table: RecordedTable, rows: pl.DataFrame) -> None:
    values = [name for name in ("sum_logprob_nats", "mean_token_logprob_nats", "highest") if name in rows.columns]
    above = pl.any_horizontal(pl.col(values) > ROUNDING_NATS)
    partial_tokens = (pl.col("tokens") < 1) | (pl.col("tokens") % 1 != 0)
    for wrong, why in (
        (above, "a log-probability must not be above 0"),
        (partial_tokens, "tokens must be a whole number of at least 1, got {tokens:g}"),
    ):
        bad = rows.filter(wrong).head(1)
        if len(bad):
            row = bad.row(0, named=True)
            raise MetricError(f"{table.label}, {row['target']} on {row['task']}: {why.format(**row)}")


def _with_failures(rows: pl.LazyFrame, lacking: pl.Expr) -> pl.LazyFrame:
    """Values missing without a cause count as not recorded."""
    silent = lacking & pl.col("failure").is_null()
    said = pl.coalesce("failure_message", pl.when(pl.col("failure").is_not_null()).then(pl.lit("recorded as failed")))
    return rows.with_columns(
        failure_message=pl.when(silent).then(pl.lit("not recorded in the study")).otherwise(said),
        failure=pl.when(silent).then(pl.lit("not_recorded")).otherwise("failure"),
    )


def usable_logprobs(
    study: Study, metrics: Sequence[Metric], scorer: str | None, jurors: Sequence[str], templates: Sequence[str]
) -> pl.DataFrame:
    """The recorded log-probabilities of one scorer, for the given templates or all.

    Those after worked examples are of the jurors, or of all. Raises if they are not enough for a metric.
    """
    rows = recorded_logprobs(study)
    if rows.is_empty():
        raise no_logprobs(study, metrics)
    worked = pl.col("template").cast(pl.String).str.contains(EXAMPLES, literal=True)
    plain, predicted = rows.filter(~worked), rows.filter(worked)
    wanted = {m.needs.logprobs.worked_examples for m in metrics if m.needs.logprobs is not None}
    if plain.is_empty() and False in wanted:
        raise no_logprobs(study, [m for m in metrics if m.needs.logprobs and not m.needs.logprobs.worked_examples])
    if len(plain):
        plain = of_one_scorer(study, plain, scorer, templates)
    rows = pl.concat([plain, _of_jurors(study, predicted, jurors, templates)]) if True in wanted else plain
    if not rows["sum_logprob_nats"].count() and rows["mean_token_logprob_nats"].count():
        refuse_means(study, metrics)
    return rows


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


def no_logprobs(study: Study, metrics: Sequence[Metric]) -> MetricError:
    """What is wrong where a study has no log-probabilities."""
    names = ", ".join(metric.name for metric in metrics)
    return MetricError(
        f"{study.name} has no recorded log-probabilities (table logprobs), which {names} "
        f"need{'s' * (len(metrics) == 1)}. Drop --recorded to call a scorer"
    )


def of_one_scorer(study: Study, rows: pl.DataFrame, scorer: str | None, templates: Sequence[str]) -> pl.DataFrame:
    """The rows of one scorer, for the given templates or all."""
    rows = of_one(rows, "scorer", scorer, f"{study.name} has log-probabilities of several scorers", "--scorer")
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


def usable_control(study: Study, logprobs: pl.DataFrame) -> pl.DataFrame:
    """The recorded log-probabilities of responses to other tasks, of the same scorer and templates as these."""
    rows = recorded_control(study)
    return rows.filter(pl.col(name).is_in(logprobs[name].unique().to_list()) for name in ("scorer", "template"))


def refuse_means(study: Study, metrics: Sequence[Metric]) -> None:
    """Reject metrics over sums, as the study has only means."""
    sums = [m.name for m in metrics if m.needs.logprobs is not None and not m.needs.logprobs.per_token]
    if sums:
        raise MetricError(
            f"{study.name} has log-probabilities only as means over tokens, but {', '.join(sums)} "
            f"need{'s' * (len(sums) == 1)} sums. Means are enough for mi, gppm and gptscore"
        )


def of_one(rows: pl.DataFrame, column: str, named: str | None, what: str, option: str) -> pl.DataFrame:
    """The rows of the only value, or of the given one."""
    found = rows[column].unique(maintain_order=True).to_list()
    if len(found) == 1:
        return rows
    if named not in found:
        raise MetricError(f"{what}: {', '.join(sorted(found))}. Choose one with {option}{nearest(named or '', found)}")
    return rows.filter(pl.col(column) == named)


# --- verdicts, contrasts and wins ----------------------------------------------------------------------------------


def recorded_verdicts(study: Study, critic: str | None, prompt: str | None) -> pl.DataFrame:
    """The verdicts of one critic on one prompt in the study's verdicts table."""
    table = find_table(study, "verdicts")
    if table is None:
        return pl.DataFrame(schema=VERDICTS)
    found = checked_verdicts(table, table.read(verdict_rows(table), VERDICT_NAMES))
    if found.is_empty():
        return found
    found = of_one_critic(study, found, critic, prompt)
    table.check_once(found, VERDICT_KEY)
    return found


def verdict_rows(table: RecordedTable) -> pl.LazyFrame:
    """The columns of a verdicts table, not read yet. Raises if they cannot be verdicts."""
    table.require((*VERDICT_KEY, "value"))
    table.check_numbers(("value",), place="{first} and {second} on {task}")
    rows = table.columns(VERDICTS).filter(pl.col("first").ne_missing(pl.col("second")))
    return rows.with_columns(named(name).cast(pl.Categorical) for name in ("critic", "prompt"))


def checked_verdicts(table: RecordedTable, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a verdicts table, each possible in itself."""
    table.check_named(rows, VERDICT_KEY)
    _check_between(table, rows, "value", "a verdict must be between 0 and 1, or empty if missing")
    return _with_failures(rows.lazy(), pl.col("value").is_null()).collect()


def of_one_critic(study: Study, rows: pl.DataFrame, critic: str | None, prompt: str | None) -> pl.DataFrame:
    """The rows of one critic on one prompt."""
    rows = of_one(rows, "critic", critic, f"{study.name} has verdicts of several critics", "--critic")
    return of_one(rows, "prompt", prompt, f"{study.name} has verdicts for several prompts", "--critic-prompt")


def _check_between(table: RecordedTable, rows: pl.DataFrame, column: str, rule: str) -> None:
    bad = rows.filter(~pl.col(column).is_between(0, 1)).head(1)
    if len(bad):
        row = bad.row(0, named=True)
        raise MetricError(
            f"{table.label} has {column} {row[column]:g} for {row['first']} and {row['second']} on "
            f"{row['task']}; {rule}"
        )


def recorded_contrasts(study: Study) -> pl.DataFrame:
    """The contrasts in the study's critic_contrasts table."""
    table = find_table(study, "critic_contrasts")
    if table is None:
        return pl.DataFrame()
    with study.reading(table.name):
        rows = checked_contrasts(table.rows.collect())
    return table.read(rows.lazy(), {"task": "task", "first": "agent", "second": "agent"})


def check_wins(study: Study, table: str) -> None:
    """Raise if the study does not have this table of a judge's comparisons."""
    if table not in study.recorded:
        known = [name for name in study.recorded if name.startswith("judge_")]
        have = f"It has {', '.join(known)}" if known else "It has no table judge_… at all"
        raise MetricError(f"{study.name} has no table {table}{nearest(table, known) or '.'} {have}")


def recorded_wins(study: Study, name: str) -> pl.DataFrame:
    """Task, first, second and first_wins of a table of a judge's comparisons."""
    check_wins(study, name)
    table = find_table(study, name)
    assert table is not None
    columns: Schema = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
    table.require(list(columns))
    table.check_numbers(("first_wins",), place="{first} and {second} on {task}")
    rows = table.columns(columns).filter(pl.col("first").ne_missing(pl.col("second")))
    found = table.read(rows, {"task": "task", "first": "agent", "second": "agent"})
    table.check_named(found, ("task", "first", "second"))
    _check_between(table, found, "first_wins", "it must be between 0 and 1")
    table.check_once(found, ("task", "first", "second"))
    return found


# --- rewrites ------------------------------------------------------------------------------------------------------


def recorded_rewrites(study: Study) -> pl.DataFrame:
    """The recorded rewrites of a study's responses, without empty ones."""
    table = find_table(study, "rewrites")
    if table is None:
        return pl.DataFrame(schema=REWRITES)
    rows = table.columns(REWRITES).with_columns(named("rewriter"), pl.col("text").str.strip_chars())
    with study.reading("rewrites"):
        found = rows.filter(pl.col("text").str.len_bytes() > 0).collect()
    answered = {(task.task, r.agent) for task, responses in study for r in responses}
    return found.filter([key in answered for key in found.select("task", "agent").iter_rows()])


def evidence_hash(rows: Iterable[tuple[Any, ...]]) -> str:
    """Eight digits that identify a small table, independent of the order of its rows."""
    digest = hashlib.sha256()
    for line in sorted(repr(row) for row in rows):
        digest.update(line.encode())
    return digest.hexdigest()[:8]
