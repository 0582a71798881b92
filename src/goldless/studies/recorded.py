"""Recorded tables: evidence, and unknown tables; checked with the study, read only when needed.

A table is one file, or a folder ``NAME/part-*.parquet`` with its parts. Names are checked whenever a study is read;
``check_inside`` reads everything: damaged pages, and values of another type than the evidence has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from goldless.evidence import TABLES, Schema
from goldless.files import POLARS_FAILED
from goldless.studies.checking import Checking, Problems, all_at_once, as_text, missing_column
from goldless.studies.tables import UNREADABLE, Table, check_parquet, is_parquet, parts_of

Recorded = Path | pl.LazyFrame
"""A recorded table: its file, its folder of parts, or the frame an importer returned."""
EVIDENCE = {
    "judgements": ("reviewer", "task", "output"),
    "exams": ("reviewer", "exam"),
    "rewrites": ("task", "agent", "text"),
    "logprobs": ("task", "target"),
    "control_logprobs": ("task", "target", "target_task"),
    "verdicts": ("task", "first", "second", "second_task", "value"),
    "critic_contrasts": ("task", "first", "second", "contrast"),
}
"""Tables of recorded evidence, with their required columns."""
JUDGE = "judge_"
"""Tables with the scores of one judge begin so."""
AGENTS = ("agent", "first", "second", "target", "given")
"""Columns that name an agent in a recorded table."""
NAMES = frozenset({"task", "target_task", "second_task", "agent", "first", "second", "target", "reviewer", "exam"})
"""Columns whose cells name something; where one is required, no cell may be empty."""
TEXTS = (
    *("task", "second_task", "target_task", *AGENTS, "synopsis", "template", "rater", "reviewer", "rewriter"),
    *("scorer", "critic", "prompt", "label", "text", "output", "format", "criterion"),
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
        if is_parquet(data):
            files = parts_of(data)
            schemas = [pl.read_parquet_schema(file) for file in files]
            if all(schema == schemas[0] for schema in schemas):
                return texts_as_text(pl.scan_parquet(files, glob=False))
            # a part may lack a column, or have one of nulls only: whatever type holds all parts
            each = [texts_as_text(pl.scan_parquet(file, glob=False)) for file in files]
            return pl.concat(each, how="diagonal_relaxed")
        return texts_as_text(frame_of(Table(data, problems)).lazy())


def texts_as_text(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """The table with names and texts as text, whatever type they were written in."""
    schema = lazy.collect_schema()
    casts = [pl.col(name).cast(pl.String) for name in TEXTS if name in schema and schema[name] != pl.String]
    return lazy.with_columns(casts) if casts else lazy


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
    except (*POLARS_FAILED, *UNREADABLE) as error:
        said = re.split(r"[\r\n]", str(error), maxsplit=1)[0]
        problems.add(f"cannot be read: {said}", file)


def frame_of(table: Table) -> pl.DataFrame:
    """All rows as one frame, each column of one type, or text if no single type fits."""
    frame = table.frame
    if table.path is not None and table.path.suffix.lower() == ".csv":
        return frame.with_columns(_numbers(frame[name]) for name in frame.columns if name not in TEXTS)
    return pl.DataFrame([_settled(column) for column in frame])


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
    if kinds == {list} and all(type(item) in {int, float, type(None)} for cell in cells for item in cell or ()):
        return pl.Series(column.name, cells, pl.List(pl.Float64), strict=False)
    try:
        if len(kinds) == 1:
            return pl.Series(column.name, cells)
    except (TypeError, OverflowError, *POLARS_FAILED):
        pass  # lists or objects of many shapes: as text
    return pl.Series(column.name, [None if cell is None else as_text(cell) for cell in cells], pl.String)


def _numbers(column: pl.Series) -> pl.Series:
    """A CSV column as whole numbers or numbers, if every cell is one."""
    column = column.replace("", None)
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


def names_used(recorded: Mapping[str, Recorded]) -> tuple[pl.Series, pl.Series]:
    """The tasks and agents that the recorded tables mention."""
    tasks: list[pl.Series] = [pl.Series("task", [], pl.String)]
    agents: list[pl.Series] = [pl.Series("agent", [], pl.String)]
    for table, data in recorded.items():
        with reading(data):
            lazy = scan(data)
            columns = lazy.collect_schema()
            # What an exam compares are its own items, not agents.
            used = [] if "task" not in columns else ["task", *(AGENTS if table != "exams" else ())]
            for column in (name for name in used if name in columns):
                found = lazy.select(pl.col(column).unique(maintain_order=True)).collect()[column].drop_nulls()
                (tasks if column == "task" else agents).append(found)
    return pl.concat(tasks).unique(maintain_order=True), pl.concat(agents).unique(maintain_order=True)


# --- checking --------------------------------------------------------------------------------------------------------


def check_evidence(recorded: Mapping[str, Recorded], problems: Problems) -> None:
    """Report unreadable lines, missing columns and missing names of recorded evidence."""
    for table, data in recorded.items():
        required = EVIDENCE.get(table, ())
        names = [column for column in required if column in NAMES]
        if not required and table.startswith(JUDGE):
            names = ["task", "first", "second"]
        for given, file in _files(data, table) if names else ():
            _check_names(given, file, names, required, problems)


def _check_names(given: Recorded, file: str, names: Sequence[str], required: Sequence[str], problems: Problems) -> None:
    def choose(there: Sequence[str]) -> list[str]:
        lacking = not set(required) <= set(there)  # the message names them all
        return [name for name in there if lacking or name in {*names, *required}]

    table = Table(given, problems, file, choose=choose)
    columns = table.frame.columns
    table.read({name: "name" for name in names if name in required or name in columns})
    for column in required:
        if columns and column not in {*columns, *names}:
            table.add(missing_column(column, columns))


def _files(data: Recorded, table: str) -> list[tuple[Recorded, str]]:
    """Each file of a table with its name; a frame as it is."""
    if not isinstance(data, Path):
        return [(data, table)]
    return [(path, f"{data.name}/{path.name}" if data.is_dir() else data.name) for path in parts_of(data)]


def check_inside(recorded: Mapping[str, Recorded], study: str, *, schemas: Mapping[str, Schema] = TABLES) -> None:
    """Read all of every recorded table; raise one ``StudyError`` with everything that is wrong."""
    with all_at_once(study) as problems:
        for table, data in recorded.items():
            for path, file in _files(data, table):
                if isinstance(path, Path):
                    with _unreadable(file, problems):
                        _check_values(path, Checking(file, problems), schemas.get(table, {}))


def _check_values(path: Path, check: Checking, schema: Schema) -> None:
    """Report values of another type than the evidence has, and damaged pages."""
    numbers = [name for name, kind in schema.items() if kind in {pl.Float64, pl.Int64}]
    texts = [name for name, kind in schema.items() if kind == pl.String]
    if not is_parquet(path):
        table = Table(path, Problems(), check.file)  # bad lines are reported already
        table.problems = check.problems
        table.read(dict.fromkeys(numbers, "optional_number"))
        for name in (name for name in texts if name in table.frame.columns and table.frame[name].dtype == pl.Object):
            for line, cell in zip(table.numbers, table.frame[name].to_list(), strict=True):
                if isinstance(cell, list | dict):
                    check.add(f"{name} must be a text, got {type(cell).__name__}", line)
        return
    check_parquet(path)
    lazy = pl.scan_parquet(path, glob=False)
    for name, kind in lazy.collect_schema().items():
        word, fits = "lists", kind.is_nested()
        if name in numbers:
            word, fits = "numbers", kind.is_numeric()
        elif name in texts:
            word, fits = "texts", not kind.is_nested()
        if name in schema and not fits and kind != pl.Null:
            check.add(f"{name} must be {word}, got {kind}")
    for _ in lazy.collect_batches():  # damaged pages raise
        pass
