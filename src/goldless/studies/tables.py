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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import narwhals.stable.v2 as nw
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from goldless.errors import UserError
from goldless.files import POLARS_FAILED
from goldless.studies.checking import Problems, Row, describe

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


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """All rows of a table."""

    frame: pl.DataFrame
    """A column with cells of several types, or of lists or objects, is of ``pl.Object``."""
    lines: Sequence[int]

    @classmethod
    def of(cls, rows: Iterable[Line]) -> NumberedRows:
        """The table of these rows; a row without a column has null there."""
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
        return cls(pl.DataFrame({name: _joined(name, parts) for name in parts[-1].columns}), lines)

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    @property
    def rows(self) -> list[Row]:
        return self.frame.to_dicts()


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


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of one table come from."""

    data: Path | NumberedRows
    """A file, a folder of parts, or a table that is read already."""
    file: str
    """Its name in messages; empty for the main frame passed from Python."""

    @classmethod
    def of(cls, given: Any, file: str, what: str) -> Source:
        """A path, a pandas, polars or pyarrow frame, or rows; ``what``: how to call it where it is none of them."""
        if isinstance(given, Path):
            return cls(given, given.name)
        native = nw.from_native(given, pass_through=True)
        if isinstance(native, nw.DataFrame | nw.LazyFrame):
            eager = native.collect() if isinstance(native, nw.LazyFrame) else native
            try:
                frame = pl.DataFrame(eager.to_arrow())
            except (pa.ArrowException, UnicodeError) as error:
                raise UserError(f"the frame has a column with mixed types: {error}") from error
            return cls(_counted(frame), file)
        rows = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else [given]
        for row in rows:
            if row is given or not isinstance(row, Line | Mapping):
                got = f"{type(row).__module__}.{type(row).__qualname__}"
                kinds = "a path, a pandas, polars or pyarrow frame, or a list of dictionaries"
                raise UserError(f"{what} must be {kinds}, got a {got}{' in a list' * (row is not given)}")
        placed = (row if isinstance(row, Line) else Line(number, row) for number, row in enumerate(rows, 1))
        return cls(NumberedRows.of(placed), file)

    def table(self, problems: Problems, *, choose: Callable[[list[str]], list[str]] | None = None) -> NumberedRows:
        """The whole table; of Parquet only the columns that ``choose`` picks are read."""
        if isinstance(self.data, NumberedRows):
            return self.data
        try:
            if not is_parquet(self.data):
                return NumberedRows.of(self.rows(problems))
            parts = []
            for part in parts_of(self.data):
                names = check_parquet(part)
                parts.append(pl.read_parquet(part, columns=choose(names) if choose else names, glob=False))
            return _counted(parts[0] if len(parts) == 1 else pl.concat(parts, how="diagonal_relaxed"))
        except (*UNREADABLE, *POLARS_FAILED) as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", self.file)
            return NumberedRows(pl.DataFrame(), ())

    def rows(self, problems: Problems) -> Iterator[Line]:
        """The rows as they are in the file, each with its line."""
        if not isinstance(self.data, Path) or is_parquet(self.data):
            table = self.table(problems)
            yield from map(Line, table.lines, table.frame.iter_rows(named=True))
            return
        suffix = self.data.suffix.lower()
        read = _csv_rows if suffix in SEPARATORS else _json_rows if suffix == ".json" else _jsonl_rows
        try:
            yield from read(self.data, self.file, problems)
        except UNREADABLE as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", self.file)

    def first_row(self) -> Mapping[str, Any]:
        """The first row; empty if there is none or it cannot be read."""
        return next(self.rows(Problems()), Line(0, {})).row


def _counted(frame: pl.DataFrame) -> NumberedRows:
    return NumberedRows(frame, range(1, frame.height + 1))


# --- JSON ------------------------------------------------------------------------------------------------------------


def _jsonl_rows(path: Path, file: str, problems: Problems) -> Iterator[Line]:
    with path.open("rb") as stream:
        if _skip_bom(stream, file, problems) is None:
            return
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b""), 1):
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                if len(line) == LONGEST_LINE:
                    problems.add(f"a line must be at most {LONGEST_LINE >> 20} MiB, got a longer one", file, number)
                    return
                row = _python_json(line)
                if row is None and (number > 1 or not line.lstrip().startswith(b"[")):
                    if line.strip() and _is_utf8(line, stream.tell() - len(line), number, file, problems):
                        problems.add(f"not JSON: {error.msg} at character {error.pos + 1}", file, number)
                    continue
                row = [] if row is None else row
            if isinstance(row, dict):
                yield Line(number, row)
            elif number == 1 and isinstance(row, list):
                said = "got a JSON array; a .jsonl file has one JSON object per line. Name the file .json"
                problems.add(said, file, 1)
                return
            else:
                problems.add(f"a line must be a JSON object, got {describe(row)}", file, number)


def _python_json(line: bytes) -> Any:
    """The value on a line with numbers that only Python writes; None if there are none, or it is not JSON either."""
    with suppress(ValueError):
        return json.loads(line) if b"NaN" in line or b"Infinity" in line else None


def _json_rows(path: Path, file: str, problems: Problems) -> Iterator[Line]:
    """The objects of a JSON array, numbered from 1; a file of one object per line is read by line."""
    data = path.read_bytes().removeprefix(BOM).lstrip()
    if not data.startswith(b"["):
        first = data.partition(b"\n")[0]
        if first.rstrip().endswith(b"}") and b"\n" in data.strip():
            yield from _jsonl_rows(path, file, problems)
        else:
            problems.add(f"a .json file must be an array of objects{', got nothing' * (not data)}. {OTHER_LOGS}", file)
        return
    try:
        rows = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        problems.add(f"not JSON: {error.msg} at character {error.pos + 1:,}. Is the file complete?", file)
        return
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            yield Line(number, row)
        else:
            problems.add(f"an item of the array must be a JSON object, got {describe(row)}", file, number)


# --- CSV -------------------------------------------------------------------------------------------------------------


def _csv_rows(path: Path, file: str, problems: Problems) -> Iterator[Line]:
    # The limit belongs to the whole process; a text of more than 128 KiB is no error, here or elsewhere.
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as stream:
        start = _skip_bom(stream, file, problems)
        if start is None:
            return
        lines = _text_lines(stream, start, file, problems)
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
                problems.add(said, file, number)
                continue
            if not header:
                if wrong := _wrong_header(cells):
                    problems.add(wrong, file, number)
                    return
                header = cells
            elif len(cells) == len(header):
                yield Line(number, dict(zip(header, cells, strict=True)))
            elif cells:
                got = f"{len(cells)} cells, but the header has {len(header)}"
                problems.add(f"{got}. Put quotes around text with a comma or line break", file, number)


def _wrong_header(header: list[str]) -> str | None:
    used = [mark for mark in OTHER_MARKS if len(header) == 1 and mark in header[0]]
    if used:
        return f"the columns are separated by {OTHER_MARKS[used[0]]}. Save the table with commas"
    if len(header) > MOST_COLUMNS:
        return f"a table must have at most {MOST_COLUMNS:,} columns, got {len(header):,}"
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    return f"column {twice[0]!r} is in the header twice" if twice else None


def _text_lines(stream: IO[bytes], offset: int, file: str, problems: Problems) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        _is_utf8(line, offset, number, file, problems)
        # A line that is reported stays in the stream, so that a quoted text that spans it still ends where it ends.
        yield line.decode(errors="replace")
        offset += len(line)


def _is_utf8(line: bytes, offset: int, number: int, file: str, problems: Problems) -> bool:
    """True if a line is UTF-8; if not, it is reported."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        problems.add(f"byte 0x{line[error.start]:02x} at offset {offset + error.start:,} is not UTF-8", file, number)
        convert = f"iconv -f WINDOWS-1252 -t UTF-8 {file} > utf8-{file}"
        problems.advice[file] = f"if the file is in Windows-1252, convert it: {convert}"
        return False
    return True


def _skip_bom(stream: IO[bytes], file: str, problems: Problems) -> int | None:
    """The offset of the first character, or None if the file is UTF-16."""
    head = stream.read(len(BOM))
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        problems.add(
            f"the file must be UTF-8, got UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 {file} > utf8-{file}", file, 1
        )
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
