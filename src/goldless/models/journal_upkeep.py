"""Looking after a journal: checking, counting, forgetting, compacting, and taking over another's replies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.models.interface import ModelIdentity, Usage
from goldless.models.journal import KEEP
from goldless.models.journal_file import DAMAGED, JournalFile
from goldless.models.stored_reply import checksum, sound_reply

MOST_PROBLEMS = 20
CALLS = (
    "select key, model, kind, request, cast(reply as blob), input_tokens, output_tokens, cost_usd, created_at, "
    "estimated, checksum from calls"
)
OF_MODEL = (
    "select models.model, identity, count(calls.key), coalesce(sum(input_tokens + output_tokens), 0), "
    "sum(cost_usd), count(cost_usd), coalesce(sum(estimated), 0), min(created_at), max(created_at) "
    "from calls left join models on models.model = calls.model group by calls.model order by 3 desc"
)
ORPHANS = (
    "delete from bodies where hash not in "
    "(select json_extract(request, '$.context') from calls where kind = 'score' and json_valid(request))"
)


@dataclass(frozen=True, slots=True)
class Soundness:
    """What a check found."""

    replies: int
    """Replies that can be read."""
    damaged: int
    """Replies that are not as they were stored."""
    unchecked: int
    """Of the sound ones, those of earlier versions, which stored no checksum."""
    problems: tuple[str, ...]
    """What is wrong with the file itself."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.problems)


@dataclass(frozen=True, slots=True)
class ModelTotal:
    """What a journal has of one model."""

    model: str
    calls: int
    tokens: int
    cost_usd: float | None
    """None: the price of some calls was not known."""
    estimated: int
    """Of the calls, those booked at the most they can cost."""
    first: float
    last: float
    """When the first and the last reply came, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What came from other journals."""

    added: int
    known: int
    """Replies that were there already."""
    damaged: int
    """Replies that are not as they were stored, and were left out."""


def check_journal(path: Path) -> Soundness:
    """Look at every reply of a journal and at the file itself; nothing is changed."""
    with closing(_opened(path)) as other:
        problems = _file_problems(other)
        sound = damaged = unchecked = 0
        for row in _rows(other, problems):
            whole = _sound(row) is not None
            sound, damaged = sound + whole, damaged + (not whole)
            unchecked += whole and row[-1] is None
    return Soundness(sound, damaged, unchecked, tuple(dict.fromkeys(problems)))


def model_totals(file: JournalFile) -> list[ModelTotal]:
    """Calls, tokens and cost by model, most calls first."""
    return [
        ModelTotal(_short(model, identity), calls, tokens, usd if priced == calls else None, estimated, first, last)
        for model, identity, calls, tokens, usd, priced, estimated, first, last in file.rows(OF_MODEL)
    ]


def forget(file: JournalFile, *, model: str | None, before: float | None, dry_run: bool) -> tuple[int, float]:
    """Delete replies of a model, or those stored before a moment, or both; returns their number and what they cost."""
    hashes = [
        found for found, identity in file.rows("select model, identity from models") if _short(found, identity) == model
    ]
    if model is not None and not hashes:
        known = sorted(one.model for one in model_totals(file))
        raise UserError(f"the journal has no replies of {model!r}. It has replies of: {', '.join(known) or 'no model'}")
    limits: list[tuple[str, Sequence[Any]]] = []
    if model is not None:
        limits.append((f"model in ({','.join('?' * len(hashes))})", hashes))
    if before is not None:
        limits.append(("created_at < ?", [before]))
    where, values = " and ".join(limit for limit, _ in limits), [value for _, some in limits for value in some]
    found = f"select count(*), coalesce(sum(cost_usd), 0) from calls where {where}"  # noqa: S608 - only our words
    with file.transaction() as run:
        count, usd = run.execute(found, values).fetchone()
        if not dry_run:
            for table in ("calls", "failures"):
                run.execute(f"delete from {table} where {where}", values)  # noqa: S608 - only our words
            run.execute("delete from attempts where key not in (select key from calls)")
            run.execute(ORPHANS)
            if before is None:
                run.executemany("delete from canaries where model = ?", [(one,) for one in hashes])
    return int(count), float(usd)


def compact(file: JournalFile) -> None:
    """Give the space of deleted rows back to the disk."""
    file.rows("vacuum")
    file.rows("pragma wal_checkpoint(truncate)")


def merge(file: JournalFile, path: Path) -> Merged:
    """Take over the replies of another journal that can be read; those that are there already stay."""
    if path.resolve() == file.path.resolve():
        raise UserError(f"{path} is the journal itself. Give another journal")
    with closing(_opened(path)) as other:
        problems: list[str] = []
        added = known = damaged = 0
        with file.transaction() as run:
            for row in _rows(other, problems):
                kept = _sound(row)
                if kept is None:
                    damaged += 1
                elif run.execute(KEEP, kept).rowcount:
                    added += 1
                else:
                    known += 1
            for table, columns in (("models", 2), ("bodies", 2), ("canaries", 3)):
                with suppress(*DAMAGED):  # they explain replies; without them replies are still found
                    marks = ",".join("?" * columns)
                    rows = [tuple(map(_text, row)) for row in other.execute(f"select * from {table}")]  # noqa: S608 - fixed names
                    run.executemany(f"insert into {table} values ({marks}) on conflict do nothing", rows)  # noqa: S608
    return Merged(added, known, damaged)


def _opened(path: Path) -> sqlite3.Connection:
    """A journal to read from; text comes as bytes, since damaged text may not be text."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give the path of a journal")
    try:
        with ExitStack() as on_error:
            other = on_error.enter_context(closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)))
            other.text_factory = bytes
            other.execute(f"{CALLS} limit 1").fetchall()
            on_error.pop_all()
    except DAMAGED as error:
        raise UserError(f"{path}: cannot be read as a journal ({error})") from error
    return other


def _file_problems(other: sqlite3.Connection) -> list[str]:
    try:
        found = [_text(line) for (line,) in other.execute(f"pragma integrity_check({MOST_PROBLEMS})")]
    except DAMAGED as error:
        return [str(error)]
    return [] if found == ["ok"] else [str(line) for line in found]


def _rows(other: sqlite3.Connection, problems: list[str]) -> Iterator[tuple[Any, ...]]:
    """All calls that can be reached: from the first on and, where the file breaks off, from the last back."""
    query = f"{CALLS} order by key"
    last: bytes = b""
    try:
        for row in other.execute(query):
            last = row[0]
            yield row
    except DAMAGED as error:
        problems.append(str(error))
        with suppress(*DAMAGED):
            for row in other.execute(f"{query} desc"):
                if row[0] <= last:
                    return
                yield row


def _sound(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The row as it is to be kept, with a checksum; None if it is damaged."""
    key, model, kind, request, reply, given, written, cost, created, estimated, stored = row
    usage = Usage(given, written)
    try:
        text = sound_reply(key.decode(), reply, usage, cost, stored)
        if text is None:
            return None
        head = (key.decode(), model.decode(), kind.decode(), request.decode(), text)
        mark = stored or checksum(head[0], reply, usage, cost)
        return (*head, given, written, cost, float(created), bool(estimated), mark)
    except (ValueError, TypeError, AttributeError):
        return None


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _short(model: str, identity: str | None) -> str:
    """The short name of a model, or its hash where the journal does not have it."""
    try:
        return ModelIdentity(**json.loads(identity or "")).short
    except (ValueError, TypeError):
        return model
