"""Recorded evidence of a study, so that a leaderboard can be recomputed without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import CONTROL, LOGPROBS, REWRITES, TOKENS, VERDICTS, Schema, empty, number
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import checked_contrasts
from goldless.studies import Study

ROUNDING_NATS = 1e-2
"""Tolerance: in half precision the log-probability of a certain token can be slightly above zero."""
RECORDED = "recorded"
"""Placeholder for a name that the study does not give."""
Names = Mapping[str, Literal["task", "agent"]]
"""Columns that name tasks and agents."""


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """A recorded table of a study, read lazily."""

    study: Study
    name: str
    rows: pl.LazyFrame

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.study.name}: the table {self.name}"

    def columns(self, schema: Schema, *, without: Sequence[str] = (TOKENS,)) -> pl.LazyFrame:
        """The columns of a schema, null if the table does not have one; numbers that are not finite become null."""
        there = self.rows.collect_schema()
        wanted = {name: kind for name, kind in schema.items() if name not in without}
        return self.rows.select(
            _column(name, kind, there[name]) if name in there else pl.lit(None, kind).alias(name)
            for name, kind in wanted.items()
        )

    def check_numbers(self, columns: Sequence[str], place: str) -> None:
        """Reject cells that are not numbers; ``place``: format of the row's name."""
        there = self.rows.collect_schema()
        for name in columns:
            kind = there.get(name)
            cell = kind.inner if name == TOKENS and isinstance(kind, pl.List) else kind
            if cell is None or cell.is_numeric() or cell == pl.Null:
                continue
            with self.study.reading(self.name):
                bad = self.rows.filter(_not_numbers(name, there[name])).head(1).collect()
            for row in bad.iter_rows(named=True):
                raise MetricError(f"{self.label}, {place.format_map(row)}: {name} must be a number, got {row[name]!r}")

    def require(self, columns: Sequence[str]) -> None:
        """Raise if a column is missing."""
        there = self.rows.collect_schema().names()
        missing = [column for column in columns if column not in there]
        if missing:
            raise MetricError(f"{self.label} has no column {', '.join(missing)}; it has {', '.join(there)}")

    def read(self, rows: pl.LazyFrame, names: Names) -> pl.DataFrame:
        """The rows with tasks and agents as enums of the study; raises if one is not in the study."""
        kinds = {"task": pl.Enum(self.study.tasks), "agent": pl.Enum([agent.agent for agent in self.study.agents])}
        casts = [pl.col(column).cast(kinds[kind]) for column, kind in names.items()]
        with self.study.reading(self.name):
            try:
                return rows.with_columns(casts).collect()
            except pl.exceptions.InvalidOperationError:
                for column, kind in names.items():
                    self._refuse_strange(rows, column, kind)
                raise

    def _refuse_strange(self, rows: pl.LazyFrame, column: str, kind: Literal["task", "agent"]) -> None:
        known = self.study.tasks if kind == "task" else [agent.agent for agent in self.study.agents]
        strange = set(rows.select(pl.col(column).unique()).collect()[column].drop_nulls()) - set(known)
        if strange:
            raise MetricError(
                f"{self.label} has {kind}s that are not in the study: "
                f"{', '.join(sorted(strange)[:5])}{' …' * (len(strange) > 5)}"
            )

    def check_names(self, names: Names) -> None:
        """Reject tasks or agents that are not in the study, even in rows that are not used."""
        there = self.rows.collect_schema()
        with self.study.reading(self.name):
            for column, kind in names.items():
                if column in there:
                    self._refuse_strange(self.rows, column, kind)

    def check_named(self, rows: pl.DataFrame, columns: Sequence[str]) -> None:
        """Reject rows without a name in these columns."""
        for column in columns:
            if rows[column].null_count():
                raise MetricError(f"{self.label} has rows without a {column}")

    def check_once(self, rows: pl.DataFrame, key: Sequence[str]) -> None:
        """Reject duplicate evidence: it is unclear which row is valid."""
        if _keys(rows, key).n_unique() == len(rows):
            return
        # with very many names two keys may have one number
        for twice in rows.filter(pl.struct(key).is_duplicated()).head(1).iter_rows(named=True):
            what = ", ".join(str(twice[part]) for part in key if twice[part] is not None)
            raise MetricError(f"{self.label} has more than one row for {what}. Keep one")


def _keys(rows: pl.DataFrame, key: Sequence[str]) -> pl.Series:
    """One number per row, equal if all columns of the key are equal."""
    found = pl.Series([0], dtype=pl.UInt64).new_from_index(0, len(rows))
    for column in (rows[name].to_physical() for name in key):
        code = column.cast(pl.UInt64).fill_null(0) + column.is_not_null().cast(pl.UInt64)
        found = found * (int(code.to_numpy().max(initial=0)) + 1) + code
    return found


def _column(name: str, kind: pl.DataType | type[pl.DataType], there: pl.DataType) -> pl.Expr:
    if kind == pl.Float64:
        value = number(name, there)
        return pl.when(value.is_finite()).then(value).alias(name)
    if name == TOKENS and there.is_numeric():
        return pl.when(pl.col(name).is_not_null()).then(pl.concat_list(pl.col(name).cast(pl.Float64))).alias(name)
    if name == TOKENS:
        return pl.col(name).cast(kind, strict=False)
    return pl.col(name) if there == kind else pl.col(name).cast(kind)


def _not_numbers(name: str, kind: pl.DataType) -> pl.Expr:
    """Whether a cell is not a number, or not a list of numbers."""
    if name == TOKENS and isinstance(kind, pl.List):
        cell = pl.element()
        return pl.col(name).list.eval(cell.is_not_null() & cell.cast(pl.Float64, strict=False).is_null()).list.any()
    return pl.col(name).is_not_null() & number(name, kind).is_null()


def _named(name: str) -> pl.Expr:
    """A column of names, with a placeholder for missing ones."""
    return pl.when(pl.col(name) != "").then(pl.col(name)).otherwise(pl.lit(RECORDED)).alias(name)


def find_table(study: Study, name: str) -> RecordedTable | None:
    """The study's table of this name; None if there is none."""
    rows = study.scan(name)
    return None if rows is None else RecordedTable(study, name, rows)


# --- log-probabilities ---------------------------------------------------------------------------------------------


def recorded_logprobs(study: Study) -> pl.DataFrame:
    """The study's logprobs table, without per-token values. Raises if it has impossible values."""
    table = find_table(study, "logprobs")
    if table is None:
        return empty(LOGPROBS).drop(TOKENS)
    table.require(("task", "target"))
    table.check_numbers(("sum_logprob_nats", "mean_token_logprob_nats", "tokens", TOKENS), place="{target} on {task}")
    names = pl.col("scorer", "template", "rewriter", "synopsis").cast(pl.Categorical)
    rows = _logprobs(table, values=_lacks_sums(table)).drop(TOKENS, strict=False).with_columns(names)
    found = table.read(rows, {"task": "task", "target": "agent", "given": "agent"})
    table.check_named(found, ("task", "target"))
    _check_logprobs(table, found)
    table.check_once(found, ("scorer", "template", "rewriter", "synopsis", "task", "target", "given"))
    return _as_logprobs(found.lazy()).collect()


def recorded_control(study: Study) -> pl.DataFrame:
    """The study's log-probabilities of responses to other tasks. Raises where it holds what cannot be."""
    table = find_table(study, "control_logprobs")
    if table is None:
        return empty(CONTROL)
    table.require(("task", "target", "target_task"))
    table.check_numbers(("sum_logprob_nats", "mean_token_logprob_nats", "tokens"), place="{target} on {task}")
    names = pl.col("scorer", "template", "rewriter", "synopsis").cast(pl.Categorical)
    rows = _logprobs(table, values=False, schema=CONTROL).with_columns(names)
    found = table.read(rows, {"task": "task", "target_task": "task", "target": "agent", "given": "agent"})
    table.check_named(found, ("task", "target", "target_task"))
    _check_logprobs(table, found)
    table.check_once(found, ("scorer", "template", "rewriter", "synopsis", "task", "target", "given", "target_task"))
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
        *(_named(name) for name in ("scorer", "template")),
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
    return _with_failures(rows, lacking).with_columns(pl.col("tokens").cast(pl.Int64)).drop("highest", strict=False)


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
    study: Study, metrics: Sequence[Metric], scorer: str | None, templates: Sequence[str]
) -> pl.DataFrame:
    """The recorded log-probabilities of one scorer, for the given templates or all.

    Raises if they are not enough for a metric.
    """
    rows = recorded_logprobs(study)
    if rows.is_empty():
        names = ", ".join(metric.name for metric in metrics)
        raise MetricError(
            f"{study.name} has no recorded log-probabilities (table logprobs), which {names} "
            f"need{'s' * (len(metrics) == 1)}. Drop --recorded to call a scorer"
        )
    rows = _of_one(rows, "scorer", scorer, f"{study.name} has log-probabilities of several scorers", "--scorer")
    known = rows["template"].unique(maintain_order=True).to_list()
    if templates and known != [RECORDED]:
        for name in templates:
            if name not in known:
                raise MetricError(
                    f"{study.name} has no log-probabilities for the template {name!r}"
                    f"{nearest(name, known) or '.'} It has: {', '.join(known)}"
                )
        rows = rows.filter(pl.col("template").is_in(list(templates)))
    _check_sums(study, metrics, rows)
    return rows


def usable_control(study: Study, logprobs: pl.DataFrame) -> pl.DataFrame:
    """The recorded log-probabilities of responses to other tasks, of the same scorer and templates as these."""
    rows = recorded_control(study)
    return rows.filter(pl.col(name).is_in(logprobs[name].unique().to_list()) for name in ("scorer", "template"))


def _check_sums(study: Study, metrics: Sequence[Metric], rows: pl.DataFrame) -> None:
    """Reject metrics over sums if the study has only means."""
    if rows["sum_logprob_nats"].count() or not rows["mean_token_logprob_nats"].count():
        return
    sums = [m.name for m in metrics if m.needs.logprobs is not None and not m.needs.logprobs.per_token]
    if sums:
        raise MetricError(
            f"{study.name} has log-probabilities only as means over tokens, but {', '.join(sums)} "
            f"need{'s' * (len(sums) == 1)} sums. Means are enough for mi, gppm and gptscore"
        )


def _of_one(rows: pl.DataFrame, column: str, named: str | None, what: str, option: str) -> pl.DataFrame:
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
    table.require(("task", "first", "second", "second_task", "value"))
    table.check_numbers(("value",), place="{first} and {second} on {task}")
    rows = table.columns(VERDICTS).filter(pl.col("first").ne_missing(pl.col("second")))
    named = [_named(name).cast(pl.Categorical) for name in ("critic", "prompt")]
    found = table.read(
        rows.with_columns(*named),
        {"task": "task", "second_task": "task", "first": "agent", "second": "agent"},
    )
    if found.is_empty():
        return found
    table.check_named(found, ("task", "first", "second", "second_task"))
    _check_between(table, found, "value", "a verdict must be between 0 and 1, or empty if missing")
    found = _of_one(found, "critic", critic, f"{study.name} has verdicts of several critics", "--critic")
    found = _of_one(found, "prompt", prompt, f"{study.name} has verdicts for several prompts", "--critic-prompt")
    table.check_once(found, ("task", "first", "second", "second_task"))
    return _with_failures(found.lazy(), pl.col("value").is_null()).collect()


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
    rows = table.columns(REWRITES).with_columns(_named("rewriter"), pl.col("text").str.strip_chars())
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
