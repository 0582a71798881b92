"""The call journal: every paid reply in one SQLite file, found again by content; and how to look after it.

A call's key is a hash of everything that makes it the same call: the model identity, the exact token ids or messages,
the parameters, and the replicate. Replies go into ``calls`` once and stay; failures go into ``failures``. ``attempts``
records each call before it is made. Whoever makes it has claimed it, alone or in a batch, and others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import re
import sqlite3
import threading
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import anyio
import orjson
from pydantic import TypeAdapter

from goldless.errors import UserError
from goldless.files import write_text
from goldless.models.interface import (
    ChatReply,
    ChatRequest,
    ModelIdentity,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    content_hash,
)
from goldless.models.marks import new_secret
from goldless.models.usage import Charge
from goldless.processes import ENDING, has_ended, this_process
from goldless.records import CallFailure

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
create table if not exists claims (key text primary key, owner text not null, expires_at real, request text)
    without rowid;
create index if not exists claims_by_owner on claims (owner);
create table if not exists batches (
    label text primary key, id text, model text not null, occasion text not null, reserved_usd real,
    submitted_at real not null
) without rowid;
create table if not exists secrets (name text primary key, secret blob not null) without rowid;
"""
"""``estimated``: tokens and cost of the call are the most they can be. ``failures.cost_usd``: what it may have cost.

A claim of a process expires; one of a batch has the batch's label as its owner, its request, and no end.
"""
FORMAT = 3
CHAT_FIELDS = ["text", "finish", "token_logprobs", "choice_logprobs", "mark"]
"""Fields of a stored reply; its usage has columns of its own."""
REPLIES = "select key, cast(reply as blob), input_tokens, output_tokens, cost_usd, estimated, checksum from calls"
"""Rows for ``read_row``."""
OBJECTS = "select type, name, sql from sqlite_master where sql is not null"
STEPS_BETWEEN_LOOKS = 1_000_000
"""Steps of SQLite's machine, a few hundredths of a second, between two looks at whether the process is to end."""
AMONG = "in (select value from json_each(?))"
KEEP = "insert into calls values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing"
CLAIM = (
    "insert into claims select :key, :owner, :now + :seconds, :request "
    "where not exists (select 1 from calls where key = :key) on conflict do update set owner = excluded.owner, "
    "expires_at = excluded.expires_at, request = excluded.request "
    "where expires_at not between :now and :now + 10 * :lease"
)
"""The only way to a call, alone or in a batch. A claim that ends too late was written by a clock that was wrong."""
LEASE_SECONDS, RENEWAL_SECONDS = 120.0, 20.0
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.02, 1.0  # between two looks at a call that another process is making
WRITERS_SECONDS = 60  # time to wait for other writing processes
DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors that reading a damaged file raises; the last where SQLite's own message repeats text of the file."""


Call = tuple[str, ScoreRequest | ChatRequest, TokenLogprobs | ChatReply | CallFailure, Charge | None]
"""The key of a call, its request and reply, and what it is booked at; None: a failure that cost nothing."""
Found = TypeVar("Found")


class StoredReply(NamedTuple):
    """A stored reply, and what its call was booked at."""

    reply: TokenLogprobs | ChatReply
    charge: Charge


class Journal:
    """An open journal file, usable by several threads and processes at once.

    A claim is made in one statement and renewed while its call is out; one that expired, or whose process on this
    machine has ended, is free. A clock that jumps can at worst let a call be made twice, and then the first reply
    stays; or let others wait for a process that is gone, for ten leases at most.
    """

    def __init__(self, path: Path | str, occasion: str = "") -> None:
        """Open or create the file. ``occasion``: for whoever makes the keys; calls of others are other calls."""
        self.path = Path(path)
        self.occasion = occasion
        self._lock = threading.Lock()
        self._owner = f"{uuid.uuid4().hex}:{this_process()}"
        self._claimed: set[str] = set()
        self._renewing: threading.Thread | None = None
        self._closed = threading.Event()
        self._turns: dict[asyncio.AbstractEventLoop, list[tuple[Callable[..., Any], asyncio.Future[Any]]]] = {}
        """Work to be done together at the end of a turn of its event loop."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self._connection = connect(str(self.path))
            until = time.monotonic() + WRITERS_SECONDS
            while not self._set_up(last=time.monotonic() > until):
                time.sleep(0.02)
        except (OSError, *DAMAGED) as error:
            raise UserError(
                f"{self.path}: cannot be used as a journal ({error}). Choose another file with --journal, or set "
                "GOLDLESS_HOME to a writable folder"
            ) from error

    def _set_up(self, *, last: bool) -> bool:
        """Make the tables, unless this version cannot read the file; False if another process is busy with it."""
        connection = self._connection
        try:
            lacking = lacking_tables(connection, self.path)
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma synchronous=normal")  # in WAL mode a killed process loses nothing committed
            if lacking:
                connection.executescript(f"begin immediate; {SCHEMA} pragma user_version={FORMAT}; commit")
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.rollback()
            # SQLite does not wait where another process is switching the same new file to WAL mode
            if last or getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query finds. Raises UserError if the file cannot be read."""
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except DAMAGED as error:
                raise self._unusable("read", error) from error

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
                    self._connection.rollback()
                if not isinstance(error, DAMAGED):
                    raise
                raise self._unusable("write", error) from error

    async def together(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """The result of work in a transaction that all who ask in one turn of the event loop share.

        A commit for each of hundreds of calls at once would take most of their time. It is done even if whoever asks is
        cancelled meanwhile: a reply that was paid for is kept.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        if loop not in self._turns:
            self._turns[loop] = []
            loop.call_soon(self._commit, loop)
        self._turns[loop].append((work, done))
        return await done  # type: ignore[no-any-return]

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = self._turns.pop(loop)
        try:
            with self.transaction() as run:
                found = [work(run) for work, _ in turn]
        except BaseException as error:  # noqa: BLE001 - whoever asked gets it
            for _, done in turn:
                if not done.done():
                    done.set_exception(error)
            return
        for (_, done), result in zip(turn, found, strict=True):
            if not done.done():
                done.set_result(result)

    def _unusable(self, what: str, error: Exception) -> UserError:
        raise_if_interrupted(error)
        # an operational error has its cause outside the file, but for one in a statement, such as a missing table, and
        # for one of Python's own, such as text that is not UTF-8, which has no code
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            return UserError(
                f"{self.path}: cannot {what} the journal ({error}). Replies so far are safe. Free disk space or stop "
                "the process that blocks the file, then run the same command again"
            )
        return UserError(
            f"{self.path}: the journal is damaged ({error}). It is left as it is; goldless journal show --check says "
            "more. Restore it from a backup, save what can be read "
            f"(sqlite3 {self.path.name} .recover | sqlite3 saved), or use another file with --journal"
        )

    def close(self) -> None:
        self._closed.set()
        self.release(self._claimed)
        self._connection.close()

    def find(self, keys: Sequence[str]) -> dict[str, StoredReply]:
        """Replies by key, for the keys that have one. A damaged reply is removed, so that its call is made again."""
        found: dict[str, StoredReply] = {}
        for row in self.rows(f"{REPLIES} where key {AMONG}", orjson.dumps(keys).decode()):
            kept = read_row(row)
            if kept is not None:
                found[row[0]] = kept
                continue
            with self.transaction() as run:  # unless another process has replaced it
                where = "key = ? and cast(reply as blob) is ? and checksum is ?"
                run.execute(f"delete from calls where {where}", (row[0], row[1], row[-1]))  # noqa: S608 - our words
            warnings.warn(
                f"{self.path}: a stored reply is damaged, so its call is made again. goldless journal show --check "
                "counts such replies",
                stacklevel=2,
            )
        return found

    def record(self, identity: ModelIdentity, calls: Iterable[Call], run: sqlite3.Connection | None = None) -> None:
        """Keep replies and failures: all of them or, if the process dies, none. ``run``: within this transaction."""
        model, now = model_hash(identity), time.time()
        rows: list[tuple[Any, ...]] = []
        failed: list[tuple[Any, ...]] = []
        bodies: dict[str, str] = {}  # contexts, which many requests share
        for key, request, reply, charge in calls:
            usage, cost_usd, estimated = charge or (Usage(), None, False)
            if isinstance(reply, CallFailure):
                failed.append((key, model, reply.kind, reply.message[:2000], reply.attempts, now, cost_usd))
                continue
            asked: Any = request
            if isinstance(request, ScoreRequest):
                context = context_hash(request.context)
                if context not in bodies:
                    bodies[context] = orjson.dumps(request.context).decode()
                asked = {"context": context, "target": request.target}
            kind, fields = ("score", ["logprobs"]) if isinstance(request, ScoreRequest) else ("chat", CHAT_FIELDS)
            if isinstance(request, ChatRequest) and isinstance(reply, ChatReply):
                reply = replace(reply, mark=request.mark)  # noqa: PLW2901 - the reply with the mark of its question
            written = orjson.dumps({name: getattr(reply, name) for name in fields}, default=dict)
            paid = (usage.input_tokens, usage.output_tokens, cost_usd)
            stored = (key, model, kind, orjson.dumps(asked).decode(), written.decode(), *paid, now, estimated)
            rows.append((*stored, _checksum(key, written, *paid)))
        with self.transaction() if run is None else contextlib.nullcontext(run) as within:
            # not "or ignore", which would also drop a row that cannot be kept, without a word
            if rows:
                introduce(within, identity)
            within.executemany("insert into bodies values (?, ?) on conflict do nothing", bodies.items())
            within.executemany(KEEP, rows)
            within.executemany("insert into failures values (?, ?, ?, ?, ?, ?, ?)", failed)
            self._end(within, [row[0] for row in (*rows, *failed)])

    @functools.cached_property
    def secret(self) -> bytes:
        """The secret that marks of questions are made with; made once for each journal."""
        with self.transaction() as run:
            run.execute("insert into secrets values ('marks', ?) on conflict do nothing", (new_secret(),))
            (secret,) = run.execute("select secret from secrets where name = 'marks'").fetchone()
        return bytes(secret)

    def canary_report(self, identity: ModelIdentity) -> str | None:
        rows = self.rows("select report from canaries where model = ?", model_hash(identity))
        return str(rows[0][0]) if rows else None

    def keep_canary_report(self, identity: ModelIdentity, report: str) -> None:
        with self.transaction() as run:
            run.execute("insert or replace into canaries values (?, ?, ?)", (model_hash(identity), report, time.time()))

    # --- claims --------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def claim(self, keys: Sequence[str]) -> AsyncIterator[set[str]]:
        """Claim the calls that are about to be made, until the block ends; yields those that are nobody else's.

        Others have a reply, are being made, or are in a batch that is out.
        """
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="claims", daemon=True)
            self._renewing.start()

        mine: set[str] = set()

        def take(run: sqlite3.Connection) -> None:
            mine.update(self.claim_in(run, dict.fromkeys(keys), self._owner, LEASE_SECONDS))
            self._claimed |= mine

        try:
            await self.together(take)
            yield mine
        finally:
            loop = asyncio.get_running_loop()
            if loop in self._turns:  # whoever is cancelled in the turn that claims calls or keeps their replies
                nobody = loop.create_future()
                nobody.cancel()
                self._turns[loop].append((lambda run: self._end(run, mine), nobody))
            else:
                self.release(mine)

    def claim_in(
        self, run: sqlite3.Connection, requests: Mapping[str, str | None], owner: str, seconds: float | None
    ) -> set[str]:
        """Claim calls in a transaction, for some seconds or, with their requests, for a batch; returns those it got."""
        claim = {"owner": owner, "now": time.time(), "seconds": seconds, "lease": LEASE_SECONDS}
        taken = {
            key
            for key, request in requests.items()
            if run.execute(CLAIM, {"key": key, "request": request, **claim}).rowcount
        }
        run.executemany("insert into attempts values (?, ?)", [(key, claim["now"]) for key in taken])
        return taken

    def release(self, keys: Iterable[str]) -> None:
        """Release the claims on calls that ended without reply or failure."""
        if mine := self._claimed.intersection(keys):
            # a claim that cannot be released expires
            with contextlib.suppress(UserError), self.transaction() as run:
                self._end(run, mine)

    def _end(self, run: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Release claims in a transaction, such as that which keeps their replies or failures."""
        mine = self._claimed.intersection(keys)
        run.executemany("delete from claims where key = ? and owner = ?", [(key, self._owner) for key in mine])
        self._claimed -= mine

    def _renew(self) -> None:
        while not self._closed.wait(RENEWAL_SECONDS):
            if self._claimed:
                with contextlib.suppress(UserError), self.transaction() as run:
                    until = time.time() + LEASE_SECONDS
                    run.execute("update claims set expires_at = ? where owner = ?", (until, self._owner))

    def in_batches(self, keys: Sequence[str]) -> set[str]:
        """Those of the calls that are in a batch that is out."""
        query = f"select key from claims where request is not null and key {AMONG}"  # noqa: S608 - our words
        return {key for (key,) in self.rows(query, json.dumps(keys))}

    async def freed(self, keys: Sequence[str]) -> None:
        """Wait until other processes have ended these calls, or have ended themselves."""
        wait = FIRST_WAIT_SECONDS
        while self.others_make(keys):
            await anyio.sleep(wait)
            wait = min(LONGEST_WAIT_SECONDS, wait * 1.5)

    def others_make(self, keys: Sequence[str]) -> bool:
        """True if running processes have claimed any of these calls; the claims of those that have ended are freed."""
        query = f"select distinct owner from claims where expires_at between ? and ? and key {AMONG}"  # noqa: S608 - our words
        now = time.time()
        owners = self.rows(query, now, now + 10 * LEASE_SECONDS, json.dumps(keys)) if keys else []
        ended = [(owner,) for (owner,) in owners if has_ended(owner.partition(":")[2])]
        if ended:
            with self.transaction() as run:
                run.executemany("delete from claims where owner = ?", ended)
        return len(owners) > len(ended)


# --- files of strangers ----------------------------------------------------------------------------------------------


def connect(place: str) -> sqlite3.Connection:
    """Open a file that anybody may have made; a signal ends its statements, however long they take."""
    connection = sqlite3.connect(
        place, timeout=WRITERS_SECONDS, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.set_progress_handler(ENDING.is_set, STEPS_BETWEEN_LOOKS)
    connection.execute("pragma trusted_schema=off")
    return connection


@contextlib.contextmanager
def opened_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """Another journal, to be read only. Raises UserError if it is none."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give the path of a journal")
    with closing(connect(f"{path.resolve().as_uri()}?mode=ro")) as connection:
        try:
            lacking_tables(connection, path)
            yield connection
        except DAMAGED as error:
            raise_if_interrupted(error)
            raise


def lacking_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """True if a file lacks tables of a journal. Raises UserError if it has another format, or anything else.

    It must come before any other look: a view, a trigger or a table of another form can run without end.
    """
    ((version,),) = connection.execute("pragma user_version")
    if version not in {0, FORMAT}:  # 0: a new file
        raise UserError(
            f"{path}: the journal has format {version}, but this version of goldless reads format {FORMAT}. Use the "
            "version that wrote it, or another file with --journal"
        )
    schema = frozenset(connection.execute(OBJECTS))
    foreign = [part for part in schema - _own_schema() if not _is_recovered(part)]
    if foreign:
        parts = ", ".join(sorted(f"{kind} {name}"[:80] for kind, name, _ in foreign)[:5])
        raise UserError(
            f"{path}: cannot be used as a journal: it has {parts} in a form that no journal has. Nothing else was read "
            "from it. Choose another file with --journal"
        )
    return not _own_schema() <= schema


@functools.cache
def _own_schema() -> frozenset[Any]:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(SCHEMA)
        return frozenset(empty.execute(OBJECTS))


def _is_recovered(part: tuple[str, str, str]) -> bool:
    """True for the plain table into which sqlite3's .recover puts rows of unknown tables."""
    return part[1].startswith("lost_and_found") and re.fullmatch(r"CREATE TABLE [\w\s,()\"]+", part[2]) is not None


def raise_if_interrupted(error: Exception) -> None:
    """Raise KeyboardInterrupt for a statement that a signal has ended."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        raise KeyboardInterrupt from error


def read_row(row: tuple[Any, ...]) -> StoredReply | None:
    """The reply in a row of ``REPLIES``; None if it is not as it was stored, or no reply at all."""
    key, written, input_tokens, output_tokens, cost_usd, estimated, checksum = row
    try:
        if _checksum(key, written, input_tokens, output_tokens, cost_usd) == checksum:
            usage, usd = Usage(int(input_tokens), int(output_tokens)), float(cost_usd or 0.0)
            if not 0 <= usd < math.inf:
                return None
            return StoredReply(_read_reply(written), Charge(usage, cost_usd and usd, bool(estimated)))
    except (ValueError, TypeError, AttributeError):  # not even of the right types
        pass
    return None


def _read_reply(written: bytes) -> TokenLogprobs | ChatReply:
    """A reply as it was stored. Raises ValueError if it cannot be one."""
    reply = _reply_reader().validate_json(written, strict=True)
    if isinstance(reply, TokenLogprobs):
        numbers: Iterable[float] = reply.logprobs
    else:
        numbers = [*(value for _, value in reply.token_logprobs or ()), *(reply.choice_logprobs or {}).values()]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a log-probability is not a finite number")
    return dataclasses.replace(reply, usage=Usage())


@functools.cache
def _reply_reader() -> TypeAdapter[TokenLogprobs | ChatReply]:
    return TypeAdapter(TokenLogprobs | ChatReply)


def _checksum(key: str, reply: bytes, given: int, written: int, cost_usd: float | None) -> bytes:
    cost = None if cost_usd is None else float(cost_usd)
    return hashlib.blake2b(f"{key} {int(given)} {int(written)} {cost} ".encode() + reply, digest_size=8).digest()


def introduce(run: sqlite3.Connection, identity: ModelIdentity) -> str:
    """Keep a model's identity; returns its hash."""
    model = model_hash(identity)
    written = json.dumps(identity.as_dict(), ensure_ascii=False, separators=(",", ":"))
    run.execute("insert into models values (?, ?) on conflict do nothing", (model, written))
    return model


def model_hash(identity: ModelIdentity) -> str:
    """A short hash of a model's identity."""
    settings = tuple(sorted(identity.settings.items()))
    return _model_hash(identity.provider, identity.name, identity.revision, identity.tokenizer, settings)


@functools.lru_cache(maxsize=256)
def _model_hash(provider: str, name: str, revision: str, tokenizer: str, settings: tuple[tuple[str, str], ...]) -> str:
    # asked for several times a call: a fast model is slowed down by computing it anew
    return content_hash(ModelIdentity(provider, name, revision, tokenizer, dict(settings)).as_dict())[:16]


@functools.lru_cache(maxsize=4096)
def context_hash(context: tuple[int, ...] | str) -> str:
    """Hash of a context, which many calls share."""
    return fast_hash(context)


def fast_hash(*parts: Any) -> str:
    """``content_hash`` of text and whole numbers, ten times as fast: every token of every call passes here."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


# --- looking after a journal -----------------------------------------------------------------------------------------

TOTALS = (
    "select calls.model, identity, count(*), coalesce(sum(input_tokens + output_tokens), 0), "
    "case when count(cost_usd) = count(*) then sum(cost_usd) end, coalesce(sum(estimated), 0), "
    "min(created_at), max(created_at) from calls left join models using (model) "
    "where typeof(calls.model) = 'text' "
    "group by calls.model order by 3 desc"
)
ORPHANS = (
    "delete from bodies where hash not in "
    "(select json_extract(request, '$.context') from calls where kind = 'score' and json_valid(request))"
)
MERGED = (
    "select key, model, kind, request, cast(reply as blob), input_tokens, output_tokens, cost_usd, created_at, "
    "estimated, checksum from calls"
)
CHOSEN = (
    "where (:hashes is null or model in (select value from json_each(:hashes))) "
    "and (:before is null or created_at < :before)"
)


@dataclass(frozen=True, slots=True)
class Soundness:
    """The result of a check."""

    replies: int
    """As they were stored."""
    damaged: int
    problems: tuple[str, ...]
    """Damage of the file itself, as SQLite words it."""


@dataclass(frozen=True, slots=True)
class ModelTotal:
    """The replies of one model in a journal."""

    model: str
    calls: int
    tokens: int
    cost_usd: float | None
    """None: the price of some calls was not known."""
    estimated: int
    """Of the calls, those booked at the most they can cost."""
    first: float
    last: float
    """Times of the first and the last reply, in seconds since 1970."""


def check_journal(path: Path) -> Soundness:
    """Look at every reply of a journal and at the file itself; nothing is changed."""
    problems: list[str] = []
    counts = {True: 0, False: 0}
    try:
        with opened_to_read(path) as journal:
            problems += [str(line) for (line,) in journal.execute("pragma integrity_check(20)") if line != "ok"]
            for row in journal.execute(REPLIES):
                counts[read_row(row) is not None] += 1
    except DAMAGED as error:
        problems.append(str(error))
    return Soundness(counts[True], counts[False], tuple(problems))


def model_totals(journal: Journal) -> list[ModelTotal]:
    """Calls, tokens and cost by model, the most called one first; a model without a readable identity by its hash."""
    return [ModelTotal(_short(model, identity), *counts) for model, identity, *counts in journal.rows(TOTALS)]


def forget(journal: Journal, *, model: str | None, before: float | None, dry_run: bool) -> tuple[int, float]:
    """Delete replies of a model, or those stored before a moment, or both; returns their number and what they cost."""
    hashes = [found for found, identity in journal.rows("select * from models") if _short(found, identity) == model]
    if model is not None and not hashes:
        known = ", ".join(sorted(one.model for one in model_totals(journal)))
        raise UserError(f"the journal has no replies of {model!r}. It has replies of: {known or 'no model'}")
    chosen = {"hashes": None if model is None else json.dumps(hashes), "before": before}
    with journal.transaction() as run:
        total = f"select count(*), coalesce(sum(cost_usd), 0) from calls {CHOSEN}"  # noqa: S608 - only our words
        count, usd = run.execute(total, chosen).fetchone()
        if not dry_run:
            for table in ("calls", "failures"):
                run.execute(f"delete from {table} {CHOSEN}", chosen)  # noqa: S608 - only our words
            run.execute("delete from attempts where key not in (select key from calls)")
            run.execute(ORPHANS)
            if before is None:
                run.executemany("delete from canaries where model = ?", [(one,) for one in hashes])
    return int(count), float(usd)


@dataclass(slots=True)
class Merged:
    """The replies of another journal, counted by what became of them."""

    added: int = 0
    known: int = 0
    """They were there already."""
    mended: int = 0
    """They replace replies that were damaged here."""
    damaged: int = 0
    """They are damaged there, and were left out."""


def merge(journal: Journal, path: Path) -> Merged:
    """Take over the sound replies of another journal, all or none."""
    if path.resolve() == journal.path.resolve():
        raise UserError(f"{path} is the journal itself. Give another journal")
    merged = Merged()
    try:
        with opened_to_read(path) as other, journal.transaction() as run:
            for row in other.execute(MERGED):
                _merge_row(row, run, merged)
            for model, identity in other.execute("select model, identity from models"):
                known = read_identity(identity)
                if known is not None and model_hash(known) == model:
                    run.execute("insert into models values (?, ?) on conflict do nothing", (model, identity))
            for name, body in other.execute("select hash, body from bodies"):
                if _hash_of_context(body) == name:
                    run.execute("insert into bodies values (?, ?) on conflict do nothing", (name, body))
    except (*DAMAGED, UserError) as error:
        cause = error.__cause__ or error
        if isinstance(cause, UserError):
            raise
        raise UserError(
            f"{path}: cannot be merged, and nothing was added ({cause}). If it is damaged, save "
            f"what can be read and merge that: sqlite3 {path.name} .recover | sqlite3 saved"
        ) from error
    return merged


def _merge_row(row: tuple[Any, ...], run: sqlite3.Connection, merged: Merged) -> None:
    """Keep one row of ``MERGED``, unless it is damaged or a sound one is here."""
    key, model, kind, request, reply, *paid, created_at, estimated, checksum = row
    stored = read_row((key, reply, *paid, estimated, checksum))
    texts = all(isinstance(text, str) for text in (key, model, kind, request))
    if stored is None or not texts or not isinstance(created_at, float) or not math.isfinite(created_at):
        merged.damaged += 1
        return
    usage, cost_usd, _ = stored.charge
    paid = [usage.input_tokens, usage.output_tokens, cost_usd]
    values = (key, model, kind, request, reply.decode(), *paid, created_at, stored.charge.estimated, checksum)
    if run.execute(KEEP, values).rowcount:
        merged.added += 1
        return
    (own,) = run.execute(f"{REPLIES} where key = ?", (key,))
    if read_row(own) is not None:
        merged.known += 1
        return
    run.execute("delete from calls where key = ?", (key,))
    run.execute(KEEP, values)
    merged.mended += 1


def _hash_of_context(body: Any) -> str | None:
    with contextlib.suppress(ValueError, TypeError):
        return fast_hash(orjson.loads(body))
    return None


def read_identity(written: Any) -> ModelIdentity | None:
    """A model's identity as it was stored; None if it is none."""
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        identity = ModelIdentity(**json.loads(written))
        model_hash(identity)  # of the right types
        return identity
    return None


def _short(model: str, written: str | None) -> str:
    identity = read_identity(written)
    return model if identity is None else identity.short


# --- how fast models answered ----------------------------------------------------------------------------------------

Kind = Literal["score", "verdict", "text"]  # of calls: a text scored, a few tokens written, more written


def _same(other: ModelIdentity, identity: ModelIdentity) -> bool:
    """A server is known by its address, or if it names its weights, by the model's name alone."""
    named = (other.provider, other.name) == (identity.provider, identity.name)
    return named and other.settings.get("server") in {identity.settings.get("server"), "own"}


def keep_measured(path: Path, identity: ModelIdentity, seconds: Mapping[Kind, float]) -> None:
    """Keep what single calls to a model took, beside a journal; the last measurement counts."""
    others = [(of.as_dict(), times) for of, times in _measurements(path) if not _same(of, identity)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path.with_name("doctor.json"), json.dumps([*others, (identity.as_dict(), dict(seconds))]) + "\n")


def measured(path: Path, identity: ModelIdentity) -> dict[Kind, float]:
    """Seconds that single calls to a model took when they were measured; empty: they were not."""
    return next((seconds for of, seconds in _measurements(path) if _same(of, identity)), {})


def _measurements(path: Path) -> list[tuple[ModelIdentity, dict[Kind, float]]]:
    try:
        found = json.loads(path.with_name("doctor.json").read_bytes())
        return [
            (ModelIdentity(**of), {kind: float(times[kind]) for kind in get_args(Kind) if kind in times})
            for of, times in found
        ]
    except (OSError, ValueError, TypeError):
        return []  # not measured, or by another version
