"""Recorded evidence of a study, so that a leaderboard can be recomputed without a model.

Each kind of evidence is declared once: its columns, what identifies a row, which names must be in the study, what its
numbers can be. One function reads and checks every kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.evidence import CONTRASTS, CONTROL, LOGPROBS, REWRITES, TOKENS, VERDICTS, Evidence, Schema, number
from goldless.metrics.metric import Metric
from goldless.metrics.tvd_mi import reading
from goldless.runs.options import Options
from goldless.signature import table_hash
from goldless.studies import Study
from goldless.studies.recorded import EVIDENCE
from goldless.templates import EXAMPLES, find_template

RECORDED = "recorded"
"""Placeholder for a name that the study does not give."""
ROUNDING_NATS = 1e-2
"""Tolerance: in half precision the log-probability of a certain token can be slightly above zero."""
Names = Mapping[str, Literal["task", "agent"]]
"""Columns that name tasks and agents."""


# --- one table -----------------------------------------------------------------------------------------------------


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

    def reading(self) -> AbstractContextManager[object]:
        """A ``with`` block for collecting rows."""
        return self.study.reading(self.name)

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
            with self.reading():
                bad = self.rows.filter(_not_numbers(name, there[name])).head(1).collect()
            for row in bad.iter_rows(named=True):
                raise MetricError(f"{self.label}, {place.format_map(row)}: {name} must be a number, got {row[name]!r}")

    def require(self, columns: Sequence[str]) -> None:
        """Raise if a column is missing."""
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
                            f"{self.label} has {kind}s that are not in the study: "
                            f"{', '.join(sorted(strange)[:5])}{' …' * (len(strange) > 5)}"
                        ) from None
                raise


def find_table(study: Study, name: str) -> RecordedTable | None:
    """The study's table of this name; None if there is none."""
    rows = study.scan(name)
    return None if rows is None else RecordedTable(study, name, rows)


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


# --- every kind ----------------------------------------------------------------------------------------------------

Rule = tuple[pl.Expr, str]
"""What is wrong with a row, and the sentence that says so, a format of its cells."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of recorded evidence on pairs of agents."""

    columns: Schema
    required: tuple[str, ...]
    """Columns that must be there."""
    rules: tuple[Rule, ...]
    sources: tuple[str, ...] = ()
    """Columns that say how a value was made."""
    values: tuple[str, ...] = ()
    """Where all of these are missing, a row is recorded as failed."""

    @property
    def names(self) -> Names:
        """Columns with names that must be in the study."""
        tasks, agents = ("task", "second_task", "target_task"), ("target", "given", "first", "second")
        return {name: "task" if name in tasks else "agent" for name in self.columns if name in {*tasks, *agents}}

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return (*self.sources, *self.names)

    @property
    def hashed(self) -> tuple[str, ...]:
        """The columns that the hash in a signature is of."""
        return (*(name for name in self.key if name not in {"scorer", "critic", "prompt"}), *self.values)

    @property
    def pair(self) -> tuple[str, str]:
        """Two agents; rows in which they are the same are left out."""
        return ("target", "given") if "target" in self.columns else ("first", "second")

    @property
    def place(self) -> str:
        """How messages name a row, a format of its cells."""
        return "{target} on {task}" if "target" in self.columns else "{first} and {second} on {task}"


_LOGPROB_SOURCES = ("scorer", "template", "rewriter", "synopsis")
_LOGPROB_VALUES = ("sum_logprob_nats", "mean_token_logprob_nats")
_LOGPROB_RULES: tuple[Rule, ...] = (
    (pl.max_horizontal(*_LOGPROB_VALUES, "highest") > ROUNDING_NATS, "a log-probability must not be above 0"),
    (
        (pl.col("tokens") < 1) | (pl.col("tokens") % 1 != 0),
        "tokens must be a whole number of at least 1, got {tokens:g}",
    ),
)


def _between(column: str, low: int, more: str = "") -> tuple[Rule, ...]:
    return ((~pl.col(column).is_between(low, 1), f"{column} must be between {low} and 1{more}, got {{{column}:g}}"),)


LOGPROB_KIND = Kind(LOGPROBS, EVIDENCE["logprobs"], _LOGPROB_RULES, _LOGPROB_SOURCES, _LOGPROB_VALUES)
CONTROL_KIND = Kind(CONTROL, EVIDENCE["control_logprobs"], _LOGPROB_RULES, _LOGPROB_SOURCES, _LOGPROB_VALUES)
VERDICT_KIND = Kind(
    VERDICTS, EVIDENCE["verdicts"], _between("value", 0, ", or empty if missing"), ("critic", "prompt"), ("value",)
)
CONTRAST_KIND = Kind(CONTRASTS, EVIDENCE["critic_contrasts"], _between("contrast", -1))
WINS: Schema = {"task": pl.String, "first": pl.String, "second": pl.String, "first_wins": pl.Float64}
WIN_KIND = Kind(WINS, tuple(WINS), _between("first_wins", 0))


def read_recorded(study: Study, name: str, kind: Kind) -> pl.DataFrame:
    """A table's rows, without per-token values. Raises if one of them cannot be."""
    table = find_table(study, name)
    if table is None:
        return pl.DataFrame(schema=kind.columns).drop(TOKENS, strict=False)
    table.require(kind.required)
    table.check_numbers([name for name, dtype in kind.columns.items() if dtype != pl.String], kind.place)
    found = table.read(_rows(table, kind, values=_lacks_sums(table, kind)).drop(TOKENS, strict=False), kind.names)
    for wrong, why in kind.rules:
        for row in found.filter(wrong).head(1).iter_rows(named=True):
            raise MetricError(f"{table.label}, {kind.place.format_map(row)}: {why.format_map(row)}")
    if _keys(found, kind.key).n_unique() < len(found):
        # with very many names two keys may have one number
        for twice in found.filter(pl.struct(kind.key).is_duplicated()).head(1).iter_rows(named=True):
            what = ", ".join(str(twice[part]) for part in kind.key if twice[part] is not None)
            raise MetricError(f"{table.label} has more than one row for {what}. Keep one")
    return _finished(found.lazy(), kind).collect()


def _rows(table: RecordedTable, kind: Kind, *, values: bool = False) -> pl.LazyFrame:
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


def _lacks_sums(table: RecordedTable, kind: Kind) -> bool:
    """Whether per-token values must be read because sums or means are not recorded."""
    if TOKENS not in kind.columns or TOKENS not in table.rows.collect_schema():
        return False
    lacking = pl.any_horizontal(pl.col(name).is_null() for name in kind.values) & pl.col("failure").is_null()
    with table.reading():
        return bool(_rows(table, kind).select(lacking.any()).collect().item())


def _finished(rows: pl.LazyFrame, kind: Kind) -> pl.LazyFrame:
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


def _keys(rows: pl.DataFrame, key: Sequence[str]) -> pl.Series:
    """One number per row, equal if all columns of the key are equal."""
    found = pl.Series([0], dtype=pl.UInt64).new_from_index(0, len(rows))
    for column in (rows[name].to_physical() for name in key):
        code = column.cast(pl.UInt64).fill_null(0) + column.is_not_null().cast(pl.UInt64)
        found = found * (int(code.to_numpy().max(initial=0)) + 1) + code
    return found


def recorded_logprobs(study: Study) -> pl.DataFrame:
    """The study's log-probabilities, without per-token values. Raises if it has impossible values."""
    return read_recorded(study, "logprobs", LOGPROB_KIND)


def recorded_control(study: Study) -> pl.DataFrame:
    """The study's log-probabilities of responses to other tasks. Raises if it has impossible values."""
    return read_recorded(study, "control_logprobs", CONTROL_KIND)


def recorded_tokens(study: Study, *, scorers: Sequence[str], templates: Sequence[str] | None = None) -> pl.LazyFrame:
    """The rows of a study's checked logprobs table with their per-token values, not read yet."""
    table = find_table(study, "logprobs")
    assert table is not None
    rows = _rows(table, LOGPROB_KIND, values=TOKENS in table.rows.collect_schema())
    rows = rows.with_columns(pl.col(LOGPROB_KIND.sources).cast(pl.String)).filter(pl.col("scorer").is_in(list(scorers)))
    if templates is not None:
        rows = rows.filter(pl.col("template").is_in(list(templates)))
    if TOKENS not in rows.collect_schema():
        rows = rows.with_columns(pl.lit(None, LOGPROBS[TOKENS]).alias(TOKENS))
    return _finished(rows, LOGPROB_KIND).select(*LOGPROBS)


def check_wins(study: Study, table: str) -> None:
    """Raise if the study does not have this table of a judge's comparisons."""
    if table not in study.recorded:
        known = [name for name in study.recorded if name.startswith("judge_")]
        have = f"It has {', '.join(known)}" if known else "It has no table judge_… at all"
        raise MetricError(f"{study.name} has no table {table}{nearest(table, known) or '.'} {have}")


def recorded_wins(study: Study, name: str) -> pl.DataFrame:
    """Task, first, second and first_wins of a table of a judge's comparisons."""
    check_wins(study, name)
    return read_recorded(study, name, WIN_KIND)


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


def evidence_hash(rows: Iterable[tuple[Any, ...]]) -> str:
    """Eight digits that identify a small table, independent of the order of its rows."""
    digest = hashlib.sha256()
    for line in sorted(repr(row) for row in rows):
        digest.update(line.encode())
    return digest.hexdigest()[:8]


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
            "evidence": f"recorded-{table_hash(logprobs.select(LOGPROB_KIND.hashed))}",
        }
        if any(metric.needs.logprobs is not None and metric.needs.logprobs.control for metric in likelihood):
            control = recorded_control(study).filter(pl.col(name).is_in(values) for name, values in used.items())
            tables["control"] = control
            hashed = table_hash(control.select(CONTROL_KIND.hashed))
            described["control"] = {"control-evidence": f"recorded-{hashed}"}
    judged = [metric for metric in metrics if metric.needs.verdicts is not None]
    if judged:
        found, described["verdicts"] = _verdicts_or_contrasts(study, options, judged)
        tables |= found
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


def _usable_logprobs(study: Study, options: Options, metrics: Sequence[Metric]) -> pl.DataFrame:
    """The recorded log-probabilities of one scorer, for the given templates or all.

    Those after worked examples are of the jurors, or of all. Raises if they are not enough for a metric.
    """
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


def _verdicts_or_contrasts(
    study: Study, options: Options, metrics: Sequence[Metric]
) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """The verdicts of one critic on one prompt, or contrasts, with what signatures say of them."""
    rows = read_recorded(study, "verdicts", VERDICT_KIND)
    if rows.is_empty():
        contrasts = read_recorded(study, "critic_contrasts", CONTRAST_KIND)
        _check_contrasts(study, contrasts, metrics)
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


def _check_contrasts(study: Study, contrasts: pl.DataFrame, metrics: Sequence[Metric]) -> None:
    """Reject a study without contrasts, and a metric over both directions if it has only one."""
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
