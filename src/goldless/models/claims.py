"""Claims on calls: which process is making a call now, so that no other process makes it too.

A claim is valid while its owner lives. Every owner counts up its ``beats`` while it has claims; whoever waits for one
watches that count by its own clock, so clocks are never compared and setting one back changes nothing. On the same
machine an owner whose process is gone is seen at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from sqlite3 import Connection

import anyio

from goldless.errors import UserError
from goldless.models.journal_file import JournalFile
from goldless.processes import is_running, machine

BEAT_SECONDS = 5.0
LEASE_SECONDS = 30.0
"""An owner whose beats did not change for so long has lost its claims."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.02, 1.0
"""Between two looks at a call that another process is making."""
CLAIM = (
    "insert into claims select :key, :owner where not exists (select 1 from calls where key = :key) "
    "and not exists (select 1 from batch_calls where own = :key) on conflict do nothing"
)
"""A call in a batch that is out is made, too."""
Owner = tuple[str, str, int, int]
"""Name, machine, process id and beats."""


class Claims:
    """The claims of one open journal."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._owner = uuid.uuid4().hex
        self._held: set[str] = set()
        self._beating: threading.Thread | None = None
        self._closed = threading.Event()

    def take(self, keys: Sequence[str]) -> set[str]:
        """Claim calls and note that they are about to be made, but for those with a reply, a claim, or in a batch."""
        now = time.time()
        with self._file.transaction() as run:
            if self._beating is None:
                self._enter(run)
            taken = [key for key in keys if run.execute(CLAIM, {"key": key, "owner": self._owner}).rowcount]
            run.executemany("insert into attempts values (?, ?)", [(key, now) for key in taken])
        self._held.update(taken)
        if self._beating is None:
            self._beating = threading.Thread(target=self._beat, name="claims", daemon=True)
            self._beating.start()
        return set(taken)

    def settle(self, run: Connection, keys: Collection[str]) -> None:
        """Release claims in a transaction that keeps their replies or failures."""
        mine = self._held.intersection(keys)
        run.executemany("delete from claims where key = ? and owner = ?", [(key, self._owner) for key in mine])
        self._held -= mine

    def release(self, keys: Collection[str]) -> None:
        """Release what is still claimed: these calls ended without reply or failure."""
        if not self._held.isdisjoint(keys):
            # a claim that cannot be released ends with this process
            with contextlib.suppress(UserError), self._file.transaction() as run:
                self.settle(run, keys)

    async def freed(self, keys: Sequence[str]) -> None:
        """Wait until no living owner has a claim on any of these calls: each has a reply now, or may be claimed."""
        seen: dict[str, tuple[int, float]] = {}
        wait = FIRST_WAIT_SECONDS
        while owners := self._owners(keys):
            gone = [owner for owner in owners if self._is_gone(owner, seen)]
            for owner in gone:
                self._bury(owner)
            if len(gone) < len(owners):
                await anyio.sleep(wait)
                wait = min(LONGEST_WAIT_SECONDS, wait * 1.5)

    def close(self) -> None:
        """Release everything."""
        self._closed.set()
        if self._beating is not None:
            with contextlib.suppress(UserError), self._file.transaction() as run:
                _remove(run, self._owner)

    def _enter(self, run: Connection) -> None:
        """Write this owner's row, and remove those of processes that ended without doing so."""
        for owner, pid in run.execute("select owner, pid from owners where machine = ?", (machine(),)).fetchall():
            if not is_running(pid):
                _remove(run, owner)
        row = (self._owner, machine(), os.getpid())
        run.execute("insert into owners values (?, ?, ?, 0) on conflict do nothing", row)

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS):
            if self._held:
                with contextlib.suppress(UserError), self._file.transaction() as run:
                    if not run.execute("update owners set beats = beats + 1 where owner = ?", (self._owner,)).rowcount:
                        self._enter(run)  # this process slept, and another took over

    def _owners(self, keys: Sequence[str]) -> set[Owner]:
        query = (
            "select owner, coalesce(machine, ''), coalesce(pid, 0), coalesce(beats, 0) from claims "
            "left join owners using (owner) where key in ({marks})"
        )
        return set(self._file.rows_of(query, keys))

    def _is_gone(self, owner: Owner, seen: dict[str, tuple[int, float]]) -> bool:
        name, where, pid, beats = owner
        if not where or (where == machine() and not is_running(pid)):
            return True
        now = anyio.current_time()
        last, since = seen.setdefault(name, (beats, now))
        if last != beats:
            seen[name] = beats, now
        return last == beats and now - since > LEASE_SECONDS and name != self._owner

    def _bury(self, owner: Owner) -> None:
        name, _, _, beats = owner
        with self._file.transaction() as run:
            if not run.execute("select 1 from owners where owner = ? and beats != ?", (name, beats)).fetchone():
                _remove(run, name)


def _remove(run: Connection, owner: str) -> None:
    run.execute("delete from claims where owner = ?", (owner,))
    run.execute("delete from owners where owner = ?", (owner,))
