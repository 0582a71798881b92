"""Tables of a study as rows and as polars frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from goldless.records import Agent, Preference, Rating
from goldless.studies.cells import as_text
from goldless.studies.problems import all_at_once
from goldless.studies.tables import UNREADABLE, Chunk, Row, Source
from goldless.studies.task_table import SYNOPSIS

if TYPE_CHECKING:
    from pathlib import Path

    from goldless.studies.study import Study

MADE = ("tasks", "responses", "agents", "labels")
"""Tables that are made from the study; all others are read from their files."""

NAMES = (
    *("task", "second_task", "agent", "first", "second", "target", "given"),
    *("synopsis", "template", "rater", "reviewer", "rewriter", "scorer", "critic", "prompt", "label"),
)
"""Columns that name something: always text, also where all names are numbers."""

AGENTS = ("agent", "first", "second", "target", "given")
"""Columns that name an agent in a recorded table."""

TEXTS = ("text", "output", "format", "criterion")

BATCH_ROWS = 65_536
BATCH_CHARACTERS = 1 << 24

_TYPES = {str: pa.large_string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def schema(study: Study, table: str) -> dict[str, Any]:
    """The columns of a made table that hold something, with their Arrow types."""
    text = pa.large_string()
    if table == "responses":
        return {"task": text, "agent": text, "text": text}
    if table == "agents":
        kept = [f.name for f in fields(Agent) if any(getattr(agent, f.name) is not None for agent in study.agents)]
        return {name: pa.float64() if name == "parameters" else text for name in kept}
    if table == "labels":
        ratings, preferences = study.n_ratings, study.n_preferences
        columns = ["task"] + ["agent"] * bool(ratings) + ["first", "second"] * bool(preferences) + ["rater"]
        numbers = ["score"] * bool(ratings) + ["preference"] * bool(preferences)
        criterion = {"criterion": text} if any(label.criterion is not None for label in study.labels()) else {}
        return dict.fromkeys(columns, text) | dict.fromkeys(numbers, pa.float64()) | criterion
    kinds: dict[str, set[type]] = {}
    for row in rows(study, "tasks"):
        for column, value in row.items():
            kinds.setdefault(column, set()).add(_kind(value))
    return {column: _TYPES[kind.pop()] if len(kind) == 1 else text for column, kind in kinds.items()}


def _kind(value: Any) -> type:
    """The type a column of such values alone can have; text for what no plain column holds as it is."""
    kind = type(value)
    if kind is int and not -(2**63) <= value < 2**63:
        return str
    return kind if kind in _TYPES else str


def rows(study: Study, table: str) -> Iterator[Row]:
    """The rows of a made table, without the cells that hold nothing."""
    if table == "tasks":
        for name in study.tasks:
            task = study.task(name)
            synopses = {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
            row = {"task": name, "prompt": task.prompt, "reference": task.reference, **synopses, **task.extra}
            yield _filled(row)
    elif table == "responses":
        for name in study.tasks:
            for response in study.responses(name):
                yield {"task": name, "agent": response.agent, "text": response.text}
    else:
        records: Iterator[Agent | Rating | Preference] = iter(study.agents) if table == "agents" else study.labels()
        for record in records:
            yield _filled({field.name: getattr(record, field.name) for field in fields(record)})


def _filled(row: Row) -> Row:
    return {column: value for column, value in row.items() if value is not None}


def record_batches(study: Study, table: str, columns: dict[str, Any]) -> Iterator[Any]:
    """The rows of a made table as Arrow record batches, each one row group when written."""
    held: list[Row] = []
    size = 0
    arrow = pa.schema(list(columns.items()))
    for row in rows(study, table):
        # A column of mixed types is a column of text.
        mixed = {c: as_text(v) for c, v in row.items() if columns[c] == _TYPES[str] and not isinstance(v, str)}
        held.append(row | mixed)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(held) >= BATCH_ROWS or size >= BATCH_CHARACTERS:
            yield pa.RecordBatch.from_pylist(held, schema=arrow)
            held, size = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=arrow)


def made_frame(study: Study, table: str) -> pl.DataFrame | None:
    """A made table as a frame, or none where it has no rows."""
    columns = schema(study, table)
    batches = list(record_batches(study, table, columns))
    if not batches:
        return None
    return _polars(pa.Table.from_batches(batches))


def _polars(table: Any) -> pl.DataFrame:
    """The Arrow table as a frame; one that is damaged is an error, for polars takes it on trust."""
    table.validate(full=True)
    frame = pl.from_arrow(pa.Table.from_arrays(table.columns, names=table.column_names))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_frame(path: Path) -> pl.DataFrame:
    """A recorded table read from its file, whole; problems in it are a ``StudyError``."""
    with all_at_once(str(path)) as problems:
        if path.suffix.lower() == ".parquet":
            try:
                frame = _polars(pq.read_table(path))
            except UNREADABLE as error:
                problems.add(f"cannot be read: {str(error).splitlines()[0]}", path.name)
        else:
            frame = _collected(Source(path, path.name).chunks(problems))
    if path.suffix.lower() == ".csv":
        frame = frame.with_columns(_numbers(frame[name]) for name in frame.columns if name not in NAMES + TEXTS)
    return frame.with_columns(pl.col(name).cast(pl.String) for name in NAMES + TEXTS if name in frame.columns)


def _collected(chunks: Iterator[Chunk]) -> pl.DataFrame:
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
    """The values as a column of their own type, or of text where no one type holds them all."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int, float}:
        return pl.Series(name, values, pl.Float64, strict=False)
    if len(kinds) == 1:
        numeric = kinds == {list} and all(type(item) in {int, float, type(None)} for v in values for item in v or ())
        try:
            return pl.Series(name, values, pl.List(pl.Float64), strict=False) if numeric else pl.Series(name, values)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            pass  # lists or objects of many shapes: as text
    return pl.Series(name, [None if value is None else as_text(value) for value in values], pl.String)


def _numbers(column: pl.Series) -> pl.Series:
    """A column of a CSV file as whole numbers or as numbers, where every cell is one."""
    for kind in (pl.Int64, pl.Float64):
        try:
            return column.cast(kind)
        except pl.exceptions.PolarsError:
            continue
    return column


def restricted(frame: pl.DataFrame, table: str, study: Study) -> pl.DataFrame:
    """The rows about tasks and agents of the study; an empty cell is about none."""
    # What an exam compares are its own items, not agents.
    columns = ("task",) if table == "exams" else ("task", *AGENTS)
    agents = [agent.agent for agent in study.agents]
    for column in columns:
        if column in frame.columns:
            known = study.tasks if column == "task" else agents
            frame = frame.filter(pl.col(column).is_null() | pl.col(column).is_in(known))
    return frame
