"""Tables of a run folder, read in small pieces: one task's rows at a time, never the whole run."""

from __future__ import annotations

import functools
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from goldless.files import POLARS_FAILED
from goldless.records import Task
from goldless.reports.run_folder import RunFolder, Stamp, stamp
from goldless.studies.recorded import texts_as_text

TABLES = (
    "tasks",
    "responses",
    "labels",
    "logprobs",
    "control_logprobs",
    "verdicts",
    "critic_contrasts",
    "rewrites",
    "synopses",
    "judgements",
    "pair_scores",
    "perturbed",
)
TOKEN_VALUES = "logprobs_nats"  # noqa: S105 - a column
"""The one large column: read only for the rows shown."""
MOST_GROUPS = 16
"""Rows spread over more row groups than this are found by reading all."""


@dataclass(frozen=True, slots=True)
class EvidenceTables:
    """The Parquet tables of one run folder, each a file or a folder of parts; a missing one has no rows."""

    run: RunFolder

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table; none if it is missing or unreadable."""
        return _columns(stamp(self.run.files(table)))

    def scan(self, table: str) -> pl.LazyFrame | None:
        """The table as a lazy frame; None if it is missing or unreadable."""
        return self.run.scan(table) if self.columns(table) else None

    def of_task(self, table: str, task: str, *, without: Iterable[str] = (TOKEN_VALUES,)) -> pl.DataFrame:
        """The rows of one task, with their position in the table as ``row``."""
        frame, columns = self.scan(table), self.columns(table)
        if frame is None or "task" not in columns:
            return pl.DataFrame()
        wanted = [name for name in columns if name not in set(without)]
        if len(self._groups(table)) == 1:
            return frame.select(wanted).with_row_index("row").filter(pl.col("task") == task).collect()
        return self.at(table, _rows_by_task(stamp(self.run.files(table))).get(task, ()), wanted)

    def at(self, table: str, rows: Sequence[int], columns: Sequence[str]) -> pl.DataFrame:
        """These rows, in ascending order, with their position as ``row``: only row groups that hold one are read."""
        frame = texts_as_text(pl.scan_parquet(self.run.files(table), glob=False).select(columns))
        near = self._by_group(table, rows)
        if not 0 < len(near) <= MOST_GROUPS:
            return frame.with_row_index("row").filter(pl.col("row").is_in(list(rows))).collect()
        # numbered afterwards: a row index before the slice would have the whole table read
        parts = [(some, frame.slice(some[0], some[-1] - some[0] + 1).collect()) for some in near]
        found = pl.concat([part[[row - some[0] for row in some]] for some, part in parts])
        return found.insert_column(0, pl.Series("row", list(rows), pl.UInt32))

    def per_token(self, rows: Sequence[int]) -> dict[int, list[float]]:
        """Log p of every token of these rows of the logprobs table, by row; rows without them are left out."""
        if not rows or TOKEN_VALUES not in self.columns("logprobs"):
            return {}
        found: dict[int, list[float]] = {}
        frame = pl.scan_parquet(self.run.files("logprobs"), glob=False).select(TOKEN_VALUES)
        for near in self._by_group("logprobs", sorted(rows)):
            values = frame.slice(near[0], near[-1] - near[0] + 1).collect()[TOKEN_VALUES]
            found |= {row: held.to_list() for row in near if (held := values[row - near[0]]) is not None}
        return found

    def _by_group(self, table: str, rows: Sequence[int]) -> list[list[int]]:
        """Rows in order, grouped by the row group they are in: a group is read as a whole."""
        starts = self._groups(table)
        found: dict[int, list[int]] = {}
        for row in rows:
            found.setdefault(bisect(starts, row), []).append(row)
        return list(found.values())

    def _groups(self, table: str) -> tuple[int, ...]:
        return _group_starts(stamp(self.run.files(table)))

    def task(self, name: str) -> Task:
        """The task: its prompt, reference and synopses, including those written by a model."""
        found = self.of_task("tasks", name)
        row: dict[str, Any] = found.row(0, named=True) if len(found) else {}
        synopses = {
            column.removeprefix("synopsis_"): value
            for column, value in row.items()
            if column.startswith("synopsis_") and isinstance(value, str)
        }
        for written in self.of_task("synopses", name).iter_rows(named=True):
            if written.get("text"):
                synopses.setdefault(str(written["synopsis"]), written["text"])
        known = {"row", "task", "prompt", "reference"}
        extra = {k: v for k, v in row.items() if k not in known and not k.startswith("synopsis_") and v is not None}
        prompt, reference = (None if row.get(key) is None else str(row[key]) for key in ("prompt", "reference"))
        return Task(name, prompt, reference, synopses, extra)

    def responses(self, task: str) -> dict[str, str]:
        """The agents' responses to a task."""
        return {row["agent"]: row["text"] for row in self.of_task("responses", task).iter_rows(named=True)}


@functools.lru_cache(maxsize=256)
def _columns(files: Stamp) -> tuple[str, ...]:
    try:
        return tuple(pl.read_parquet_schema(files[0][0])) if files else ()
    except (OSError, *POLARS_FAILED):
        return ()


@functools.lru_cache(maxsize=8)
def _rows_by_task(files: Stamp) -> dict[str, tuple[int, ...]]:
    """The rows of each task."""
    frame = pl.scan_parquet([path for path, _, _ in files], glob=False)
    rows = frame.select(pl.col("task").cast(pl.String)).with_row_index("row").group_by("task").agg("row").collect()
    return {task: tuple(places) for task, places in rows.iter_rows()}


@functools.lru_cache(maxsize=256)
def _group_starts(files: Stamp) -> tuple[int, ...]:
    """The first row of each row group, over all files of a table."""
    found = [pq.read_metadata(path) for path, _, _ in files]
    sizes = [meta.row_group(number).num_rows for meta in found for number in range(meta.num_row_groups)]
    return tuple(accumulate(sizes, initial=0))[:-1]
