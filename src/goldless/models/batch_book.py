"""Batches that are out: which calls were handed to a provider to be answered later, kept in the journal's file.

A call is claimed before its batch is sent, so that no other process and no later run sends it again, by a batch or by
itself. A batch whose sending was cut off has no id: nobody knows whether it arrived, and only the user may send its
calls again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from goldless.models.journal import Journal


@dataclass(frozen=True, slots=True)
class BatchOut:
    """One batch that was sent, or was being sent when its process ended."""

    label: str
    """Our name for it."""
    id: str | None
    """The provider's name for it; None: it is not known whether it arrived."""
    provider: str
    model: str
    """The model's short name."""
    occasion: str
    """The journal's occasion on which it was sent."""
    calls: int
    reserved_usd: float | None
    """The most that it may cost; None: price unknown."""
    submitted_at: float
    """Seconds since 1970."""


class BatchBook:
    """The batches in one journal's file."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def out(self) -> list[BatchOut]:
        """The batches whose replies were not collected yet, oldest first."""
        query = (
            "select label, id, provider, model, occasion, "
            "(select count(*) from batch_calls c where c.label = b.label), "
            "reserved_usd, submitted_at from batches b order by submitted_at, label"
        )
        return [BatchOut(*row) for row in self._journal.rows(query)]

    def calls(self, label: str) -> dict[str, str]:
        """The calls of a batch: requests as JSON by key."""
        return dict(self._journal.rows("select key, request from batch_calls where label = ?", label))

    def claim(
        self, provider: str, model: str, calls: Mapping[str, str], reserved_usd: Mapping[str, float] | None
    ) -> tuple[str, list[str]]:
        """A new label, and those calls that are in no other batch; the label is kept only if there are any."""
        label = uuid.uuid4().hex[:12]
        with self._journal.transaction() as run:
            taken = [
                key
                for key, request in calls.items()
                if run.execute(
                    "insert into batch_calls values (?, ?, ?, ?) on conflict do nothing",
                    (self._journal.own(key), key, label, request),
                ).rowcount
            ]
            if taken:
                usd = None if reserved_usd is None else sum(reserved_usd[key] for key in taken)
                row = (label, provider, model, self._journal.occasion, usd, time.time())
                run.execute("insert into batches values (?, null, ?, ?, ?, ?, ?)", row)
                attempts = [(self._journal.own(key), time.time()) for key in taken]
                run.executemany("insert into attempts values (?, ?)", attempts)
        return label, taken

    def sent(self, label: str, batch: str) -> None:
        """Keep the provider's name for a batch that it has accepted."""
        with self._journal.transaction() as run:
            run.execute("update batches set id = ? where label = ?", (batch, label))

    def release(self, label: str) -> int:
        """Forget a batch: its calls may be sent again. Returns their number."""
        with self._journal.transaction() as run:
            calls = run.execute("delete from batch_calls where label = ?", (label,)).rowcount
            run.execute("delete from batches where label = ?", (label,))
        return int(calls)


def chunks(lines: Mapping[str, bytes], *, most_calls: int, most_bytes: int) -> Iterable[Sequence[str]]:
    """The keys in groups that a provider takes as one batch."""
    group: list[str] = []
    size = 0
    for key, line in lines.items():
        if group and (len(group) >= most_calls or size + len(line) > most_bytes):
            yield group
            group, size = [], 0
        group.append(key)
        size += len(line) + 1
    if group:
        yield group
