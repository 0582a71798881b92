"""Standard input as a file of a study, in the format that its first bytes show."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goldless.errors import UserError
from goldless.files import temporary_prefix
from goldless.studies.tables import BOM


@contextmanager
def standard_input() -> Iterator[Path]:
    """A file with everything from standard input, deleted after the block."""
    if sys.stdin.isatty():
        raise UserError("standard input must be a file or a pipe, got a terminal. Try: cat answers.csv | goldless …")
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise UserError("standard input is empty")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = Path(folder) / "stdin" / f"stdin{_suffix(data.removeprefix(BOM).lstrip())}"
        path.parent.mkdir()  # a log may name its agent by its folder
        path.write_bytes(data)
        yield path


def _suffix(data: bytes) -> str:
    if data.startswith(b"PAR1"):
        return ".parquet"
    first = data.partition(b"\n")[0].rstrip()
    if data.startswith(b"{") and first.endswith(b"}"):
        return ".jsonl"
    if data.startswith((b"[", b"{")):
        return ".json"
    header = next(csv.reader([first.decode(errors="replace")]), [])
    return ".tsv" if len(header) == 1 and "\t" in header[0] else ".csv"
