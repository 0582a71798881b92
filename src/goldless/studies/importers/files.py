"""The files of a log, and their first bytes, by which a format is recognised."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from goldless.studies.checking import Problems
from goldless.studies.tables import BOM, Source

HEAD_BYTES = 1 << 16
LINE_BYTES = 1 << 26
"""A first line that is longer is not looked at."""


def log_files(paths: Sequence[Path], *patterns: str) -> list[Path]:
    """The files, and those in folders, at any depth, whose names fit a pattern."""
    found: dict[Path, None] = {}
    for path in paths:
        fitting = [file for pattern in patterns for file in path.rglob(pattern)] if path.is_dir() else [path]
        found |= dict.fromkeys(sorted(fitting))
    return list(found)


def first_line(path: Path) -> dict[str, Any]:
    """The JSON object on the first line of a file; empty if there is none."""
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.readline(LINE_BYTES).removeprefix(BOM))  # NaN is no error here
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def first_keys(path: Path) -> set[str]:
    """The keys in the first bytes of a JSON file, at any depth."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES).removeprefix(BOM).lstrip()
    except OSError:
        return set()
    return {key.decode() for key in re.findall(rb'"(\w+)"\s*:', head)} if head[:1] in {b"{", b"["} else set()


def read_json(path: Path, problems: Problems) -> Any:
    """The whole of a JSON file; None, with a problem, if it cannot be read."""
    data = path.read_bytes().removeprefix(BOM)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        said = f"{error.msg} at character {error.pos + 1:,}" if data.strip() else "the file is empty"
        problems.add(f"not JSON: {said}. Is the file complete?", path.name)
        return None


@contextmanager
def expecting(what: str, problems: Problems, file: str, line: int | None = None) -> Iterator[None]:
    """Report a row that does not have the form of its format, and go on."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        problems.add(f"not in the form of {what}: {type(error).__name__}: {error}", file, line)


def numbered_rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a JSONL file, or the items of a JSON array, each with its line or number."""
    for chunk in Source(path, path.name).chunks(problems):
        yield from zip(chunk.lines, chunk.rows, strict=True)
