"""A recorded table of a study: its columns, checked, in memory or in parts on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import polars as pl

from goldless.errors import MetricError
from goldless.evidence import TOKENS, Schema, number
from goldless.files import FrameParts
from goldless.studies import Study

RECORDED = "recorded"
"""Placeholder for a name that the study does not give."""
ROWS_IN_MEMORY = 4_000_000
"""Tables with more rows are read in parts."""
ROWS_PER_PART = 2_000_000
"""Rows of a part, about: all rows of a task are in one."""
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
        with self._reading(rows, names) as named:
            return named.collect()

    def read_in_parts(
        self, rows: pl.LazyFrame, names: Names, checked: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> FrameParts:
        """The rows as ``read`` returns them, checked, on disk in parts that each have all rows of their tasks.

        ``checked``: is given some rows at a time, and returns those to keep.
        """
        tasks = max(1, len(self.study.tasks) * ROWS_PER_PART // max(1, self.height))
        found = FrameParts()
        with self._reading(rows, names) as named:
            for batch in named.collect_batches(chunk_size=ROWS_PER_PART // 2, maintain_order=True):
                kept = checked(batch).with_columns(part=pl.col("task").to_physical() // tasks)
                for (part,), some in kept.partition_by("part", as_dict=True, include_key=False).items():
                    found.add(some, part)
        return found

    @property
    def height(self) -> int:
        """Number of rows."""
        with self.study.reading(self.name):
            return int(self.rows.select(pl.len()).collect().item())

    @contextmanager
    def _reading(self, rows: pl.LazyFrame, names: Names) -> Iterator[pl.LazyFrame]:
        """The rows with tasks and agents as enums; collecting them raises if one is not in the study."""
        kinds = {"task": self.study.task_names, "agent": self.study.agent_names}
        with self.study.reading(self.name):
            try:
                yield rows.with_columns(pl.col(column).cast(kinds[kind]) for column, kind in names.items())
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


def named(name: str) -> pl.Expr:
    """A column of names, with a placeholder for missing ones."""
    return pl.when(pl.col(name) != "").then(pl.col(name)).otherwise(pl.lit(RECORDED)).alias(name)


def find_table(study: Study, name: str) -> RecordedTable | None:
    """The study's table of this name; None if there is none."""
    rows = study.scan(name)
    return None if rows is None else RecordedTable(study, name, rows)
