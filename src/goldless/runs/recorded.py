"""Recorded evidence of a study, so that a leaderboard can be recomputed without a model.

``evidence.TABLES`` declares each kind: its columns, what identifies a row, which names must be in the study, what its
numbers can be. One function reads and checks every kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from goldless.errors import MetricError, check_known, listed, nearest
from goldless.evidence import (
    LOGPROBS,
    REWRITES,
    TABLES,
    TOKENS,
    Evidence,
    EvidenceTable,
    Names,
    Rule,
    Schema,
    between,
    number,
)
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import reading
from goldless.runs.options import Options
from goldless.signature import table_hash
from goldless.studies import Study
from goldless.templates import EXAMPLES, find_template

RECORDED = "recorded"
"""Placeholder for a name that the study does not give."""


# --- one table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedTable:
    """A recorded table of a study, read lazily."""

    study: Study
    name: str
    rows: pl.LazyFrame

    @property
    def label(self) -> str:
        return f"{self.study.name}: the table {self.name}"

    def reading(self) -> AbstractContextManager[object]:
        """A ``with`` block for collecting rows."""
        return self.study.reading(self.name)

    def columns(self, schema: Schema, *, without: Sequence[str] = (TOKENS,)) -> pl.LazyFrame:
        """The columns of a schema, null if the table does not have one; numbers that are not finite become null."""
        there, found = self.rows.collect_schema(), []
        for name, kind in schema.items():
            if name not in there:
                cells = pl.lit(None, kind)
            elif kind == pl.Float64:
                value = number(name, there[name])
                cells = pl.when(value.is_finite()).then(value)
            else:
                cells = pl.col(name).cast(kind, strict=name != TOKENS)
            if name not in without:
                found.append(cells.alias(name))
        return self.rows.select(found)

    def check_numbers(self, columns: Sequence[str], place: str) -> None:
        """Reject cells that are not numbers; ``place``: format of the row's name."""
        there, cell = self.rows.collect_schema(), pl.element()
        for name in (name for name in columns if name in there):
            kind = there[name]
            if name == TOKENS and isinstance(kind, pl.List):
                bad = pl.col(name).list.eval(cell.is_not_null() & cell.cast(pl.Float64, strict=False).is_null())
                wrong, plain = bad.list.any(), kind.inner.is_numeric() or kind.inner == pl.Null
            else:
                wrong = pl.col(name).is_not_null() & number(name, kind).is_null()
                plain = kind.is_numeric() or kind == pl.Null
            if plain:
                continue
            with self.reading():
                found = self.rows.filter(wrong).head(1).collect()
            for row in found.iter_rows(named=True):
                raise MetricError(f"{self.label}, {place.format_map(row)}: {name} must be a number, got {row[name]!r}")

    def refuse(self, rows: pl.DataFrame, rules: Iterable[Rule], place: str) -> None:
        """Raise at the first row for which a rule says what is wrong; ``place``: format of the row's name."""
        for wrong, why in rules:
            for row in rows.filter(wrong).head(1).iter_rows(named=True):
                raise MetricError(f"{self.label}, {place.format_map(row)}: {why.format_map(row)}")

    def require(self, columns: Sequence[str]) -> None:
        there = self.rows.collect_schema().names()
        if missing := [column for column in columns if column not in there]:
            raise MetricError(f"{self.label} has no column {', '.join(missing)}; it has {', '.join(there)}")

    def read(self, rows: pl.LazyFrame, names: Names) -> pl.DataFrame:
        """The rows with tasks and agents as enums of the study; raises if one is not in the study."""
        kinds = {"task": self.study.task_names, "agent": self.study.agent_names}
        with self.reading():
            try:
                return rows.with_columns(pl.col(column).cast(kinds[kind]) for column, kind in names.items()).collect()
            except pl.exceptions.InvalidOperationError:
                for column, kind in names.items():
                    used = rows.select(pl.col(column).unique()).collect()[column].drop_nulls()
                    if strange := set(used) - set(kinds[kind].categories):
                        raise MetricError(
                            f"{self.label} has {kind}s that are not in the study: {listed(sorted(strange))}"
                        ) from None
                raise


def find_table(study: Study, name: str) -> RecordedTable | None:
    """The study's table of this name; None if there is none."""
    rows = study.scan(name)
    return None if rows is None else RecordedTable(study, name, rows)


# --- every kind ----------------------------------------------------------------------------------------------------

WINS: Schema = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
WIN_KIND = EvidenceTable(WINS, rules=between("first_wins", 0))
"""Of every table of a judge's comparisons."""


def read_recorded(study: Study, name: str) -> pl.DataFrame:
    """A table's rows, without per-token values; none where the study does not have it. Raises if one cannot be."""
    table, kind = find_table(study, name), TABLES.get(name, WIN_KIND)
    if table is None:
        return pl.DataFrame(schema=kind.columns).drop(TOKENS, strict=False)
    if kind is WIN_KIND:
        table.require(list(WINS))
    table.check_numbers([name for name, dtype in kind.columns.items() if dtype != pl.String], kind.place)
    lacks_sums = False  # per-token values are read only where sums or means are not recorded
    if TOKENS in kind.columns and TOKENS in table.rows.collect_schema():
        lacking = pl.any_horizontal(pl.col(name).is_null() for name in kind.values) & pl.col("failure").is_null()
        with table.reading():
            lacks_sums = bool(_rows(table, kind).select(lacking.any()).collect().item())
    found = table.read(_rows(table, kind, values=lacks_sums).drop(TOKENS, strict=False), kind.names)
    table.refuse(found, kind.rules, kind.place)
    for twice in found.filter(pl.struct(kind.key).is_duplicated()).head(1).iter_rows(named=True):
        what = ", ".join(str(twice[part]) for part in kind.key if twice[part] is not None)
        raise MetricError(f"{table.label} has more than one row for {what}. Keep one")
    return _finished(found.lazy(), kind).collect()


def _rows(table: RecordedTable, kind: EvidenceTable, *, values: bool = False) -> pl.LazyFrame:
    """The columns of a table; ``values``: sums and means that are not recorded are those of per-token values.

    If a per-token value is not a number, there is no sum.
    """
    first, second = kind.pair
    columns: Schema = {name: pl.Float64 if dtype == pl.Int64 else dtype for name, dtype in kind.columns.items()}
    rows = table.columns(columns, without=() if values else (TOKENS,))
    rows = rows.filter(pl.col(first).ne_missing(pl.col(second)))
    named = [name for name in kind.sources if name not in {"rewriter", "synopsis"}]
    rows = rows.with_columns(
        pl.when(pl.col(name) != "").then(name).otherwise(pl.lit(RECORDED)).alias(name) for name in named
    ).with_columns(pl.col(kind.sources).cast(pl.Categorical))
    if "sum_logprob_nats" not in kind.columns:
        return rows
    total, mean, count = pl.col("sum_logprob_nats"), pl.col("mean_token_logprob_nats"), pl.col("tokens")
    rows = rows.with_columns(pl.coalesce(mean, total / count), highest=pl.lit(None, pl.Float64))
    if not values:
        return rows
    tokens = pl.col(TOKENS).list
    known = tokens.eval(pl.element().is_finite().fill_null(value=False))
    whole = pl.when((known.list.len() > 0) & known.list.all())
    return rows.with_columns(
        pl.coalesce(total, whole.then(tokens.sum())),
        pl.coalesce(mean, whole.then(tokens.mean())),
        pl.coalesce(count, whole.then(tokens.len())),
        highest=tokens.max(),
    )


def _finished(rows: pl.LazyFrame, kind: EvidenceTable) -> pl.LazyFrame:
    """The columns of the kind; values missing without a cause count as not recorded."""
    if not kind.values:
        return rows
    silent = pl.all_horizontal(pl.col(name).is_null() for name in kind.values) & pl.col("failure").is_null()
    said = pl.coalesce("failure_message", pl.when(pl.col("failure").is_not_null()).then(pl.lit("recorded as failed")))
    rows = rows.with_columns(
        failure_message=pl.when(silent).then(pl.lit("not recorded in the study")).otherwise(said),
        failure=pl.when(silent).then(pl.lit("not_recorded")).otherwise("failure"),
    ).drop("highest", strict=False)
    # a number of tokens that cannot be is not known
    return rows.with_columns(pl.col("tokens").cast(pl.Int64, strict=False)) if "tokens" in kind.columns else rows


def recorded_tokens(study: Study, *, scorers: Sequence[str], templates: Sequence[str] | None = None) -> pl.LazyFrame:
    """The rows of a study's checked logprobs table with their per-token values, not read yet."""
    table, kind = find_table(study, "logprobs"), TABLES["logprobs"]
    assert table is not None
    rows = _rows(table, kind, values=TOKENS in table.rows.collect_schema())
    rows = rows.with_columns(pl.col(kind.sources).cast(pl.String)).filter(pl.col("scorer").is_in(list(scorers)))
    if templates is not None:
        rows = rows.filter(pl.col("template").is_in(list(templates)))
    if TOKENS not in rows.collect_schema():
        rows = rows.with_columns(pl.lit(None, LOGPROBS[TOKENS]).alias(TOKENS))
    return _finished(rows, kind).select(*LOGPROBS)


def check_wins(study: Study, table: str) -> None:
    """Raise if the study does not have this table of a judge's comparisons."""
    if table not in study.recorded:
        known = [name for name in study.recorded if name.startswith("judge_")]
        have = f"It has {', '.join(known)}" if known else "It has no table judge_… at all"
        raise MetricError(f"{study.name} has no table {table}{nearest(table, known) or '.'} {have}")


def recorded_rewrites(study: Study) -> pl.DataFrame:
    """The recorded rewrites of a study's responses, without empty ones."""
    table, answered = find_table(study, "rewrites"), study.table("responses")
    if table is None or answered is None:
        return pl.DataFrame(schema=REWRITES)
    name = pl.when(pl.col("rewriter") != "").then("rewriter").otherwise(pl.lit(RECORDED)).alias("rewriter")
    rows = table.columns(REWRITES).with_columns(name, pl.col("text").str.strip_chars())
    with table.reading():
        found = rows.filter(pl.col("text").str.len_bytes() > 0).collect()
    return found.join(answered, on=["task", "agent"], how="semi", maintain_order="left")


# --- the evidence of metrics -----------------------------------------------------------------------------------------


def recorded_evidence(study: Study, options: Options, metrics: Sequence[Metric]) -> Evidence:
    """The recorded log-probabilities and verdicts that metrics need, and what signatures say of them.

    Raises if there are none.
    """
    tables: dict[str, Any] = {}
    described: dict[str, dict[str, str]] = {}
    likelihood = [metric for metric in metrics if metric.needs.logprobs is not None]
    if likelihood:
        logprobs = _usable_logprobs(study, options, likelihood)
        used = {name: logprobs[name].unique().to_list() for name in ("scorer", "template")}
        tables["logprobs"] = logprobs
        tables["with_tokens"] = partial(recorded_tokens, study, scorers=used["scorer"], templates=used["template"])
        described["logprobs"] = {
            "scorer": "+".join(logprobs["scorer"].unique(maintain_order=True)),
            "evidence": f"recorded-{table_hash(logprobs.select(TABLES['logprobs'].hashed))}",
        }
        if any(metric.needs.logprobs is not None and metric.needs.logprobs.control for metric in likelihood):
            control = read_recorded(study, "control_logprobs").filter(
                pl.col(name).is_in(values) for name, values in used.items()
            )
            tables["control"] = control
            hashed = table_hash(control.select(TABLES["control_logprobs"].hashed))
            described["control"] = {"control-evidence": f"recorded-{hashed}"}
    judged = [metric for metric in metrics if metric.needs.verdicts is not None]
    if judged:
        found, described["verdicts"] = _verdicts_or_contrasts(study, options, judged)
        tables |= found
    return Evidence(**tables, described=described)


def _of_one(rows: pl.DataFrame, column: str, given: Any, what: str, option: str) -> pl.DataFrame:
    """The rows of the only value, or of the given one."""
    found = rows[column].unique(maintain_order=True).to_list()
    if len(found) == 1:
        return rows
    named = given if isinstance(given, str) else None
    if named not in found:
        raise MetricError(f"{what}: {', '.join(sorted(found))}. Choose one with {option}{nearest(named or '', found)}")
    return rows.filter(pl.col(column) == named)


def _usable_logprobs(study: Study, options: Options, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The recorded log-probabilities of one scorer, for the given templates or all.

    Those after worked examples are of the jurors, or of all. Raises if they are not enough for a metric.
    """
    templates = [find_template(name).name for name in options.scoring.templates]
    rows, template = read_recorded(study, "logprobs"), pl.col("template").cast(pl.String)
    needs = {metric.name: metric.needs.logprobs for metric in metrics if metric.needs.logprobs is not None}
    worked = template.str.contains(EXAMPLES, literal=True)
    found, asked_plainly = rows.filter(~worked), [n for n, need in needs.items() if not need.worked_examples]
    if rows.is_empty() or (found.is_empty() and asked_plainly):
        raise MetricError(
            f"{study.name} has no recorded log-probabilities (table logprobs), which "
            f"{_which_need(list(needs) if rows.is_empty() else asked_plainly)}. Drop --recorded to call a scorer"
        )
    if len(found):
        several = f"{study.name} has log-probabilities of several scorers"
        found = _of_one(found, "scorer", options.scoring.scorer, several, "--scorer")
        known = found["template"].unique(maintain_order=True).to_list()
        if templates and known != [RECORDED]:
            said = f"{study.name} has no log-probabilities for the template"
            check_known(templates, known, said, "It has", MetricError)
            found = found.filter(template.is_in(templates))
    if len(asked_plainly) < len(needs):
        found = pl.concat(
            [found, _of_jurors(study, rows.filter(worked), list(map(str, options.scoring.jurors)), templates)]
        )
    sums = [name for name, need in needs.items() if not need.per_token]
    if sums and not found["sum_logprob_nats"].count() and found["mean_token_logprob_nats"].count():
        raise MetricError(
            f"{study.name} has log-probabilities only as means over tokens, but {_which_need(sums)} sums. Means are "
            "enough for mi, gppm and gptscore"
        )
    return found


def _which_need(metrics: Sequence[str]) -> str:
    return f"{', '.join(metrics)} need{'s' * (len(metrics) == 1)}"


def _of_jurors(study: Study, rows: pl.DataFrame, jurors: Sequence[str], templates: Sequence[str]) -> pl.DataFrame:
    """The rows of these jurors, or of all, for the given templates or all."""
    known = rows["scorer"].unique(maintain_order=True).to_list()
    check_known(jurors, known, f"{study.name} has no log-probabilities of a juror", "Jurors", MetricError)
    if jurors:
        rows = rows.filter(pl.col("scorer").cast(pl.String).is_in(list(jurors)))
    before = pl.col("template").cast(pl.String).str.split(EXAMPLES).list.first()
    return rows.filter(before.is_in(list(templates))) if templates else rows


def _verdicts_or_contrasts(
    study: Study, options: Options, metrics: Sequence[Metric]
) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """The verdicts of one critic on one prompt, or contrasts, with what signatures say of them."""
    rows = read_recorded(study, "verdicts")
    if rows.is_empty():
        contrasts = read_recorded(study, "critic_contrasts")
        if contrasts.is_empty():
            raise MetricError(
                f"{study.name} has no recorded critic verdicts (table verdicts or critic_contrasts), which tvd-mi "
                "needs. Drop --recorded to call a critic"
            )
        both = [metric.name for metric in metrics if metric.needs.verdicts == "both"]
        found = contrasts.select("first", "second").unique()
        turned = found.join(found, left_on=["first", "second"], right_on=["second", "first"], how="semi")
        if both and turned.is_empty():
            raise MetricError(
                f"{study.name} has contrasts of each pair in only one direction, but {both[0]} is the mean of both. "
                "Use tvd-mi[given] or tvd-mi[about]"
            )
        return {"contrasts": contrasts}, {"evidence": f"recorded-contrasts-{table_hash(contrasts)}"}
    rows = _of_one(rows, "critic", options.scoring.critic, f"{study.name} has verdicts of several critics", "--critic")
    several = f"{study.name} has verdicts for several prompts"
    rows = _of_one(rows, "prompt", options.scoring.critic_prompt, several, "tvd-mi[prompt=NAME]")
    matched = int(rows.select((pl.col("task") == pl.col("second_task")).sum()).item())
    return {"verdicts": rows}, {
        "critic": rows["critic"][0],
        "prompt": rows["prompt"][0],
        "verdicts": reading(rows),
        "shuffles": f"off-diagonal-{(len(rows) - matched) / max(1, matched):g}",
        "evidence": f"recorded-{table_hash(rows.select(TABLES['verdicts'].hashed))}",
    }
