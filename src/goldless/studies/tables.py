"""Tables as frames with the line of every row: JSONL, JSON, CSV, TSV and Parquet files, frames, and rows.

Text files are read as bytes and split at line feeds only: a line is what an editor shows, and a bad byte has
an offset. Unreadable lines become problems, and the rows around them are still returned.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import narwhals.stable.v2 as nw
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from goldless.errors import UserError
from goldless.files import POLARS_FAILED
from goldless.studies.checking import Cells, Checking, Problems, describe, is_empty

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
ALLOWED = "a table must be a .jsonl, .csv, .tsv or .parquet file"
SINGLE = (*FORMATS, ".json")
"""Formats of a file given by itself; in a folder, a .json file is not a table."""
OTHER_LOGS = "goldless study import -h lists the logs of other tools that can be read"
PARTS = "part-*.parquet"
"""Files of a table in parts, in a folder of the table's name."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""Other separators in files that are called CSV."""
BOM = b"\xef\xbb\xbf"
ROWS_AT_ONCE = 20_000
LONGEST_LINE = 1 << 28
MOST_COLUMNS = 10_000
MANY_ROWS = 1_000_000
MOST_ROWS_PER_BYTE = 10
"""Beyond both, a Parquet file repeats a few rows and no text of its own: reading it would take hours for nothing."""
UNREADABLE = (OSError, UnicodeError, pa.ArrowException)
"""Errors of a file that is damaged or not in the format its extension says."""
PLAIN: Mapping[type, type[pl.DataType]] = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64}


class Line(NamedTuple):
    """A row with the line, or the row of a Parquet file or frame, where it begins, counted from 1."""

    number: int
    row: Mapping[str, Any]


class Table(Checking):
    """All rows of a table with their lines, and the checks of them."""

    def __init__(
        self,
        given: Any,
        problems: Problems,
        file: str | None = None,
        *,
        what: str = "a table",
        choose: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        """Read a file, a folder of parts, a pandas, polars or pyarrow frame, or rows.

        ``file``: its name in messages, empty for the main frame passed from Python. ``what``: what it must be, in
        messages. ``choose`` picks the columns that are read of Parquet.
        """
        super().__init__(given.name if file is None else file, problems)
        self.path = given if isinstance(given, Path) else None
        self.frame, self.numbers = pl.DataFrame(), cast("Sequence[int]", ())
        """A column with cells of several types, or of lists or objects, is of ``pl.Object``."""
        try:
            if self.path is None:
                self._take(given, what)
            elif is_parquet(self.path):
                parts = []
                for part in parts_of(self.path):
                    names = check_parquet(part)
                    parts.append(pl.read_parquet(part, columns=choose(names) if choose else names, glob=False))
                self._count(parts[0] if len(parts) == 1 else pl.concat(parts, how="diagonal_relaxed"))
            else:
                self.fill(_text_rows(self.path, self))
        except (*UNREADABLE, *POLARS_FAILED) as error:
            self.add(f"cannot be read: {str(error).splitlines()[0]}")

    def _take(self, given: Any, what: str) -> None:
        native = nw.from_native(given, pass_through=True)
        if isinstance(native, nw.DataFrame | nw.LazyFrame):
            eager = native.collect() if isinstance(native, nw.LazyFrame) else native
            try:
                self._count(pl.DataFrame(eager.to_arrow()))
            except (pa.ArrowException, UnicodeError) as error:
                raise UserError(f"the frame has a column with mixed types: {error}") from error
            return
        rows = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else [given]
        for row in rows:
            if row is given or not isinstance(row, Line | Mapping):
                got = f"{type(row).__module__}.{type(row).__qualname__}"
                kinds = "a path, a pandas, polars or pyarrow frame, or a list of dictionaries"
                raise UserError(f"{what} must be {kinds}, got a {got}{' in a list' * (row is not given)}")
        self.fill(row if isinstance(row, Line) else Line(number, row) for number, row in enumerate(rows, 1))

    def _count(self, frame: pl.DataFrame) -> None:
        self.frame, self.numbers, self.rows = frame, range(1, frame.height + 1), frame.height

    def fill(self, rows: Iterable[Line]) -> None:
        """Make these the rows; a row without a column has null there."""
        lines, parts = array("q"), list[pl.DataFrame]()
        columns: dict[str, list[Any]] = {}
        for number, row in rows:
            for name in row:
                if name not in columns:
                    columns[name] = [None] * (len(lines) % ROWS_AT_ONCE)
                    if len(columns) > MOST_COLUMNS:
                        raise pa.ArrowInvalid(f"more than {MOST_COLUMNS:,} columns")
            for name, cells in columns.items():
                cells.append(row.get(name))
            lines.append(number)
            if not len(lines) % ROWS_AT_ONCE:  # so that few cells are Python's at a time
                parts.append(_part(columns))
        parts.append(_part(columns))
        self.frame = pl.DataFrame({name: _joined(name, parts) for name in parts[-1].columns})
        self.numbers, self.rows = lines, len(lines)

    def numbered_rows(self) -> Iterator[Line]:
        return map(Line, self.numbers, self.frame.iter_rows(named=True))

    def read(self, columns: Mapping[str, Cells], *more: pl.Series) -> pl.DataFrame:
        """The rows whose cells all fit, with these columns, ``line`` and ``more``; other rows are reported."""
        bad: set[int] = set()
        made = [pl.Series("line", self.numbers, pl.Int64), *more]
        for name, cells in columns.items():
            there = name in self.frame.columns
            given = self.frame[name] if there else pl.Series(name, [None] * self.rows, pl.Null)
            column = _regular(given, cells)
            if column is None:
                if not there and self.rows:
                    self.absent.setdefault(name, self.frame.columns)
                values = []
                for line, value in zip(self.numbers, given.to_list(), strict=True):
                    values.append(self.cell(cells, {name: value} if there else {}, name, line))
                    if values[-1] is None and not (cells.startswith("optional") and is_empty(value)):
                        bad.add(line)
                column = pl.Series(name, values, pl.Float64 if cells.endswith("number") else pl.String)
            made.append(column)
        self.finish()
        return pl.DataFrame(made).filter(~pl.col("line").is_in(list(bad)) if bad else pl.lit(value=True))

    def report(self, frame: pl.DataFrame, wrong: pl.Expr, message: str) -> pl.DataFrame:
        """The rows that are not wrong; those that are are reported. ``message``: a format of the row's cells."""
        for row in frame.filter(wrong).iter_rows(named=True):
            self.add(message.format_map(row), row["line"])
        return frame.filter(~wrong)


def _part(columns: Mapping[str, list[Any]]) -> pl.DataFrame:
    """The cells so far as a frame; the lists are emptied."""
    made = pl.DataFrame({str(name): _column(str(name), cells) for name, cells in columns.items()})
    for cells in columns.values():
        cells.clear()
    return made


def _column(name: str, cells: Sequence[Any]) -> pl.Series:
    """The cells as a column of their one plain type, or of objects."""
    kinds = set(map(type, cells)) - {type(None)}
    kind = PLAIN.get(kinds.pop(), pl.Object) if len(kinds) == 1 else pl.Object if kinds else pl.Null
    try:
        return pl.Series(name, cells, kind)
    except (TypeError, OverflowError):  # a whole number of more than 64 bits
        return pl.Series(name, cells, pl.Object)


def _joined(name: str, parts: Sequence[pl.DataFrame]) -> pl.Series:
    each = [part[name] if name in part.columns else pl.Series(name, [None] * part.height) for part in parts]
    kinds = {one.dtype for one in each} - {pl.Null}
    if len(kinds) > 1 or pl.Object in kinds:
        return _column(name, [cell for one in each for cell in one.to_list()])
    return pl.concat((one.cast(*kinds) if kinds else one for one in each), rechunk=True)


def _regular(column: pl.Series, cells: Cells) -> pl.Series | None:
    """The column, if all of its cells plainly fit."""
    required, kind = not cells.startswith("optional"), column.dtype
    if kind == pl.Null and not required:
        return column.cast(pl.Float64 if cells.endswith("number") else pl.String)
    if cells.endswith("number"):
        fits = kind.is_numeric() and column.is_finite().all() and not (required and column.null_count())
        return column.cast(pl.Float64) if fits else None
    if isinstance(kind, pl.Categorical | pl.Enum) or (kind.is_integer() and cells.endswith("name")):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        return None
    if not required:
        column = column.replace("", None)
    blank = column.str.strip_chars() == ""
    return column if cells == "optional_text" or not (blank.any() or (required and column.null_count())) else None


# --- text files ------------------------------------------------------------------------------------------------------


def file_rows(path: Path, problems: Problems) -> Iterator[Line]:
    """The rows as they are in a file, each with its line."""
    if is_parquet(path):
        yield from Table(path, problems).numbered_rows()
        return
    check = Checking(path.name, problems)
    try:
        yield from _text_rows(path, check)
    except UNREADABLE as error:
        check.add(f"cannot be read: {str(error).splitlines()[0]}")


def first_row(path: Path) -> Mapping[str, Any]:
    """The first row of a file; empty if there is none or it cannot be read."""
    return next(file_rows(path, Problems()), Line(0, {})).row


def _text_rows(path: Path, check: Checking) -> Iterator[Line]:
    suffix = path.suffix.lower()
    return (_csv_rows if suffix in SEPARATORS else _json_rows if suffix == ".json" else _jsonl_rows)(path, check)


def _jsonl_rows(path: Path, check: Checking) -> Iterator[Line]:
    with path.open("rb") as stream:
        if _skip_bom(stream, check) is None:
            return
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                if len(line) == LONGEST_LINE:
                    check.add(f"a line must be at most {LONGEST_LINE >> 20} MiB, got a longer one", number)
                    return
                row = _python_json(line)
                if row is None and (number > 1 or not line.lstrip().startswith(b"[")):
                    if line.strip() and _is_utf8(line, stream.tell() - len(line), number, check):
                        check.add(f"not JSON: {error.msg} at character {error.pos + 1}", number)
                    continue
                row = [] if row is None else row
            if isinstance(row, dict):
                yield Line(number, row)
            elif number == 1 and isinstance(row, list):
                said = "got a JSON array; a .jsonl file has one JSON object per line. Name the file .json"
                check.add(said, 1)
                return
            else:
                check.add(f"a line must be a JSON object, got {describe(row)}", number)


def _python_json(line: bytes) -> Any:
    """The value on a line with numbers that only Python writes; None if there are none, or it is not JSON either."""
    with suppress(ValueError):
        return json.loads(line) if b"NaN" in line or b"Infinity" in line else None


def _json_rows(path: Path, check: Checking) -> Iterator[Line]:
    """The objects of a JSON array, numbered from 1; a file of one object per line is read by line."""
    data = path.read_bytes().removeprefix(BOM).lstrip()
    if not data.startswith(b"["):
        first = data.partition(b"\n")[0]
        if first.rstrip().endswith(b"}") and b"\n" in data.strip():
            yield from _jsonl_rows(path, check)
        else:
            check.add(f"a .json file must be an array of objects{', got nothing' * (not data)}. {OTHER_LOGS}")
        return
    try:
        rows = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        check.add(f"not JSON: {error.msg} at character {error.pos + 1:,}. Is the file complete?")
        return
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            yield Line(number, row)
        else:
            check.add(f"an item of the array must be a JSON object, got {describe(row)}", number)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _csv_rows(path: Path, check: Checking) -> Iterator[Line]:
    # The limit belongs to the whole process; a text of more than 128 KiB is no error, here or elsewhere.
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as stream:
        start = _skip_bom(stream, check)
        if start is None:
            return
        lines = _text_lines(stream, start, check)
        reader = csv.reader(lines, strict=True, delimiter=SEPARATORS[path.suffix.lower()])
        header: list[str] = []
        while True:
            number = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                unclosed = "the quote opened in this row is never closed"
                said = unclosed if str(error) == "unexpected end of data" else f"not CSV: {error}"
                check.add(said, number)
                continue
            if not header:
                if wrong := _wrong_header(cells):
                    check.add(wrong, number)
                    return
                header = cells
            elif len(cells) == len(header):
                yield Line(number, dict(zip(header, cells, strict=True)))
            elif cells:
                got = f"{len(cells)} cells, but the header has {len(header)}"
                check.add(f"{got}. Put quotes around text with a comma or line break", number)


def _wrong_header(header: list[str]) -> str | None:
    used = [mark for mark in OTHER_MARKS if len(header) == 1 and mark in header[0]]
    if used:
        return f"the columns are separated by {OTHER_MARKS[used[0]]}. Save the table with commas"
    if len(header) > MOST_COLUMNS:
        return f"a table must have at most {MOST_COLUMNS:,} columns, got {len(header):,}"
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    return f"column {twice[0]!r} is in the header twice" if twice else None


def _text_lines(stream: IO[bytes], offset: int, check: Checking) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        _is_utf8(line, offset, number, check)
        # A line that is reported stays in the stream, so that a quoted text that spans it still ends where it ends.
        yield line.decode(errors="replace")
        offset += len(line)


def _is_utf8(line: bytes, offset: int, number: int, check: Checking) -> bool:
    """True if a line is UTF-8; if not, it is reported."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        check.add(f"byte 0x{line[error.start]:02x} at offset {offset + error.start:,} is not UTF-8", number)
        convert = f"iconv -f WINDOWS-1252 -t UTF-8 {check.file} > utf8-{check.file}"
        check.problems.advice[check.file] = f"if the file is in Windows-1252, convert it: {convert}"
        return False
    return True


def _skip_bom(stream: IO[bytes], check: Checking) -> int | None:
    """The offset of the first character, or None if the file is UTF-16."""
    head = stream.read(len(BOM))
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        convert = f"iconv -f UTF-16 -t UTF-8 {check.file} > utf8-{check.file}"
        check.add(f"the file must be UTF-8, got UTF-16. Convert it: {convert}", 1)
        return None
    return stream.seek(len(BOM) if head == BOM else 0)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def check_parquet(path: Path) -> list[str]:
    """The columns of a Parquet file; one made to be far larger than it looks is refused."""
    about = pq.read_metadata(path)
    rows, size = about.num_rows, path.stat().st_size
    if rows > MANY_ROWS and rows > MOST_ROWS_PER_BYTE * size:
        raise pa.ArrowInvalid(f"{rows:,} rows in a file of {size:,} bytes; that many equal rows are not evidence")
    if about.num_columns > MOST_COLUMNS:
        raise pa.ArrowInvalid(f"{about.num_columns:,} columns; at most {MOST_COLUMNS:,} are read")
    names: list[str] = about.schema.to_arrow_schema().names
    return names


def parts_of(path: Path) -> list[Path]:
    """The files of a Parquet table: the file itself, or the parts in its folder in order of name."""
    return sorted(path.glob(PARTS)) if path.is_dir() else [path]


def is_parquet(path: Path) -> bool:
    """True if this is a Parquet table, in one file or in parts."""
    return path.suffix.lower() == ".parquet" or path.is_dir()


def is_table(path: Path) -> bool:
    """True if this is a file with a table extension, or a folder of table parts."""
    if path.name.startswith("."):
        return False
    return any(path.glob(PARTS)) if path.is_dir() else path.suffix.lower() in FORMATS and path.is_file()


def table_name(path: Path) -> str:
    """The table name of this file or folder of parts."""
    return path.name if path.is_dir() else path.stem
