"""The tables that are made from a study's content, as rows, as Arrow batches and as polars frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import polars as pl
import pyarrow as pa

from goldless.records import Agent, Preference, Rating
from goldless.studies.cells import as_text
from goldless.studies.content import StudyContent
from goldless.studies.tables import Row
from goldless.studies.task_table import SYNOPSIS

MADE = ("tasks", "responses", "agents", "labels")
"""Tables that are made from the content; all others are recorded ones."""

BATCH_ROWS = 65_536
BATCH_CHARACTERS = 1 << 24

_TYPES = {str: pa.large_string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def schema(content: StudyContent, table: str) -> dict[str, Any]:
    """The columns of a made table that hold something, with their Arrow types."""
    text = pa.large_string()
    if table == "responses":
        return {"task": text, "agent": text, "text": text}
    if table == "agents":
        kept = [f.name for f in fields(Agent) if any(getattr(agent, f.name) is not None for agent in content.agents)]
        return {name: pa.float64() if name == "parameters" else text for name in kept}
    return _label_schema(content) if table == "labels" else _task_schema(content)


def _label_schema(content: StudyContent) -> dict[str, Any]:
    rated, compared = bool(content.n_ratings), content.n_labels > content.n_ratings
    columns = ["task"] + ["agent"] * rated + ["first", "second"] * compared + ["rater"]
    numbers = ["score"] * rated + ["preference"] * compared
    criterion = ["criterion"] * any(label.criterion is not None for label in content.labels())
    text = dict.fromkeys(columns, pa.large_string()) | dict.fromkeys(numbers, pa.float64())
    return text | dict.fromkeys(criterion, pa.large_string())


def _task_schema(content: StudyContent) -> dict[str, Any]:
    kinds: dict[str, set[type]] = {}
    for row in rows(content, "tasks"):
        for column, value in row.items():
            kinds.setdefault(column, set()).add(_kind(value))
    return {column: _TYPES[kind.pop()] if len(kind) == 1 else pa.large_string() for column, kind in kinds.items()}


def _kind(value: Any) -> type:
    """The type a column of such values alone can have; text for what no plain column holds as it is."""
    kind = type(value)
    if kind is int and not -(2**63) <= value < 2**63:
        return str
    return kind if kind in _TYPES else str


def rows(content: StudyContent, table: str) -> Iterator[Row]:
    """The rows of a made table, without the cells that hold nothing."""
    if table == "tasks":
        for task in map(content.task, range(len(content.tasks))):
            synopses = {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
            row = {"task": task.task, "prompt": task.prompt, "reference": task.reference, **synopses, **task.extra}
            yield _filled(row)
    elif table == "responses":
        for number in range(len(content.tasks)):
            for response in content.responses(number):
                yield {"task": response.task, "agent": response.agent, "text": response.text}
    else:
        yield from map(record_row, content.agents if table == "agents" else content.labels())


def record_row(record: Agent | Rating | Preference) -> Row:
    """The record as a row, without the cells that hold nothing."""
    return _filled({field.name: getattr(record, field.name) for field in fields(record)})


def _filled(row: Row) -> Row:
    return {column: value for column, value in row.items() if value is not None}


def record_batches(content: StudyContent, table: str, columns: dict[str, Any]) -> Iterator[Any]:
    """The rows of a made table as Arrow record batches, each one row group when written."""
    held: list[Row] = []
    size = 0
    arrow = pa.schema(list(columns.items()))
    for row in rows(content, table):
        # A column of mixed types is a column of text.
        mixed = {c: as_text(v) for c, v in row.items() if columns[c] == _TYPES[str] and not isinstance(v, str)}
        held.append(row | mixed)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(held) >= BATCH_ROWS or size >= BATCH_CHARACTERS:
            yield pa.RecordBatch.from_pylist(held, schema=arrow)
            held, size = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=arrow)


def made_frame(content: StudyContent, table: str) -> pl.DataFrame | None:
    """A made table as a frame, or none where it has no rows."""
    batches = list(record_batches(content, table, schema(content, table)))
    if not batches:
        return None
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame
