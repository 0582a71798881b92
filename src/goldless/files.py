"""Atomic file writes, and evidence on disk as tables in parts, each written when its rows have arrived."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl


def write_text(path: Path, text: str) -> None:
    """Write a text, completely or not at all."""
    write_whole(path, lambda p: p.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file and move it into place when complete."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


ROWS_PER_GROUP = 5_000
"""Rows per Parquet row group: few enough to find one task's rows without reading much else."""
ROWS_PER_PART = 20_000


class EvidenceParts:
    """The parts of a run's tables while it is running, in a temporary folder that is deleted with this object.

    Rows are appended by batch number: batches that arrive early wait for the earlier ones, so that the same evidence
    gives the same parts in whatever order the replies arrive.
    """

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    @cached_property
    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="goldless-evidence-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def append(self, table: str, place: int, rows: pl.DataFrame) -> None:
        """Add the rows of the batch with this number, counted from 0 in each table."""
        if table not in self._tables:
            self._tables[table] = _Table(self._folder / table)
        self._tables[table].append(place, rows)

    def scan(self, table: str) -> pl.LazyFrame | None:
        """A lazy scan of all rows appended so far, except those waiting for earlier batches; None: there are none."""
        if table not in self._tables:
            return None
        self._tables[table].flush()
        files = sorted(self._tables[table].folder.glob("part-*.parquet"))
        return pl.scan_parquet(files) if files else None


@dataclass(slots=True)
class _Table:
    folder: Path
    early: dict[int, pl.DataFrame] = field(default_factory=dict)
    next_place: int = 0
    ready: list[pl.DataFrame] = field(default_factory=list)
    parts: int = 0

    def append(self, place: int, rows: pl.DataFrame) -> None:
        self.early[place] = rows
        while self.next_place in self.early:
            self.ready.append(self.early.pop(self.next_place))
            self.next_place += 1
        if sum(map(len, self.ready)) >= ROWS_PER_PART:
            self.flush()

    def flush(self) -> None:
        if self.ready:
            write_part(pl.concat(self.ready), self.folder, self.parts)
            self.parts += 1
            self.ready.clear()


def write_part(rows: pl.DataFrame, folder: Path, number: int) -> None:
    """Write one part of a table, completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(
        folder / f"part-{number:05}.parquet", lambda path: rows.write_parquet(path, row_group_size=ROWS_PER_GROUP)
    )


def write_table(table: pl.LazyFrame | pl.DataFrame | None, folder: Path, name: str) -> None:
    """Write a table in parts and replace that of an earlier run; without rows the table is removed."""
    aside = folder / f".{name}.parts"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        for number, rows in enumerate(_batches(table)):
            write_part(rows, aside, number)
        shutil.rmtree(folder / name, ignore_errors=True)
        for before in ("parquet", "jsonl"):  # as 0.1.0 wrote it
            (folder / f"{name}.{before}").unlink(missing_ok=True)
        if aside.is_dir():
            aside.rename(folder / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _batches(table: pl.LazyFrame | pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    if isinstance(table, pl.DataFrame):
        yield from (rows for rows in table.iter_slices(ROWS_PER_PART) if len(rows))
    elif table is not None:
        yield from (rows for rows in table.collect_batches(chunk_size=ROWS_PER_PART, maintain_order=True) if len(rows))
