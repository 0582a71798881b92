"""Whether recorded tables can be used: names are there, and on request also every value inside.

Names are checked whenever a study is read; of Parquet, from the statistics where they are enough. ``check_inside``
reads everything: damaged pages, and values of another type than the evidence has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from goldless.evidence import TABLES, Schema
from goldless.files import POLARS_FAILED
from goldless.studies.checking import Checking, Problems, Row, all_at_once, missing_column
from goldless.studies.content import Recorded
from goldless.studies.tables import CHUNK_ROWS, UNREADABLE, Source, is_parquet, open_parquet, parts_of

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
NAMES = frozenset({"task", "target_task", "second_task", "agent", "first", "second", "target", "reviewer", "exam"})
"""Columns whose cells name something; where one is required, no cell may be empty."""
SHOWN = 20
"""Rows without a name that are listed for a Parquet file; the others are counted."""


def check_evidence(recorded: Mapping[str, Recorded], problems: Problems) -> None:
    """Report unreadable lines, missing columns and missing names of recorded evidence."""
    for table, data in recorded.items():
        required = EVIDENCE.get(table, ())
        names = [column for column in required if column in NAMES]
        if required or table.startswith(JUDGE):
            _check_names(data, table, required, names or ["task", "first", "second"], problems)


def _check_names(data: Recorded, table: str, required: tuple[str, ...], names: list[str], problems: Problems) -> None:
    if isinstance(data, Path) and not is_parquet(data):
        columns: dict[str, None] = {}
        check = Checking(data.name, problems)
        for chunk in Source(data, data.name).chunks(problems):
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                columns |= dict.fromkeys(row)
                for name in names:
                    if name in row:
                        check.name(row, name, line)
                    elif name in columns:
                        check.add(f"no {name!r} in this row", line)
        _check_columns(list(columns), required, data.name, problems)
        return
    for file, part in _files(data, table):
        try:
            lazy = part if isinstance(part, pl.LazyFrame) else pl.scan_parquet(part, glob=False)
            columns_here = lazy.collect_schema().names()
            _check_columns(columns_here, required, file, problems)
            there = [name for name in names if name in columns_here]
            if isinstance(part, pl.LazyFrame) or not _surely_named(part, there):
                _report_unnamed(lazy, there, file, problems)
        except (*POLARS_FAILED, *UNREADABLE) as error:
            problems.add(f"cannot be read: {_first_line(error)}", file)


def _check_columns(columns: list[str], required: tuple[str, ...], file: str, problems: Problems) -> None:
    for column in required:
        if columns and column not in columns:
            problems.add(missing_column(column, columns), file)


def _files(data: Recorded, table: str) -> Iterator[tuple[str, Path | pl.LazyFrame]]:
    """Each file of a table with its name in messages; a frame as it is."""
    if not isinstance(data, Path):
        yield table, data
        return
    for path in parts_of(data):
        yield (f"{data.name}/{path.name}" if data.is_dir() else data.name), path


def _surely_named(path: Path, names: list[str]) -> bool:
    """Whether the statistics of a file say that no name is empty."""
    meta = pq.read_metadata(path)
    for group in map(meta.row_group, range(meta.num_row_groups)):
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema not in names:
                continue
            known = column.statistics
            if known is None or not known.has_null_count or known.null_count or not known.has_min_max:
                return False
            if isinstance(known.min, str) and known.min < "!":  # may be empty, or blanks only
                return False
    return True


def _report_unnamed(lazy: pl.LazyFrame, names: list[str], file: str, problems: Problems) -> None:
    for name in names:
        cell = pl.col(name)
        text = cell.cast(pl.String)
        bare = lazy.select(name).with_row_index("row", 1).filter(cell.is_null() | (text.str.strip_chars() == ""))
        found = bare.select("row").collect()["row"]
        for row in found[:SHOWN]:
            problems.add(f"{name} must be a name, got an empty cell", file, row)
        if len(found) > SHOWN:
            problems.add(f"{name} is empty in {len(found) - SHOWN:,} more rows", file)


# --- everything inside -----------------------------------------------------------------------------------------------


def check_inside(recorded: Mapping[str, Recorded], study: str, *, schemas: Mapping[str, Schema] = TABLES) -> None:
    """Read all of every recorded table; raise one ``StudyError`` with everything that is wrong."""
    with all_at_once(study) as problems:
        for table, data in recorded.items():
            schema = schemas.get(table, {})
            if isinstance(data, Path) and not is_parquet(data):
                _check_rows(data, schema, problems)
                continue
            for file, part in _files(data, table):
                if isinstance(part, Path):
                    _check_parquet(part, file, schema, problems)


def _check_rows(path: Path, schema: Schema, problems: Problems) -> None:
    numbers = [name for name, kind in schema.items() if kind in {pl.Float64, pl.Int64}]
    texts = [name for name, kind in schema.items() if kind == pl.String]
    check = Checking(path.name, problems)
    for chunk in Source(path, path.name).chunks(Problems()):  # lines that are none were reported when it was read
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            for name in numbers:
                check.optional_number(row, name, line)
            _check_texts(row, texts, line, check)


def _check_texts(row: Row, texts: list[str], line: int, check: Checking) -> None:
    for name in texts:
        if isinstance(row.get(name), list | dict):
            check.add(f"{name} must be a text, got {type(row[name]).__name__}", line)


def _check_parquet(path: Path, file: str, schema: Schema, problems: Problems) -> None:
    try:
        with open_parquet(path) as table:
            kinds = {field.name: field.type for field in table.schema_arrow}
            for name, kind in schema.items():
                if name in kinds and not _fits(kinds[name], kind):
                    problems.add(f"{name} must be {_word(kind)}, got {kinds[name]}", file)
            for _ in table.iter_batches(batch_size=16 * CHUNK_ROWS, use_threads=False):
                pass
    except UNREADABLE as error:
        problems.add(f"cannot be read: {_first_line(error)}", file)


def _fits(kind: pa.DataType, wanted: object) -> bool:
    if pa.types.is_null(kind):
        return True
    if wanted in {pl.Float64, pl.Int64}:
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))
    if wanted == pl.String:
        return not pa.types.is_nested(kind)
    return bool(pa.types.is_nested(kind))


def _word(kind: object) -> str:
    return "numbers" if kind in {pl.Float64, pl.Int64} else "texts" if kind == pl.String else "lists"


def _first_line(error: BaseException) -> str:
    return re.split(r"[\r\n]", str(error), maxsplit=1)[0]
