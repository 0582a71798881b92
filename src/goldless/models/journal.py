"""The call journal: every paid reply, found again by content.

A call's key is a hash of everything that makes it the same call: the model identity, the exact token ids or
messages, the parameters, and the replicate. Replies go into ``calls`` once and stay. Failures go into ``failures`` and
are retried. ``attempts`` records each call before it is made, so that the journal itself shows what was called twice.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.models.interface import ModelIdentity, Usage, content_hash
from goldless.models.usage import Charge
from goldless.records import CallFailure

SCHEMA = """
create table if not exists models (model text primary key, identity text not null) without rowid;
create table if not exists bodies (hash text primary key, body text not null) without rowid;
create table if not exists calls (
    key text primary key, model text not null, kind text not null, request text not null, reply text not null,
    input_tokens integer not null, output_tokens integer not null, cost_usd real, created_at real not null
) without rowid;
create table if not exists failures (
    key text not null, model text not null, kind text not null, message text not null, attempts integer not null,
    created_at real not null
);
create table if not exists attempts (key text not null, started_at real not null);
create table if not exists canaries (model text primary key, report text not null, created_at real not null)
    without rowid;
"""
ADDED = (("calls", "estimated integer not null default 0"), ("failures", "cost_usd real"))
"""Columns that journals of format 1 do not have: whether a call's tokens and cost are the most they can be, and what a
failed call may have cost.
"""
FORMAT = 2
MOST_VARIABLES = 500
LONGEST_WAIT_SECONDS = 60
"""Time to wait for other writing processes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A reply to keep."""

    key: str
    kind: str
    """``score`` or ``chat``."""
    request: str
    """The request as JSON; long shared parts by their hash in ``bodies``."""
    reply: str
    """The reply as JSON."""
    usage: Usage
    cost_usd: float | None
    """None: price unknown."""
    estimated: bool = False
    """Whether usage and cost are the most they can be."""


class Journal:
    """A journal file, usable by several threads and processes at once."""

    def __init__(self, path: Path | str, occasion: str = "") -> None:
        """Open or create the file; only its owner may read it.

        ``occasion``: calls of other occasions are other calls, so that a model is asked the same again.
        """
        self.path = Path(path)
        self.occasion = occasion
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
        except (sqlite3.Error, OSError) as error:
            raise UserError(
                f"{self.path}: cannot be used as a journal ({error}). Choose another file with --journal, or set "
                "GOLDLESS_HOME to a writable folder"
            ) from error
        self._lock = threading.Lock()
        self._models: set[str] = set()
        """Models known to be in the file."""

    def find(self, keys: Sequence[str]) -> dict[str, str]:
        """Replies by key, for the keys that have one."""
        found: dict[str, str] = {}
        own = {self.own(key): key for key in keys}
        names = list(own)
        for begin in range(0, len(names), MOST_VARIABLES):
            some = names[begin : begin + MOST_VARIABLES]
            marks = ",".join("?" * len(some))
            query = f"select key, reply from calls where key in ({marks})"  # noqa: S608 - marks are only "?,?"
            found.update((own[name], reply) for name, reply in self.rows(query, *some))
        return found

    def usage(self, key: str) -> Usage | None:
        """The tokens charged for the call of a stored reply; None if there is none, or if they are estimated."""
        query = "select input_tokens, output_tokens from calls where key = ? and not estimated"
        rows = self.rows(query, self.own(key))
        return Usage(*rows[0]) if rows else None

    def begin(self, keys: Iterable[str]) -> None:
        """Record that these calls are about to be made."""
        now = time.time()
        with self.transaction() as run:
            run.executemany("insert into attempts values (?, ?)", [(self.own(key), now) for key in keys])

    def record(
        self, identity: ModelIdentity, entries: Sequence[Entry], bodies: Mapping[str, str] | None = None
    ) -> None:
        """Keep replies: all of them or, if the process dies, none. An existing reply is not replaced."""
        model, now = model_hash(identity), time.time()
        rows = [
            (
                self.own(e.key),
                model,
                e.kind,
                e.request,
                e.reply,
                e.usage.input_tokens,
                e.usage.output_tokens,
                e.cost_usd,
                now,
                e.estimated,
            )
            for e in entries
        ]
        with self.transaction() as run:
            # not "or ignore", which would also drop a row that cannot be kept, without a word
            if model not in self._models:
                who = (model, as_json(identity.as_dict()))
                run.execute("insert into models values (?, ?) on conflict do nothing", who)
            if bodies:
                run.executemany("insert into bodies values (?, ?) on conflict do nothing", list(bodies.items()))
            run.executemany("insert into calls values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing", rows)
        self._models.add(model)

    def record_failures(
        self, identity: ModelIdentity, failures: Iterable[tuple[str, CallFailure, Charge | None]]
    ) -> None:
        """Record failed calls with what they may have cost, separately from replies."""
        model, now = model_hash(identity), time.time()
        rows = [
            (self.own(key), model, f.kind, f.message[:2000], f.attempts, now, charge and charge.cost_usd)
            for key, f, charge in failures
        ]
        with self.transaction() as run:
            run.executemany("insert into failures values (?, ?, ?, ?, ?, ?, ?)", rows)

    def canary_report(self, identity: ModelIdentity) -> str | None:
        """A model's stored canary report, as JSON."""
        rows = self.rows("select report from canaries where model = ?", model_hash(identity))
        return str(rows[0][0]) if rows else None

    def keep_canary_report(self, identity: ModelIdentity, report: str) -> None:
        """Keep a model's report."""
        with self.transaction() as run:
            run.execute("insert or replace into canaries values (?, ?, ?)", (model_hash(identity), report, time.time()))

    def counts(self) -> dict[str, int]:
        """Rows per table."""
        tables = ("calls", "failures", "attempts")
        return {table: self.rows(f"select count(*) from {table}")[0][0] for table in tables}  # noqa: S608 - fixed names

    def called_after_reply(self) -> list[str]:
        """Keys of calls that were made again although their reply was stored. Must be empty."""
        rows = self.rows(
            "select attempts.key from attempts join calls on calls.key = attempts.key "
            "where attempts.started_at > calls.created_at"
        )
        return [key for (key,) in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def own(self, key: str) -> str:
        """The key of a call on this occasion."""
        return content_hash(self.occasion, key) if self.occasion else key

    def rows(self, query: str, *values: str) -> list[Any]:
        """The rows that a query finds."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Changes that are kept together or not at all. Raises UserError if the file cannot be written."""
        with self._lock:
            try:
                self._connection.execute("begin immediate")
                yield self._connection
                self._connection.execute("commit")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                if not isinstance(error, sqlite3.OperationalError):
                    raise
                raise UserError(
                    f"{self.path}: cannot write the journal ({error}). Replies so far are safe. Free disk space or "
                    "stop the process that blocks the file, then run the same command again"
                ) from error

    def _set_up(self) -> None:
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            try:
                self._check_format()
                self._connection.execute("pragma journal_mode=wal")
                # in WAL mode a killed process loses nothing that was committed, and the file stays whole
                self._connection.execute("pragma synchronous=normal")
                self._connection.executescript(SCHEMA)
                self._add_columns()
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

    def _add_columns(self) -> None:
        """Give a journal of an earlier version the columns that it lacks; its rows stay."""
        if self._lacking():
            self._connection.execute("begin immediate")
            for table, column in self._lacking():  # another process may have been faster
                self._connection.execute(f"alter table {table} add column {column}")
            self._connection.execute("commit")

    def _lacking(self) -> list[tuple[str, str]]:
        known = {
            table: {row[1] for row in self._connection.execute(f"pragma table_info({table})")}
            for table in dict.fromkeys(table for table, _ in ADDED)
        }
        return [(table, column) for table, column in ADDED if column.partition(" ")[0] not in known[table]]

    def _check_format(self) -> None:
        """Reject a file of another format before changing anything in it."""
        found = self._connection.execute("pragma user_version").fetchone()[0]
        if found not in range(FORMAT + 1):
            raise UserError(
                f"{self.path}: the journal has format {found}, but this version of goldless reads format {FORMAT}. "
                "Use the version that wrote it, or another file with --journal"
            )


def model_hash(identity: ModelIdentity) -> str:
    """A short hash of a model's identity."""
    settings = tuple(sorted(identity.settings.items()))
    return _model_hash(identity.provider, identity.name, identity.revision, identity.tokenizer, settings)


@functools.lru_cache(maxsize=256)
def _model_hash(provider: str, name: str, revision: str, tokenizer: str, settings: tuple[tuple[str, str], ...]) -> str:
    # asked for several times a call: a fast model is slowed down by computing it anew
    return content_hash(ModelIdentity(provider, name, revision, tokenizer, dict(settings)).as_dict())[:16]


def as_json(data: Any) -> str:
    """Plain data as the journal writes it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=dict)
