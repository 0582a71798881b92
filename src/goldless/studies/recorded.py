"""Recorded tables: evidence, and unknown tables; checked with the study, read only when needed.

A table is one file, or a folder ``NAME/part-*.parquet`` with its parts. Names are checked whenever a study is read;
``check_inside`` reads everything: damaged pages, and values of another type than the evidence has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from goldless.evidence import AGENTS, TABLES, Schema
from goldless.files import POLARS_FAILED
from goldless.studies.checking import Problems, all_at_once, as_text
from goldless.studies.tables import UNREADABLE, Table, check_parquet, is_parquet, parts_of

Recorded = Path | pl.LazyFrame
"""A recorded table: its file, its folder of parts, or the frame an importer returned."""
JUDGE = "judge_"
"""Tables with the scores of one judge begin so."""
NAMES = frozenset({"task", "target_task", "second_task", "agent", "first", "second", "target", "reviewer", "exam"})
"""Columns whose cells name something; where one is required, no cell may be empty."""
NUMBERS = (pl.Float64, pl.Int64)
TEXTS = (
    *("task", "second_task", "target_task", *AGENTS, "synopsis", "template", "rater", "reviewer", "rewriter"),
    *("scorer", "critic", "prompt", "label", "text", "output", "mark", "format", "criterion"),
)
"""Columns with names or text: always text, even if all values are numbers."""


# --- reading ---------------------------------------------------------------------------------------------------------


def scan(data: Recorded) -> pl.LazyFrame:
    """The table with names as text; of Parquet only the schema is read at first.

    Damaged pages raise when it is collected; inside ``reading`` that becomes a ``StudyError``.
    """
    if not isinstance(data, Path):
        return texts_as_text(data)
    with reading(data) as problems:
        if not is_parquet(data):
            return texts_as_text(frame_of(Table(data, problems)).lazy())
        # a part may lack a column, or have one of nulls only: whatever type holds all parts
        each = [texts_as_text(pl.scan_parquet(file, glob=False)) for file in parts_of(data)]
        return pl.concat(each, how="diagonal_relaxed")


def texts_as_text(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """The table with names and texts as text, whatever type they were written in."""
    schema = lazy.collect_schema()
    return lazy.with_columns(pl.col(name).cast(pl.String) for name in TEXTS if schema.get(name, pl.String) != pl.String)


@contextmanager
def reading(data: Recorded) -> Iterator[Problems]:
    """Turn errors of an unreadable file inside the block into a ``StudyError`` with its name."""
    file = data if isinstance(data, Path) else Path("frame")
    with all_at_once(str(file)) as problems, _unreadable(file.name, problems):
        yield problems


@contextmanager
def _unreadable(file: str, problems: Problems) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        said = re.split(r"[\r\n]", str(error), maxsplit=1)[0]
        problems.add(f"cannot be read: {said}", file)


def frame_of(table: Table) -> pl.DataFrame:
    """All rows as one frame, each column of one type, or text if no single type fits."""
    if table.path is not None and table.path.suffix.lower() == ".csv":
        return table.frame.with_columns(_number(column) for column in table.frame if column.name not in TEXTS)
    return pl.DataFrame([_settled(column) for column in table.frame])


def _number(column: pl.Series) -> pl.Series:
    """A CSV column as whole numbers or numbers, if every cell is one."""
    column = column.replace("", None)
    for kind in (pl.Int64, pl.Float64):
        with suppress(*POLARS_FAILED):
            return column.cast(kind)
    return column


def _settled(column: pl.Series) -> pl.Series:
    """A column without cells of several types and without empty texts."""
    if column.dtype == pl.String:
        return column.replace("", None)
    if column.dtype != pl.Object:
        return column
    cells = [None if cell == "" else cell for cell in column.to_list()]
    kinds = set(map(type, cells)) - {type(None)}
    if kinds <= {int, float}:
        return pl.Series(column.name, cells, pl.Float64, strict=False)
    if len(kinds) == 1:
        with suppress(TypeError, OverflowError, *POLARS_FAILED):  # lists or objects of many shapes: as text
            return pl.Series(column.name, cells, strict=False)
    return pl.Series(column.name, [None if cell is None else as_text(cell) for cell in cells], pl.String)


def _naming(lazy: pl.LazyFrame, table: str) -> dict[str, str]:
    """The columns that name tasks or agents, and which of both."""
    # What an exam compares are its own items, not agents.
    known = {"task": "task", "target_task": "task"} | ({} if table == "exams" else dict.fromkeys(AGENTS, "agent"))
    there = lazy.collect_schema()
    return {column: what for column, what in known.items() if column in there}


def restricted(lazy: pl.LazyFrame, table: str, **names: Collection[str]) -> pl.LazyFrame:
    """The rows for these tasks (``task``) and agents (``agent``); an empty cell matches none."""
    return lazy.filter(
        pl.col(column).is_null() | pl.col(column).is_in(list(names[what]))
        for column, what in _naming(lazy, table).items()
    )


def names_used(recorded: Mapping[str, Recorded]) -> tuple[pl.Series, pl.Series]:
    """The tasks and agents that the recorded tables mention."""
    found = {what: [pl.Series(what, [], pl.String)] for what in ("task", "agent")}
    for table, data in recorded.items():
        with reading(data):
            lazy = scan(data)
            naming = _naming(lazy, table)
            for column, what in naming.items():
                if "task" in naming and column != "target_task":
                    used = lazy.select(pl.col(column).unique(maintain_order=True).alias(what)).collect()
                    found[what].append(used[what].drop_nulls())
    tasks, agents = (pl.concat(each).unique(maintain_order=True) for each in found.values())
    return tasks, agents


# --- checking --------------------------------------------------------------------------------------------------------


def check_evidence(recorded: Mapping[str, Recorded], problems: Problems) -> None:
    """Report unreadable lines, missing columns and missing names of recorded evidence."""
    for name, data in recorded.items():
        required = TABLES[name].required if name in TABLES else ()
        names = [column for column in required if column in NAMES]
        if not required and name.startswith(JUDGE):
            names = ["task", "first", "second"]
        for given, file in _files(data, name) if names else ():
            table = Table(given, problems, file, only=names)
            table.read({column: "name" for column in names if column in required or column in table.columns})
            for column in required:
                table.lacks(column)


def _files(data: Recorded, table: str) -> list[tuple[Recorded, str]]:
    """Each file of a table with its name; a frame as it is."""
    if not isinstance(data, Path):
        return [(data, table)]
    return [(path, f"{data.name}/{path.name}" if data.is_dir() else data.name) for path in parts_of(data)]


def check_inside(recorded: Mapping[str, Recorded], study: str) -> None:
    """Read all of every recorded table; raise one ``StudyError`` with everything that is wrong."""
    with all_at_once(study) as problems:
        for table, data in recorded.items():
            for path, file in _files(data, table):
                if isinstance(path, Path):
                    with _unreadable(file, problems):
                        check = _check_parquet if is_parquet(path) else _check_lines
                        check(path, file, TABLES[table].columns if table in TABLES else {}, problems)


def _check_lines(path: Path, file: str, schema: Schema, problems: Problems) -> None:
    """Report values of another type than the evidence has."""
    table = Table(path, Problems(), file)
    table.problems = problems  # bad lines are reported already
    table.read({name: "optional_number" for name, kind in schema.items() if kind in NUMBERS})
    for column in (column for column in table.frame if schema.get(column.name) == pl.String):
        for line, cell in zip(table.numbers, column.to_list() if column.dtype == pl.Object else (), strict=False):
            if isinstance(cell, list | dict):
                table.add(f"{column.name} must be a text, got {type(cell).__name__}", line)


def _check_parquet(path: Path, file: str, schema: Schema, problems: Problems) -> None:
    """Report columns of another type than the evidence has, and damaged pages."""
    check_parquet(path)
    lazy = pl.scan_parquet(path, glob=False)
    for name, kind in lazy.collect_schema().items():
        wanted = schema.get(name, kind)
        word, fits = "lists", kind.is_nested()
        if wanted in NUMBERS:
            word, fits = "numbers", kind.is_numeric()
        elif wanted == pl.String:
            word, fits = "texts", not kind.is_nested()
        if name in schema and not fits and kind != pl.Null:
            problems.add(f"{name} must be {word}, got {kind}", file)
    for _ in lazy.collect_batches():  # damaged pages raise
        pass
