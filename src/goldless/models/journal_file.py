"""The journal's file: its tables, its transactions, and what is said where it cannot be used."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from goldless.errors import UserError

SCHEMA = """
create table if not exists models (model text primary key, identity text not null) without rowid;
create table if not exists bodies (hash text primary key, body text not null) without rowid;
create table if not exists calls (
    key text primary key, model text not null, kind text not null, request text not null, reply text not null,
    input_tokens integer not null, output_tokens integer not null, cost_usd real, created_at real not null,
    estimated integer not null default 0, checksum blob
) without rowid;
create table if not exists failures (
    key text not null, model text not null, kind text not null, message text not null, attempts integer not null,
    created_at real not null, cost_usd real
);
create table if not exists attempts (key text not null, started_at real not null);
create table if not exists canaries (model text primary key, report text not null, created_at real not null)
    without rowid;
create table if not exists owners (
    owner text primary key, machine text not null, pid integer not null, beats integer not null
) without rowid;
create table if not exists claims (key text primary key, owner text not null) without rowid;
create table if not exists batches (
    label text primary key, id text, provider text not null, model text not null, occasion text not null,
    reserved_usd real, submitted_at real not null
) without rowid;
create table if not exists batch_calls (
    own text primary key, key text not null, label text not null, request text not null
) without rowid;
create index if not exists batch_calls_by_label on batch_calls (label);
"""
"""``estimated``: tokens and cost of the call are the most they can be. ``failures.cost_usd``: what it may have cost."""
DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a damaged file raises; the last where SQLite's own message repeats text of the file."""
FORMAT = 2
MOST_VARIABLES = 500
LONGEST_WAIT_SECONDS = 60
"""Time to wait for other writing processes."""
OUTSIDE = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM),
}
"""Errors whose cause is not in the file."""


class JournalFile:
    """An open journal file, usable by several threads and processes at once."""

    def __init__(self, path: Path | str) -> None:
        """Open or create the file; only its owner may read it."""
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self._connection = sqlite3.connect(
                self.path,
                timeout=LONGEST_WAIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=64,
            )
            self._set_up()
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise UserError(
                f"{self.path}: cannot be used as a journal ({error}). Choose another file with --journal, or set "
                "GOLDLESS_HOME to a writable folder"
            ) from error
        self._lock = threading.Lock()

    def rows(self, query: str, *values: str) -> list[Any]:
        """The rows that a query finds. Raises UserError if the file cannot be read."""
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except DAMAGED as error:
                raise self._unusable("read", error) from error

    def rows_of(self, query: str, keys: Sequence[str]) -> Iterator[Any]:
        """The rows that a query finds for keys; ``{marks}`` in it is replaced by their placeholders."""
        for begin in range(0, len(keys), MOST_VARIABLES):
            some = keys[begin : begin + MOST_VARIABLES]
            yield from self.rows(query.format(marks=",".join("?" * len(some))), *some)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Changes that are kept together or not at all. Raises UserError if the file cannot be written."""
        with self._lock:
            try:
                self._connection.execute("begin immediate")
                yield self._connection
                self._connection.execute("commit")
            except BaseException as error:
                with contextlib.suppress(sqlite3.DatabaseError):
                    if self._connection.in_transaction:
                        self._connection.execute("rollback")
                if not isinstance(error, DAMAGED):
                    raise
                raise self._unusable("write", error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _unusable(self, what: str, error: Exception) -> UserError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in OUTSIDE:
            return UserError(
                f"{self.path}: cannot {what} the journal ({error}). Replies so far are safe. Free disk space or stop "
                "the process that blocks the file, then run the same command again"
            )
        return UserError(
            f"{self.path}: the journal is damaged ({error}). Move it away, with the files beside "
            "it; goldless journal merge FILE then saves the replies that can still be read"
        )

    def _set_up(self) -> None:
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            try:
                found = self._format()
                self._connection.execute("pragma journal_mode=wal")
                # in WAL mode a killed process loses nothing that was committed, and the file stays whole
                self._connection.execute("pragma synchronous=normal")
                self._connection.executescript(SCHEMA)
                if found != FORMAT:
                    self._connection.execute(f"pragma user_version={FORMAT}")
            except BaseException as error:
                # SQLite does not wait where another process is switching the same new file to WAL mode
                busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > until:
                    self._connection.close()
                    raise
                time.sleep(0.02)
            else:
                return

    def _format(self) -> int:
        """The format of the file. Raises before anything in it is changed if this version cannot read it."""
        found = int(self._connection.execute("pragma user_version").fetchone()[0])
        if found not in (0, FORMAT):  # 0: a new file
            raise UserError(
                f"{self.path}: the journal has format {found}, but this version of goldless reads format {FORMAT}. "
                "Use the version that wrote it, or another file with --journal"
            )
        return found
