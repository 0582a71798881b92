"""The content of a study, by task and agent numbers, and the tables built from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from goldless.records import Agent, Preference, Rating, Response, Task
from goldless.studies.checking import Row, as_text
from goldless.studies.label_table import LabelColumns
from goldless.studies.response_table import ResponseColumns
from goldless.studies.task_table import SYNOPSIS, TaskColumns

Recorded = Path | pl.LazyFrame
"""A recorded table: its file, its folder of parts, or the frame an importer returned."""


MADE = ("tasks", "responses", "agents", "labels")
"""Tables built from the content; all others are recorded."""

BATCH_ROWS = 65_536
BATCH_CHARACTERS = 1 << 24

_TYPES = {str: pa.large_string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


@dataclass(frozen=True, slots=True)
class StudyContent:
    """Tasks, agents, responses and labels, and where the recorded tables are."""

    tasks: tuple[str, ...]
    task_columns: TaskColumns
    agents: tuple[Agent, ...]
    response_columns: ResponseColumns
    label_columns: LabelColumns | None
    recorded: Mapping[str, Recorded]
    """Recorded evidence and unknown tables, by name."""

    def task(self, number: int) -> Task:
        """The task with this number."""
        return self.task_columns.task(self.tasks[number], number)

    def responses(self, number: int) -> tuple[Response, ...]:
        """The responses to the task with this number, in the order of the agents."""
        task, agents, columns = self.tasks[number], self.agents, self.response_columns
        places = columns.of_task(number)
        texts = columns.texts(places)
        numbers = columns.agents_at(places)
        return tuple(Response(task, agents[agent].agent, text) for agent, text in zip(numbers, texts, strict=True))

    @property
    def n_labels(self) -> int:
        """Number of labels, ratings and preferences together."""
        return 0 if self.label_columns is None else len(self.label_columns.task)

    @property
    def n_ratings(self) -> int:
        """Number of ratings among the labels."""
        return 0 if self.label_columns is None else int(self.label_columns.is_rating.sum())

    def labels(self) -> Iterator[Rating | Preference]:
        """All human labels, in the order they were recorded."""
        labels = self.label_columns
        if labels is None:
            return
        columns = (labels.task, labels.first, labels.second, labels.value, labels.rater, labels.criterion)
        for task, first, second, value, rater, number in zip(*(column.tolist() for column in columns), strict=True):
            criterion = None if number < 0 else labels.criteria[number]
            who = labels.raters[rater]
            agent = self.agents[first].agent
            if second < 0:
                yield Rating(self.tasks[task], agent, who, value, criterion)
            else:
                yield Preference(self.tasks[task], agent, self.agents[second].agent, who, value, criterion)

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a built table, without empty cells."""
        if table == "tasks":
            yield from (task_row(self.task(number)) for number in range(len(self.tasks)))
        elif table == "responses":
            for number in range(len(self.tasks)):
                for response in self.responses(number):
                    yield {"task": response.task, "agent": response.agent, "text": response.text}
        else:
            yield from map(record_row, self.agents if table == "agents" else self.labels())

    def schema(self, table: str) -> dict[str, Any]:
        """The non-empty columns of a built table, with their Arrow types."""
        text = pa.large_string()
        if table == "responses":
            return {"task": text, "agent": text, "text": text}
        if table == "agents":
            kept = [f.name for f in fields(Agent) if any(getattr(agent, f.name) is not None for agent in self.agents)]
            return {name: pa.float64() if name == "parameters" else text for name in kept}
        return self._label_schema() if table == "labels" else self._task_schema()

    def _label_schema(self) -> dict[str, Any]:
        rated, compared = bool(self.n_ratings), self.n_labels > self.n_ratings
        columns = ["task"] + ["agent"] * rated + ["first", "second"] * compared + ["rater"]
        numbers = ["score"] * rated + ["preference"] * compared
        criterion = ["criterion"] * any(label.criterion is not None for label in self.labels())
        text = dict.fromkeys(columns, pa.large_string()) | dict.fromkeys(numbers, pa.float64())
        return text | dict.fromkeys(criterion, pa.large_string())

    def _task_schema(self) -> dict[str, Any]:
        kinds: dict[str, set[type]] = {}
        for row in self.rows("tasks"):
            for column, value in row.items():
                kinds.setdefault(column, set()).add(_kind(value))
        return {column: _TYPES[kind.pop()] if len(kind) == 1 else pa.large_string() for column, kind in kinds.items()}

    def batches(self, table: str) -> Iterator[Any]:
        """The rows of a built table as Arrow record batches, each one row group when written."""
        held: list[Row] = []
        size = 0
        columns = self.schema(table)
        arrow = pa.schema(list(columns.items()))
        for row in self.rows(table):
            # A column of mixed types is a column of text.
            mixed = {c: as_text(v) for c, v in row.items() if columns[c] == _TYPES[str] and not isinstance(v, str)}
            held.append(row | mixed)
            size += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(held) >= BATCH_ROWS or size >= BATCH_CHARACTERS:
                yield pa.RecordBatch.from_pylist(held, schema=arrow)
                held, size = [], 0
        if held:
            yield pa.RecordBatch.from_pylist(held, schema=arrow)

    def frame(self, table: str) -> pl.DataFrame | None:
        """A built table as a frame, or None if it has no rows."""
        batches = list(self.batches(table))
        if not batches:
            return None
        frame = pl.from_arrow(pa.Table.from_batches(batches))
        assert isinstance(frame, pl.DataFrame)
        return frame


def _kind(value: Any) -> type:
    """The type of a column of these values; text if no plain type fits."""
    kind = type(value)
    if kind is int and not -(2**63) <= value < 2**63:
        return str
    return kind if kind in _TYPES else str


def task_row(task: Task) -> Row:
    """The task as a row, without empty cells."""
    synopses = {f"{SYNOPSIS}{key}": text for key, text in task.synopses.items()}
    return _filled({"task": task.task, "prompt": task.prompt, "reference": task.reference, **synopses, **task.extra})


def record_row(record: Agent | Rating | Preference) -> Row:
    """The record as a row, without empty cells."""
    return _filled({name: getattr(record, name) for name in type(record).__slots__})


def _filled(row: Row) -> Row:
    return {column: value for column, value in row.items() if value is not None}
