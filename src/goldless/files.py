"""Atomic file writes, and evidence on disk as tables in parts.

What is written aside first bears the name of its process, so that what a killed process left behind can be removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError
from goldless.processes import has_ended, this_process

POLARS_FAILED = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors that polars raises where a table is damaged; a panic of its is no ``Exception``."""

LEFTOVER = re.compile(r"\..+\.([0-9a-f]{8}-\d+)(\.\w+)?")
OLD_SECONDS = 24 * 3600
"""Leftovers of processes on other machines are removed after this time."""
FULL = {errno.ENOSPC, errno.EDQUOT}
MADE_BY = "made_by.json"
"""The record of a run folder, by which one is known."""
PROGRESS_FILE = "progress.json"
"""The file of a run folder that says how far its command is."""
MOST_DOCUMENT_BYTES = 1 << 28
"""The largest document of a run folder that is read."""
MOST_TABLE_BYTES = 1 << 32
"""The largest file of a table in a run folder that is read."""


class UnsafeFileError(OSError):
    """A file of a run folder that must not be opened."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} {reason}")
        self.file = file
        self.reason = reason


def safe_file(path: Path, folder: Path, *, most_bytes: int = MOST_DOCUMENT_BYTES) -> Path:
    """Return the path of a file of a run folder, which may come from anybody.

    Raises UnsafeFileError unless it is a regular file inside the folder and not too large. Raises FileNotFoundError if
    there is no such file.
    """
    status = path.stat()
    name = str(path.relative_to(folder))
    if not stat.S_ISREG(status.st_mode):
        got = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        raise UnsafeFileError(name, f"must be a regular file, got {got}. Delete it")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnsafeFileError(
            name, "must be a file inside its run folder, got a link out of it. Put a copy in its place"
        )
    if status.st_size > most_bytes:
        limit = most_bytes >> 20
        raise UnsafeFileError(name, f"must have at most {limit:,} MiB, got {status.st_size >> 20:,} MiB. Delete it")
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text, completely or not at all."""
    write_whole(path, lambda p: p.write_text(text, encoding="utf-8"))


def write_json(path: Path, data: Any) -> None:
    """Write data as indented JSON, completely or not at all."""
    write_text(path, json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file and move it into place when complete; if nothing is written, there is no file."""
    fresh = aside(path)
    with _told(path.parent):
        try:
            write(fresh)
            if fresh.exists():
                fresh.replace(path)
            else:
                path.unlink(missing_ok=True)
        finally:
            fresh.unlink(missing_ok=True)


def aside(path: Path) -> Path:
    """Where this process writes a file or folder before it is complete: beside its place, with the same suffix."""
    return path.with_name(f".{path.stem}.{this_process()}{path.suffix}")


def filled_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder aside and move it into place when complete; hidden files of the folder it replaces are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = aside(path)
    old = fresh.with_name(f"{fresh.name}.old")
    fresh.mkdir()
    try:
        fill(fresh)
        if path.exists():
            path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
        for hidden in old.glob(".*"):
            hidden.rename(path / hidden.name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for this folder. On Windows nothing is waited for."""
    if sys.platform == "win32":
        yield
        return
    import fcntl  # noqa: PLC0415 - not on Windows

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def temporary_prefix() -> str:
    """The beginning of the names of this process's files in the system's temporary folder."""
    return f"goldless-{this_process()}-"


def sweep(folder: Path) -> None:
    """Remove what killed processes left aside in a folder."""
    before = time.time() - OLD_SECONDS
    with suppress(OSError):  # not ours to remove, or another process was faster
        for path in list(folder.iterdir()):
            match = LEFTOVER.fullmatch(path.name)
            if match and (has_ended(match[1]) or path.lstat().st_mtime < before):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Raise UserError where a folder cannot be written."""
    try:
        yield
    except (OSError, pl.exceptions.ComputeError) as error:
        while folder.name.startswith("."):  # written aside: the user knows the folder around it
            folder = folder.parent
        raise cannot_write(folder, error) from error


def cannot_write(place: Path | str, error: Exception) -> UserError:
    """The error to raise where writing to a place failed."""
    code = error.errno if isinstance(error, OSError) else None
    if code is None and (said := re.search(r"os error (\d+)", str(error))):  # as Rust words it
        code = int(said[1])
    why = str(error) if code is None else os.strerror(code)
    todo = "Make room" if code in FULL else "Choose another place"
    return UserError(f"{place}: cannot write ({why}). {todo}, then run the same command again; replies are kept")


ROWS_PER_GROUP = 5_000
"""Rows per Parquet row group: few enough to find one task's rows without reading much else."""
ROWS_PER_PART = 20_000


def write_table(table: pl.LazyFrame | pl.DataFrame | None, folder: Path, name: str) -> None:
    """Write a table in parts and replace that of an earlier run; without rows the table is removed."""
    fresh = aside(folder / name)
    old = fresh.with_name(f"{fresh.name}.old")
    try:
        whole = pl.LazyFrame() if table is None else table.lazy()
        batches = whole.collect_batches(chunk_size=ROWS_PER_PART, maintain_order=True)
        for number, rows in enumerate(rows for rows in batches if len(rows)):
            with _told(folder):
                fresh.mkdir(parents=True, exist_ok=True)
                rows.write_parquet(fresh / f"part-{number:05}.parquet", row_group_size=ROWS_PER_GROUP)
        while True:
            with suppress(FileNotFoundError):
                (folder / name).rename(old)
            shutil.rmtree(old, ignore_errors=True)
            try:
                if fresh.is_dir():
                    fresh.rename(folder / name)
            except OSError as error:  # another process was faster: its table is replaced, too
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise
            else:
                return
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
