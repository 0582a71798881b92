"""Recorded tables: evidence, and unknown tables; checked with the study, read only when needed.

A table is one file, or a folder ``NAME/part-*.parquet`` with its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from goldless.files import POLARS_FAILED
from goldless.studies.checking import Names, all_at_once, as_text
from goldless.studies.content import Recorded
from goldless.studies.tables import UNREADABLE, Chunk, Source, is_parquet, parts_of

AGENTS = ("agent", "first", "second", "target", "given")
"""Columns that name an agent in a recorded table."""

TEXTS = (
    *(
        "task",
        "second_task",
        "target_task",
        *AGENTS,
        "synopsis",
        "template",
        "rater",
        "reviewer",
        "rewriter",
        "scorer",
        "critic",
    ),
    *("prompt", "label", "text", "output", "format", "criterion"),
)
"""Columns with names or text: always text, even if all values are numbers."""


def scan(data: Recorded) -> pl.LazyFrame:
    """The table with names as text; of Parquet only the schema is read at first.

    Damaged pages raise when it is collected; inside ``reading`` that becomes a ``StudyError``.
    """
    if isinstance(data, Path) and not is_parquet(data):
        with reading(data):
            return _read_rows(data).lazy()
    if isinstance(data, Path):
        with reading(data):
            lazy = _scan_parquet(parts_of(data))
            return texts_as_text(lazy)
    return texts_as_text(data)


def _scan_parquet(files: list[Path]) -> pl.LazyFrame:
    schemas = [pl.read_parquet_schema(file) for file in files]
    if all(schema == schemas[0] for schema in schemas):
        return pl.scan_parquet(files, glob=False)
    # A part may lack a column, or have one of nulls only: whatever type holds all parts.
    return pl.concat([texts_as_text(pl.scan_parquet(file, glob=False)) for file in files], how="diagonal_relaxed")


def texts_as_text(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """The table with names and texts as text, whatever type they were written in."""
    schema = lazy.collect_schema()
    casts = [pl.col(name).cast(pl.String) for name in TEXTS if name in schema and schema[name] != pl.String]
    return lazy.with_columns(casts) if casts else lazy


def read(data: Recorded) -> pl.DataFrame:
    """The whole table; problems in it raise a ``StudyError``."""
    with reading(data):
        return scan(data).collect()


@contextmanager
def reading(data: Recorded) -> Iterator[None]:
    """Turn errors of an unreadable file inside the block into a ``StudyError`` with its name."""
    file = data if isinstance(data, Path) else Path("frame")
    with all_at_once(str(file)) as problems:
        try:
            yield
        except (*POLARS_FAILED, *UNREADABLE) as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", file.name)


def _read_rows(path: Path) -> pl.DataFrame:
    """The table of a JSONL or CSV file."""
    with all_at_once(str(path)) as problems:
        frame = frame_of(Source(path, path.name).chunks(problems))
    if path.suffix.lower() == ".csv":
        frame = frame.with_columns(_numbers(frame[name]) for name in frame.columns if name not in TEXTS)
    return frame.with_columns(pl.col(name).cast(pl.String) for name in TEXTS if name in frame.columns)


def frame_of(chunks: Iterator[Chunk]) -> pl.DataFrame:
    """All rows as one frame, each column of its own type or text."""
    columns: dict[str, list[Any]] = {}
    height = 0
    for chunk in chunks:
        for name in dict.fromkeys(name for row in chunk.rows for name in row):
            columns.setdefault(name, [None] * height)
        for name, values in columns.items():
            values.extend([None if (value := row.get(name)) == "" else value for row in chunk.rows])
        height += len(chunk.rows)
    return pl.DataFrame([_series(name, values) for name, values in columns.items()])


def _series(name: str, values: list[Any]) -> pl.Series:
    """The values as a column of their own type, or text if no single type fits."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int, float}:
        return pl.Series(name, values, pl.Float64, strict=False)
    if len(kinds) == 1:
        numeric = kinds == {list} and all(type(item) in {int, float, type(None)} for v in values for item in v or ())
        try:
            return pl.Series(name, values, pl.List(pl.Float64), strict=False) if numeric else pl.Series(name, values)
        except (TypeError, OverflowError, *POLARS_FAILED):
            pass  # lists or objects of many shapes: as text
    return pl.Series(name, [None if value is None else as_text(value) for value in values], pl.String)


def _numbers(column: pl.Series) -> pl.Series:
    """A CSV column as whole numbers or numbers, if every cell is one."""
    for kind in (pl.Int64, pl.Float64):
        try:
            return column.cast(kind)
        except POLARS_FAILED:
            continue
    return column


def restricted(lazy: pl.LazyFrame, table: str, tasks: Collection[str], agents: Collection[str]) -> pl.LazyFrame:
    """The rows for these tasks and agents; an empty cell matches none."""
    # What an exam compares are its own items, not agents.
    known = (
        {"task": tasks} if table == "exams" else {"task": tasks, "target_task": tasks} | dict.fromkeys(AGENTS, agents)
    )
    columns = lazy.collect_schema()
    for column, names in known.items():
        if column in columns:
            lazy = lazy.filter(pl.col(column).is_null() | pl.col(column).is_in(list(names)))
    return lazy


def names_from_evidence(recorded: Mapping[str, Recorded], tasks: Names, agents: Names) -> None:
    """Add the tasks, and the agents if no table lists them, that the recorded tables mention."""
    for table, data in recorded.items():
        with reading(data):
            lazy = scan(data)
            columns = lazy.collect_schema()
            if "task" not in columns:
                continue
            _take(tasks, lazy, "task")
            # What an exam compares are its own items, not agents.
            if table != "exams" and not agents.listed_in:
                for column in AGENTS:
                    if column in columns:
                        _take(agents, lazy, column)


def _take(names: Names, lazy: pl.LazyFrame, column: str) -> None:
    found = lazy.select(pl.col(column).unique(maintain_order=True)).collect()
    for name in found[column].drop_nulls():
        names.setdefault(name, len(names))
