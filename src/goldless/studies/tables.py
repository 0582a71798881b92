"""Tables as streams of rows, in chunks of about a megabyte, each row with its line.

Text files are read as bytes and split at line feeds only: a line here is the line an editor shows, and a bad byte has
an offset. What cannot be read becomes a problem and the rows around it are still given.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from goldless.studies.checking import Problems, Row, describe

CHUNK_BYTES = 1 << 20
CHUNK_ROWS = 4096
FORMATS = (".jsonl", ".csv", ".parquet")
ALLOWED = "a table is a .jsonl, .csv or .parquet file"
PARTS = "part-*.parquet"
"""Files of a table in parts, in a folder of the table's name."""
OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""What else separates the columns of tables that are called CSV."""
BOM = b"\xef\xbb\xbf"
UNREADABLE = (OSError, UnicodeError, pa.ArrowException)
"""What a file that is damaged, or not what its ending says, may raise."""

Rows = Iterable["Mapping[str, Any] | Line"]
Choice = Callable[[Sequence[str]], list[str]]


class Line(NamedTuple):
    """A row made by a program, with the line of the file that it was made from."""

    number: int
    row: Mapping[str, Any]


class Chunk(NamedTuple):
    """Some rows in a run; never none."""

    lines: Sequence[int]
    """The line (of a text file) or row (of a Parquet file or frame) each row begins on, counted from 1."""
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of one table come from."""

    data: Path | pa.Table | Rows
    """A file, a folder of parts, an Arrow table, or rows, which can be read once."""
    file: str
    """Its name in messages; empty for the main frame given from Python."""

    def chunks(self, problems: Problems, *, choose: Choice | None = None) -> Iterator[Chunk]:
        """The rows; formats that store columns apart hold only those that ``choose`` gives of all names."""
        try:
            if isinstance(self.data, pa.Table):
                yield from _arrow_chunks(self.data.to_batches(max_chunksize=CHUNK_ROWS))
            elif not isinstance(self.data, Path):
                yield from _row_chunks(self.data)
            elif is_parquet(self.data):
                yield from _arrow_chunks(_parquet_batches(parts_of(self.data), choose))
            elif self.data.suffix.lower() == ".csv":
                yield from _csv_chunks(self.data, self.file, problems)
            else:
                yield from _jsonl_chunks(self.data, self.file, problems)
        except UNREADABLE as error:
            problems.add(f"cannot be read: {str(error).splitlines()[0]}", self.file)


def _jsonl_chunks(path: Path, file: str, problems: Problems) -> Iterator[Chunk]:
    with path.open("rb") as stream:
        start = _skip_bom(stream, file, problems)
        line = 1
        while start is not None and (lines := stream.readlines(CHUNK_BYTES)):
            if line == 1 and lines[0].lstrip().startswith(b"["):
                problems.add("a JSON array, where one JSON object per line is needed", file, 1)
                return
            numbers: Sequence[int] = range(line, line + len(lines))
            line += len(lines)
            try:
                rows = [orjson.loads(text) for text in lines]
            except orjson.JSONDecodeError:
                rows = []
            if not rows or set(map(type, rows)) != {dict}:
                numbers, rows = _careful(numbers, lines, stream.tell(), file, problems)
            if rows:
                yield Chunk(numbers, rows)


def _careful(
    numbers: Sequence[int], lines: list[bytes], end: int, file: str, problems: Problems
) -> tuple[list[int], list[Row]]:
    """The lines of one chunk that hold an object; blank ones are passed over, the others reported."""
    kept: list[int] = []
    rows: list[Row] = []
    offset = end - sum(map(len, lines))
    for number, line in zip(numbers, lines, strict=True):
        try:
            row = orjson.loads(line) if line.strip() else None
        except orjson.JSONDecodeError as error:
            row = None
            if _decoded(line, offset, number, file, problems) is not None:
                problems.add(f"not JSON: {error.msg} at character {error.pos + 1}", file, number)
        else:
            if isinstance(row, dict):
                kept.append(number)
                rows.append(row)
            elif line.strip():
                problems.add(f"{describe(row)}, where a JSON object is needed", file, number)
        offset += len(line)
    return kept, rows


def _row_chunks(rows: Rows) -> Iterator[Chunk]:
    placed = (row if isinstance(row, Line) else Line(number, row) for number, row in enumerate(rows, 1))
    while held := list(islice(placed, CHUNK_ROWS)):
        yield Chunk([line.number for line in held], [dict(line.row) for line in held])


def _csv_chunks(path: Path, file: str, problems: Problems) -> Iterator[Chunk]:
    # The limit belongs to the whole process; a text of more than 128 KiB is no error, here or elsewhere.
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as stream:
        start = _skip_bom(stream, file, problems)
        if start is None:
            return
        records = _records(csv.reader(_text_lines(stream, start, file, problems), strict=True), file, problems)
        line, header = next(records, (0, []))
        if not header or _has_bad_header(header, file, line, problems):
            return
        rows = _csv_rows(records, header, file, problems)
        while held := list(_within_bounds(rows)):
            yield Chunk([line for line, _ in held], [dict(zip(header, cells, strict=True)) for _, cells in held])


def _has_bad_header(header: list[str], file: str, line: int, problems: Problems) -> bool:
    """Whether the columns cannot be told apart, which is reported."""
    if used := [mark for mark in OTHER_MARKS if len(header) == 1 and mark in header[0]]:
        came = f"the columns are separated by {OTHER_MARKS[used[0]]}"
        problems.add(f"{came}; save the table with commas between them", file, line)
        return True
    if twice := sorted({name for name in header if header.count(name) > 1}):
        problems.add(f"column {twice[0]!r} stands twice in the header", file, line)
    return bool(twice)


def _csv_rows(
    records: Iterator[tuple[int, list[str]]], header: list[str], file: str, problems: Problems
) -> Iterator[tuple[int, list[str]]]:
    for line, cells in records:
        if len(cells) == len(header):
            yield line, cells
            continue
        came = f"{len(cells)} cells where the header has {len(header)}"
        problems.add(f"{came}; text with a comma or line break needs quotes around it", file, line)


def _within_bounds(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The next rows, as many as a chunk holds."""
    size = 0
    for line, cells in islice(rows, CHUNK_ROWS):
        yield line, cells
        size += sum(map(len, cells))
        if size >= CHUNK_BYTES:
            return


def _records(reader: Any, file: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the line it begins on."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"not CSV: {error}"
            if str(error) == "unexpected end of data":
                message = "the quote opened in this row is never closed"
            problems.add(message, file, line)
            continue
        if cells:
            yield line, cells


def _text_lines(stream: IO[bytes], offset: int, file: str, problems: Problems) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        text = _decoded(line, offset, number, file, problems)
        # A line that is reported stays in the stream, so that a quoted text that spans it still ends where it ends.
        yield line.decode(errors="replace") if text is None else text
        offset += len(line)


def _decoded(line: bytes, offset: int, number: int, file: str, problems: Problems) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        message = f"byte 0x{line[error.start]:02x} at offset {offset + error.start:,} is not UTF-8"
        convert = f"if the file is in Windows-1252, iconv -f WINDOWS-1252 -t UTF-8 {file} converts it"
        problems.add(f"{message}; {convert}", file, number)
        return None


def _skip_bom(stream: IO[bytes], file: str, problems: Problems) -> int | None:
    """The offset of the first character, or none where the file is UTF-16."""
    head = stream.read(len(BOM))
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        problems.add(f"UTF-16, where UTF-8 is needed; iconv -f UTF-16 -t UTF-8 {file} converts it", file, 1)
        return None
    return stream.seek(len(BOM) if head == BOM else 0)


def _parquet_batches(files: Iterable[Path], choose: Choice | None) -> Iterator[Any]:
    for file in files:
        # Buffered streams, not whole column chunks: a row group may be as large as the file.
        with pq.ParquetFile(file, buffer_size=CHUNK_BYTES, pre_buffer=False) as table:
            names = table.schema_arrow.names
            size = sum(table.metadata.row_group(i).total_byte_size for i in range(table.num_row_groups))
            rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES * table.metadata.num_rows // max(size, 1)))
            columns = names if choose is None else choose(names)
            yield from table.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _arrow_chunks(batches: Iterable[Any]) -> Iterator[Chunk]:
    start = 1
    for batch in batches:
        columns = [_plain(column).to_pylist() for column in batch.columns]
        names = batch.schema.names
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        if rows:
            yield Chunk(range(start, start + len(rows)), rows)
        start += batch.num_rows


def _plain(column: Any) -> Any:
    """The column; nanoseconds, for which Python has no type, as microseconds."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    return column


def parts_of(path: Path) -> list[Path]:
    """The files of a Parquet table: the file itself, or the parts in its folder in the order of their names."""
    return sorted(path.glob(PARTS)) if path.is_dir() else [path]


def is_parquet(path: Path) -> bool:
    """Whether this is a table in Parquet, in one file or in parts."""
    return path.suffix.lower() == ".parquet" or path.is_dir()


def is_table(path: Path) -> bool:
    """Whether this is a file with the ending of a table, or a folder with the parts of one."""
    if path.name.startswith("."):
        return False
    return any(path.glob(PARTS)) if path.is_dir() else path.suffix.lower() in FORMATS and path.is_file()


def table_name(path: Path) -> str:
    """The name of the table in this file, or in this folder of parts."""
    return path.name if path.is_dir() else path.stem
