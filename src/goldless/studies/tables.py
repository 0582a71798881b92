"""Tables as frames with the line of every row: JSONL, JSON, CSV, TSV and Parquet files, frames, and rows.

Text files are read as bytes and split at line feeds only: a line is what an editor shows, and a bad byte has
an offset. Unreadable lines become problems, and the rows around them are still returned.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, partialmethod
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import narwhals.stable.v2 as nw
import orjson
import polars as pl

from goldless.errors import PrerequisiteError, UserError
from goldless.files import MOST_TABLE_BYTES, POLARS_FAILED, UnsafeFileError, safe_file
from goldless.studies.checking import Cells, Problems, Row, all_at_once, describe, missing_column, read_cell

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
ALLOWED = "a table must be a .jsonl, .csv, .tsv or .parquet file"
SINGLE = (*FORMATS, ".json")
"""Formats of a file given by itself; in a folder, a .json file is not a table."""
ALLOWED_ALONE = "a table must be a .jsonl, .json, .csv, .tsv or .parquet file"
OTHER_LOGS = "goldless study import -h lists the logs of other tools that can be read"
PARTS = "part-*.parquet"
"""Files of a table in parts, in a folder of the table's name."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""Other separators in files that are called CSV."""
BOM = b"\xef\xbb\xbf"
NOT_UTF_8 = " is not UTF-8"
ROWS_AT_ONCE = 5_000
LONGEST_LINE = 1 << 28
MOST_COLUMNS = 10_000
MANY_ROWS = 1_000_000
MOST_ROWS_PER_BYTE = 10
"""Beyond both, a Parquet file repeats a few rows and no text of its own: reading it would take hours for nothing."""


class TooLargeError(Exception):
    """A table is far larger than any study."""


UNREADABLE = (OSError, UnicodeError, TooLargeError, *POLARS_FAILED)
"""Errors of a file that is damaged, too large or not in the format its extension says."""
PLAIN: Mapping[type, type[pl.DataType]] = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64}


class Line(NamedTuple):
    """A row with the line, or the row of a Parquet file or frame, where it begins, counted from 1."""

    number: int
    row: Mapping[str, Any]


class Table:
    """All rows of a table with their lines; its checks report what is wrong and return what is right."""

    def __init__(
        self,
        given: Any,
        problems: Problems,
        file: str | None = None,
        *,
        what: str = "a table",
        only: Collection[str] | None = None,
    ) -> None:
        """Read a file, a folder of parts, a pandas, polars or pyarrow frame, or rows.

        ``file``: its name in messages, empty for the main frame passed from Python. ``what``: what it must be, in
        messages. ``only``: the columns that are read of Parquet.
        """
        self.file = given.name if file is None else file
        self.problems = problems
        self.path = given if isinstance(given, Path) else None
        self.frame, self.numbers = pl.DataFrame(), cast("Sequence[int]", ())
        """A column with cells of several types, or of lists or objects, is of ``pl.Object``."""
        self._unread: list[str] = []
        self._absent: set[str] = set()
        try:
            if self.path is None:
                self._take(given, what)
            elif is_parquet(self.path):
                parts = {part: check_parquet(part) for part in parts_of(self.path)}
                read = [
                    pl.read_parquet(part, columns=[n for n in names if only is None or n in only], glob=False)
                    for part, names in parts.items()
                ]
                self._count(pl.concat(read, how="diagonal_relaxed"))
                self._unread = [name for names in parts.values() for name in names]
            else:
                self.fill(file_rows(self.path, problems))
        except UNREADABLE as error:
            self.add(f"cannot be read: {str(error).splitlines()[0]}")

    def _take(self, given: Any, what: str) -> None:
        native = nw.from_native(given, pass_through=True)
        if isinstance(native, nw.DataFrame | nw.LazyFrame):
            eager = native.collect() if isinstance(native, nw.LazyFrame) else native
            self._count(pl.DataFrame([_polars_column(column) for column in eager.iter_columns()]))
            return
        rows = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else [given]
        for row in rows:
            if row is given or not isinstance(row, Line | Mapping):
                got = f"{type(row).__module__}.{type(row).__qualname__}"
                kinds = "a path, a pandas, polars or pyarrow frame, or a list of dictionaries"
                raise UserError(f"{what} must be {kinds}, got a {got}{' in a list' * (row is not given)}")
        self.fill(row if isinstance(row, Line) else Line(number, row) for number, row in enumerate(rows, 1))

    def _count(self, frame: pl.DataFrame) -> None:
        self.frame, self.numbers = frame, range(1, frame.height + 1)

    def fill(self, rows: Iterable[Line]) -> None:
        """Make these the rows; a row without a column has null there."""
        given, numbers, parts, columns = iter(rows), array("q"), list[pl.DataFrame](), dict[Any, None]()
        while some := list(islice(given, ROWS_AT_ONCE)):  # so that few cells are Python's at a time
            numbers.extend([line.number for line in some])
            cells = [line.row for line in some]
            names = dict.fromkeys(chain.from_iterable(cells))
            columns |= names
            if len(columns) > MOST_COLUMNS:
                raise TooLargeError(f"more than {MOST_COLUMNS:,} columns")
            parts.append(
                pl.DataFrame({str(name): _column(str(name), [row.get(name) for row in cells]) for name in names})
            )
        self.frame, self.numbers = pl.DataFrame({str(name): _joined(str(name), parts) for name in columns}), numbers

    @property
    def rows(self) -> int:
        return len(self.numbers)

    @property
    def columns(self) -> list[str]:
        """Names of all columns, read or not."""
        return list(dict.fromkeys([*self._unread, *self.frame.columns]))

    def numbered_rows(self) -> Iterator[Line]:
        return map(Line, self.numbers, self.frame.iter_rows(named=True))

    def add(self, message: str, line: int | None = None) -> None:
        self.problems.add(message, self.file, line)

    def duplicate(self, message: str, line: int) -> None:
        """Report a row that repeats another; the table still counts as complete."""
        self.problems.add(message, self.file, line, lost=False)

    @property
    def broken(self) -> bool:
        """True if a row may have been lost, so that other tables cannot be checked against this one."""
        return self.file in self.problems.incomplete

    def lacks(self, column: str) -> bool:
        """True if the table has rows but no such column, which is reported once."""
        lacking = bool(self.rows) and column not in self.columns
        if lacking and column not in self._absent:
            self._absent.add(column)
            self.add(missing_column(column, self.columns))
        return lacking

    def cell(self, cells: Cells, row: Row, column: str, line: int) -> Any:
        """The value in a cell of a row; None if it is empty and may be, or with a problem."""
        found, problem = read_cell(row.get(column), cells, column)
        if problem is not None and not self.lacks(column):
            self.add(problem, line)
        return found

    name = partialmethod(cell, "name")
    text = partialmethod(cell, "text")
    number = partialmethod(cell, "number")
    optional_name = partialmethod(cell, "optional_name")
    optional_text = partialmethod(cell, "optional_text")
    optional_number = partialmethod(cell, "optional_number")

    def read(self, columns: Mapping[str, Cells], *more: pl.Series) -> pl.DataFrame:
        """The rows whose cells all fit, with these columns, ``line`` and ``more``; other rows are reported."""
        bad: set[int] = set()
        made = [pl.Series("line", self.numbers, pl.Int64), *more]
        for name, cells in columns.items():
            if not cells.startswith("optional") and self.lacks(name):
                bad.update(self.numbers)
            kind = pl.Float64 if cells.endswith("number") else pl.String
            column = pl.Series(name, [None] * self.rows, kind)
            if name in self.frame.columns and (regular := _regular(self.frame[name], cells)) is not None:
                column = regular
            elif name in self.frame.columns:
                values = []
                for line, value in zip(self.numbers, self.frame[name].to_list(), strict=True):
                    found, problem = read_cell(value, cells, name)
                    values.append(found)
                    if problem is not None:
                        self.add(problem, line)
                        bad.add(line)
                column = pl.Series(name, values, kind)
            made.append(column)
        return pl.DataFrame(made).filter(~pl.col("line").is_in(list(bad)) if bad else pl.lit(value=True))

    def report(self, frame: pl.DataFrame, wrong: pl.Expr, message: str) -> pl.DataFrame:
        """The rows that are not wrong; those that are are reported. ``message``: a format of the row's cells."""
        for row in frame.filter(wrong).iter_rows(named=True):
            self.add(message.format_map(row), row["line"])
        return frame.filter(~wrong)


def pandas_frame(frame: pl.DataFrame) -> Any:
    """Copy a frame to pandas column by column, so that pyarrow is not needed."""
    try:
        import pandas as pd  # noqa: PLC0415 - not a dependency
    except ImportError as error:
        raise PrerequisiteError(
            f"to_pandas needs pandas, which cannot be imported ({error}). Run: pip install pandas"
        ) from error
    return pd.DataFrame(
        {column.name: column.to_numpy() if column.dtype.is_numeric() else column.to_list() for column in frame}
    )


def _polars_column(column: Any) -> pl.Series:
    """Copy a narwhals series; what its frame counts as missing, such as NaN in pandas, is null."""
    if not column.implementation.is_pandas_like():
        series: pl.Series = column.to_polars()
        return series
    if column.dtype.is_temporal():
        return pl.Series(column.name, column.to_numpy())
    missing = column.is_null().to_list()
    cells = column.to_list()
    return _column(str(column.name), [None if absent else cell for cell, absent in zip(cells, missing, strict=True)])


def _column(name: str, cells: Sequence[Any]) -> pl.Series:
    """The cells as a column of their one plain type, or of objects."""
    kinds = set(map(type, cells)) - {type(None)}
    kind = PLAIN.get(kinds.pop(), pl.Object) if len(kinds) == 1 else pl.Object if kinds else pl.Null
    try:
        return pl.Series(name, cells, kind)
    except (TypeError, OverflowError):  # a whole number of more than 64 bits
        return pl.Series(name, cells, pl.Object)


def _joined(name: str, parts: Sequence[pl.DataFrame]) -> pl.Series:
    each = [part.get_column(name, default=pl.Series(name, [None] * part.height)) for part in parts]
    kinds = {one.dtype for one in each} - {pl.Null}
    if len(kinds) > 1 or pl.Object in kinds:
        return _column(name, [cell for one in each for cell in one.to_list()])
    return pl.concat((one.cast(*kinds) if kinds else one for one in each), rechunk=True)


def _regular(column: pl.Series, cells: Cells) -> pl.Series | None:
    """A column of names or texts, if all of its cells plainly fit; most do, so that few are looked at one by one."""
    required = not cells.startswith("optional")
    if isinstance(column.dtype, pl.Categorical | pl.Enum) or (column.dtype.is_integer() and cells.endswith("name")):
        column = column.cast(pl.String)
    if column.dtype != pl.String or cells.endswith("number"):
        return None
    if not required:
        column = column.replace("", None)
    blank = column.str.strip_chars() == ""
    return column if cells == "optional_text" or not (blank.any() or (required and column.null_count())) else None


# --- text files ------------------------------------------------------------------------------------------------------


class Wrong(NamedTuple):
    """The problem of a line, or of the whole file."""

    number: int | None
    wrong: str


Found = Line | Wrong


def file_rows(path: Path, problems: Problems) -> Iterator[Line]:
    """The rows as they are in a file, each with its line."""
    if is_parquet(path):
        yield from Table(path, problems).numbered_rows()
        return
    try:
        for line in _text_rows(path):
            if isinstance(line, Line):
                yield line
                continue
            problems.add(line.wrong, path.name, line.number)
            if line.wrong.endswith(NOT_UTF_8):
                convert = f"iconv -f WINDOWS-1252 -t UTF-8 {path.name} > utf8-{path.name}"
                problems.advice[path.name] = f"if the file is in Windows-1252, convert it: {convert}"
    except UNREADABLE as error:
        problems.add(f"cannot be read: {str(error).splitlines()[0]}", path.name)


def first_row(path: Path) -> Mapping[str, Any]:
    """The first row of a file; empty if there is none or it cannot be read."""
    return next(file_rows(path, Problems()), Line(0, {})).row


def _text_rows(path: Path) -> Iterator[Found]:
    suffix = path.suffix.lower()
    with path.open("rb") as stream:
        head = stream.read(len(BOM))
        if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            convert = f"iconv -f UTF-16 -t UTF-8 {path.name} > utf8-{path.name}"
            yield Wrong(1, f"the file must be UTF-8, got UTF-16. Convert it: {convert}")
            return
        stream.seek(len(BOM) if head == BOM else 0)
        if suffix in SEPARATORS:
            yield from _csv_rows(stream, SEPARATORS[suffix])
        else:
            yield from (_json_rows if suffix == ".json" else _jsonl_rows)(stream)


def _jsonl_rows(stream: IO[bytes]) -> Iterator[Found]:
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if len(line) == LONGEST_LINE:
                yield Wrong(number, f"a line must be at most {LONGEST_LINE >> 20} MiB, got a longer one")
                return
            row = _python_json(line)
            if row is None and (number > 1 or not line.lstrip().startswith(b"[")):
                if line.strip():
                    said = f"not JSON: {error.msg} at character {error.pos + 1}"
                    yield Wrong(number, _not_utf8(line, stream.tell() - len(line)) or said)
                continue
            row = [] if row is None else row
        if isinstance(row, dict):
            yield Line(number, row)
        elif number == 1 and isinstance(row, list):
            yield Wrong(1, "got a JSON array; a .jsonl file has one JSON object per line. Name the file .json")
            return
        else:
            yield Wrong(number, f"a line must be a JSON object, got {describe(row)}")


def _python_json(line: bytes) -> Any:
    """The value on a line with numbers that only Python writes; None if there are none, or it is not JSON either."""
    with suppress(ValueError):
        return json.loads(line) if b"NaN" in line or b"Infinity" in line else None


def _json_rows(stream: IO[bytes]) -> Iterator[Found]:
    """The objects of a JSON array, numbered from 1; a file of one object per line is read by line."""
    begin, data = stream.tell(), stream.read().strip()
    if data.startswith(b"{") and data.partition(b"\n")[0].rstrip().endswith(b"}") and b"\n" in data:
        stream.seek(begin)
        yield from _jsonl_rows(stream)
        return
    if not data.startswith(b"["):
        yield Wrong(None, f"a .json file must be an array of objects{', got nothing' * (not data)}. {OTHER_LOGS}")
        return
    try:
        rows = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        yield Wrong(None, f"not JSON: {error.msg} at character {error.pos + 1:,}. Is the file complete?")
        return
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            yield Line(number, row)
        else:
            yield Wrong(number, f"an item of the array must be a JSON object, got {describe(row)}")


def _csv_rows(stream: IO[bytes], separator: str) -> Iterator[Found]:
    # The limit belongs to the whole process; a text of more than 128 KiB is no error, here or elsewhere.
    csv.field_size_limit(2**31 - 1)
    bad: list[Wrong] = []
    reader = csv.reader(_decoded(stream, bad), strict=True, delimiter=separator)
    header: list[str] = []
    cells: list[str] | None = []
    while cells is not None:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            unclosed = "the quote opened in this row is never closed"
            said = unclosed if str(error) == "unexpected end of data" else f"not CSV: {error}"
            bad.append(Wrong(number, said))
            cells = []
        yield from bad
        bad.clear()
        if cells and not header:
            if wrong := _wrong_header(cells):
                yield Wrong(number, wrong)
                return
            header = cells
        elif cells and len(cells) == len(header):
            yield Line(number, dict(zip(header, cells, strict=True)))
        elif cells:
            got = f"{len(cells)} cells, but the header has {len(header)}"
            yield Wrong(number, f"{got}. Put quotes around text with a comma or line break")


def _decoded(stream: IO[bytes], bad: list[Wrong]) -> Iterator[str]:
    """The lines as text; those that are not UTF-8 are added to ``bad``.

    They stay among the lines, so that a quoted text that spans one still ends where it ends.
    """
    offset = stream.tell()
    for number, line in enumerate(stream, 1):
        if wrong := _not_utf8(line, offset):
            bad.append(Wrong(number, wrong))
        yield line.decode(errors="replace")
        offset += len(line)


def _wrong_header(header: list[str]) -> str | None:
    used = [mark for mark in OTHER_MARKS if len(header) == 1 and mark in header[0]]
    if used:
        return f"the columns are separated by {OTHER_MARKS[used[0]]}. Save the table with commas"
    if len(header) > MOST_COLUMNS:
        return f"a table must have at most {MOST_COLUMNS:,} columns, got {len(header):,}"
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    return f"column {twice[0]!r} is in the header twice" if twice else None


def _not_utf8(line: bytes, offset: int) -> str | None:
    """The problem of a line that is not UTF-8; ``offset``: where it begins."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"byte 0x{line[error.start]:02x} at offset {offset + error.start:,}{NOT_UTF_8}"
    return None


# --- Parquet ---------------------------------------------------------------------------------------------------------


def check_parquet(path: Path) -> list[str]:
    """The columns of a Parquet file; one made to be far larger than it looks is refused."""
    table = pl.scan_parquet(path, glob=False)
    schema = table.collect_schema()
    columns = sum(map(_leaves, schema.values()))
    if columns > MOST_COLUMNS:
        raise TooLargeError(f"{columns:,} columns; at most {MOST_COLUMNS:,} are read")
    rows = table.select(pl.len()).collect().item()
    size = path.stat().st_size
    if rows > MANY_ROWS and rows > MOST_ROWS_PER_BYTE * size:
        raise TooLargeError(f"{rows:,} rows in a file of {size:,} bytes; that many equal rows are not evidence")
    return schema.names()


def _leaves(kind: Any) -> int:
    """Count the columns of plain values that a column is stored as."""
    if isinstance(kind, pl.Struct):
        return sum(map(_leaves, kind.to_schema().values()))
    if isinstance(kind, pl.List | pl.Array):
        return _leaves(kind.inner)
    return 1


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


def check_tables(folder: Path) -> None:
    """Raise a ``StudyError`` with every table of a run folder that must not be opened."""
    with all_at_once(str(folder)) as problems:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith(".") or not (path.is_dir() or path.suffix.lower() in FORMATS):
                continue
            for file in parts_of(path):
                try:
                    safe_file(file, folder, most_bytes=MOST_TABLE_BYTES)
                except UnsafeFileError as error:
                    problems.add(error.reason, error.file)
                except FileNotFoundError:
                    continue  # a link to nothing is no table
