"""Recorded evidence: tables that are checked when a study is read and loaded only when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from goldless.studies.checking import missing_column
from goldless.studies.frames import AGENTS, read_frame
from goldless.studies.tables import UNREADABLE, Source

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from goldless.studies.names import Names
    from goldless.studies.problems import Problems

EVIDENCE = {
    "judgements": ("reviewer", "task", "output"),
    "exams": ("reviewer", "exam"),
    "rewrites": ("task", "agent", "text"),
    "logprobs": ("task", "target"),
    "verdicts": ("task", "first", "second", "second_task", "value"),
    "critic_contrasts": ("task", "first", "second", "contrast"),
}
"""Tables of recorded evidence, with the columns nothing can be done without."""


def check_evidence(recorded: Mapping[str, Path], problems: Problems) -> None:
    """Report lines of recorded evidence that cannot be read, and columns that are not there."""
    for table, required in EVIDENCE.items():
        if table not in recorded:
            continue
        path = recorded[table]
        columns = _columns(path, problems)
        for column in required:
            if columns and column not in columns:
                problems.add(missing_column(column, columns), path.name)


def _columns(path: Path, problems: Problems) -> list[str]:
    if path.suffix.lower() == ".parquet":
        try:
            return list(pq.read_schema(path).names)
        except UNREADABLE as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", path.name)
            return []
    columns: dict[str, None] = {}
    for chunk in Source(path, path.name).chunks(problems):
        columns.update(dict.fromkeys(name for row in chunk.rows for name in row))
    return list(columns)


def names_from_evidence(recorded: Mapping[str, Path], tasks: Names, agents: Names) -> None:
    """Take the tasks, and the agents where no table lists them, that the recorded tables speak of."""
    for table, path in recorded.items():
        frame = read_frame(path)
        if "task" not in frame.columns:
            continue
        _take(tasks, frame["task"])
        # What an exam compares are its own items, not agents.
        if table != "exams" and not agents.listed_in:
            for column in AGENTS:
                if column in frame.columns:
                    _take(agents, frame[column])


def _take(names: Names, column: pl.Series) -> None:
    for name in column.unique(maintain_order=True).drop_nulls():
        names.setdefault(name, len(names))
