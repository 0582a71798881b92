"""The call journal: every paid reply, found again by content.

A call's key is a hash of everything that makes it the same call: the model identity, the exact token ids or
messages, the parameters, and the replicate. Replies go into ``calls`` once and stay. Failures go into ``failures`` and
are retried. ``attempts`` records each call before it is made, so that the journal itself shows what was called twice.
While a call is being made it is claimed, and other processes wait for its reply.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.models.claims import Claims
from goldless.models.interface import ModelIdentity, Usage, content_hash
from goldless.models.journal_file import JournalFile
from goldless.models.stored_reply import as_json, checksum, sound_reply
from goldless.models.usage import Charge
from goldless.records import CallFailure

REPLIES = (
    "select key, cast(reply as blob), input_tokens, output_tokens, cost_usd, estimated, checksum from calls "
    "where key in ({marks})"
)
KEEP = (
    "insert into calls (key, model, kind, request, reply, input_tokens, output_tokens, cost_usd, created_at, "
    "estimated, checksum) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing"
)


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


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored reply."""

    reply: str
    """As JSON."""
    usage: Usage
    cost_usd: float | None
    """None: price unknown."""
    estimated: bool
    """Whether usage and cost are the most they can be."""


class Journal(JournalFile):
    """The replies, failures and claims in a journal file."""

    def __init__(self, path: Path | str, occasion: str = "") -> None:
        """Open or create the file.

        ``occasion``: calls of other occasions are other calls, so that a model is asked the same again.
        """
        super().__init__(path)
        self.occasion = occasion
        self._claims = Claims(self)
        self._models: set[str] = set()
        """Models known to be in the file."""
        self.damaged = 0
        """Replies that were not as they had been stored. They are removed, so that their calls are made again."""

    def find(self, keys: Sequence[str]) -> dict[str, Kept]:
        """Replies by key, for the keys that have one."""
        found: dict[str, Kept] = {}
        own = {self.own(key): key for key in keys}
        damaged = []
        for name, said, given, written, cost, estimated, stored in self.rows_of(REPLIES, list(own)):
            usage = Usage(given, written)
            reply = sound_reply(name, said, usage, cost, stored)
            if reply is None:
                damaged.append(name)
            else:
                found[own[name]] = Kept(reply, usage, cost, bool(estimated))
        if damaged:
            self._remove(damaged)
        return found

    def _remove(self, names: Sequence[str]) -> None:
        """Remove damaged replies; one that another process has replaced meanwhile stays."""
        query = REPLIES.format(marks="?")
        with self.transaction() as run:
            for name in names:
                for key, said, given, written, cost, _, stored in run.execute(query, (name,)).fetchall():
                    if sound_reply(key, said, Usage(given, written), cost, stored) is None:
                        run.execute("delete from calls where key = ?", (key,))
                        self.damaged += 1

    def begin(self, keys: Sequence[str]) -> set[str]:
        """Claim the calls that are about to be made; returns those with neither reply, batch nor another's claim."""
        own = {self.own(key): key for key in keys}
        return {own[name] for name in self._claims.take(list(own))}

    def in_batch(self, key: str) -> bool:
        """Whether the call is in a batch that is out."""
        return bool(self.rows("select 1 from batch_calls where own = ?", self.own(key)))

    def release(self, keys: Sequence[str]) -> None:
        """Release the claims on calls that ended without reply or failure."""
        self._claims.release([self.own(key) for key in keys])

    async def freed(self, keys: Sequence[str]) -> None:
        """Wait until other processes have ended these calls, or have ended themselves."""
        await self._claims.freed([self.own(key) for key in keys])

    def record(
        self, identity: ModelIdentity, entries: Sequence[Entry], bodies: Mapping[str, str] | None = None
    ) -> None:
        """Keep replies: all of them or, if the process dies, none. An existing reply is not replaced."""
        model, now = model_hash(identity), time.time()
        rows = [self._row(entry, model, now) for entry in entries]
        with self.transaction() as run:
            # not "or ignore", which would also drop a row that cannot be kept, without a word
            if model not in self._models:
                who = (model, as_json(identity.as_dict()))
                run.execute("insert into models values (?, ?) on conflict do nothing", who)
            if bodies:
                run.executemany("insert into bodies values (?, ?) on conflict do nothing", list(bodies.items()))
            run.executemany(KEEP, rows)
            self._claims.settle(run, [row[0] for row in rows])
        self._models.add(model)

    def _row(self, entry: Entry, model: str, now: float) -> tuple[Any, ...]:
        key, usage, cost = self.own(entry.key), entry.usage, entry.cost_usd
        said = checksum(key, str(entry.reply).encode(), usage, cost)
        paid = (usage.input_tokens, usage.output_tokens, cost)
        return (key, model, entry.kind, entry.request, entry.reply, *paid, now, entry.estimated, said)

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
            self._claims.settle(run, [row[0] for row in rows])

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

    def close(self) -> None:
        """Release all claims and close the file; what was damaged is told."""
        self._claims.close()
        super().close()
        if self.damaged:
            several = self.damaged != 1
            warnings.warn(
                f"{self.path}: {self.damaged:,} stored {'replies were' if several else 'reply was'} damaged and "
                f"removed, so {'their calls are' if several else 'its call is'} made again. goldless journal check "
                "looks for more",
                stacklevel=2,
            )
            self.damaged = 0

    def own(self, key: str) -> str:
        """The key of a call on this occasion."""
        return content_hash(self.occasion, key) if self.occasion else key


def model_hash(identity: ModelIdentity) -> str:
    """A short hash of a model's identity."""
    settings = tuple(sorted(identity.settings.items()))
    return _model_hash(identity.provider, identity.name, identity.revision, identity.tokenizer, settings)


@functools.lru_cache(maxsize=256)
def _model_hash(provider: str, name: str, revision: str, tokenizer: str, settings: tuple[tuple[str, str], ...]) -> str:
    # asked for several times a call: a fast model is slowed down by computing it anew
    return content_hash(ModelIdentity(provider, name, revision, tokenizer, dict(settings)).as_dict())[:16]
