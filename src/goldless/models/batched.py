"""A chat model whose calls are handed to its provider as batches, at a lower price, and answered later.

A call without a reply in the journal is put aside as *waiting*. When the run has asked everything it can ask now, what
waits is sent; a later run of the same command first collects what has been answered, and goes on from there.

Which calls are out is kept in the journal's file. A call is claimed before its batch is sent, so that no other process
and no later run sends it again, by a batch or by itself. A batch whose sending was cut off has no id: nobody knows
whether it arrived, and only the user may send its calls again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import orjson

from goldless.errors import GoldlessError, UserError, WaitingError
from goldless.models.interface import ChatRequest, Message, NotSentError, Usage
from goldless.models.journal import Entry, Journal, Kept
from goldless.models.journalled import (
    OVER_BUDGET,
    ByKey,
    JournalledModel,
    Reply,
    Request,
    chat_as_json,
    read_chat,
)
from goldless.models.usage import Aside, Ledger, most_chat_usage
from goldless.records import CallFailure

if TYPE_CHECKING:
    from goldless.models.http_api.batches import BatchingModel

WAITING = CallFailure("waiting", "in a batch, not answered yet", attempts=0)


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
        self, provider: str, model: str, calls: Mapping[str, ChatRequest], reserved_usd: Mapping[str, float] | None
    ) -> tuple[str, list[str]]:
        """A new label, and those calls that are in no other batch; the label is kept only if there are any."""
        label, taken, now = uuid.uuid4().hex[:12], [], time.time()
        with self._journal.transaction() as run:
            for key, request in calls.items():
                row = (key, key, label, orjson.dumps(request).decode())
                if run.execute("insert into batch_calls values (?, ?, ?, ?) on conflict do nothing", row).rowcount:
                    taken.append(key)
            if taken:
                usd = None if reserved_usd is None else sum(reserved_usd[key] for key in taken)
                batch = (label, provider, model, self._journal.occasion, usd, now)
                run.execute("insert into batches values (?, null, ?, ?, ?, ?, ?)", batch)
                run.executemany("insert into attempts values (?, ?)", [(key, now) for key in taken])
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


class BatchedChat(JournalledModel):
    """A model that asks by batches for texts that the journal does not have."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(model, journal, ledger, replicate=replicate)
        self._batching = batching(model)
        self._book = BatchBook(journal)
        self._pending: dict[str, tuple[ChatRequest, Aside]] = {}  # calls to be sent, with what is reserved for each
        self._out: dict[str, BatchOut] = {}  # calls in batches that are not answered yet
        self._collected: dict[str, Usage] = {}
        """Calls that a batch has answered since the last run, with what they are charged for, if it says so."""
        self._failed: dict[str, CallFailure] = {}
        """Calls that a batch answered with a failure; they are sent again by another run."""
        self._put_off: set[str] = set()  # calls of this run that wait to be sent or answered; shared with replicas
        self.waiting: dict[str, BatchOut] = {}  # batches by label that have calls of this run

    @property
    def waits(self) -> bool:
        return bool(self._put_off)

    async def collect(self) -> None:
        """Keep and book the replies of this model's batches that have ended, and reserve what the others may cost.

        Raises UserError for a batch that is gone, or of which nobody knows whether it was sent.
        """
        short = self.identity.short
        for batch in self._book.out():
            if (batch.provider, batch.model, batch.occasion) != (self.identity.provider, short, self._journal.occasion):
                continue
            if batch.id is None:
                raise UserError(
                    f"a batch of {batch.calls:,} calls to {short} was being sent when the process ended; whether it "
                    f"arrived is not known, so it is not sent again. If {batch.provider} does not list it: "
                    f"goldless journal batches --forget {batch.label}"
                )
            calls = self._book.calls(batch.label)
            requests = {key: _request(**json.loads(said)) for key, said in calls.items()}
            found = await self._batching.batch_replies(batch.id, requests)
            if found is None:
                self._out |= dict.fromkeys(calls, batch)
                self.ledger.reserve(batch.reserved_usd or 0.0)
                continue
            for key, reply in found.items():
                most = most_chat_usage(self._model, requests[key])
                aside = Aside(most, most, 0.0)
                self.ledger.reserve(aside.usd)
                if isinstance(reply, CallFailure):
                    failed = (key, reply, self.ledger.book_unkept(aside, reply.charged))
                    self._journal.record(self.identity, failures=[failed])
                    self._failed[key] = reply
                else:
                    charge = self.ledger.book(aside, reply.usage)
                    self._journal.record(self.identity, [Entry(key, "chat", calls[key], chat_as_json(reply), *charge)])
                    self._collected[key] = Usage() if charge.estimated else charge.usage
            # what a batch did not get to before it expired or was cancelled is in no batch from here on
            self._book.release(batch.label)

    def _known(self, key: str, kept: Kept) -> Reply:
        """A reply that the journal has; one that was collected now is this run's."""
        if key not in self._collected:
            return super()._known(key, kept)
        return replace(read_chat(json.loads(kept.reply)), usage=self._collected.pop(key))

    async def _ask(self, asked: Mapping[str, Request], deliver: ByKey) -> list[str]:
        texts = {key: request for key, request in asked.items() if isinstance(request, ChatRequest)}
        deliver({key: self._put_aside(key, request) for key, request in texts.items()})
        return await super()._ask({key: request for key, request in asked.items() if key not in texts}, deliver)

    def _put_aside(self, key: str, request: ChatRequest) -> CallFailure:
        if key in self._failed:
            return self._failed[key]
        if key in self._out:
            self.waiting[self._out[key].label] = self._out[key]
        elif key not in self._pending:
            # nothing in progress will return a reservation: what does not fit now is not sent
            aside = self.ledger.set_aside(most_chat_usage(self._model, request))
            if aside is None:
                return OVER_BUDGET
            self._pending[key] = (request, aside)
        self._put_off.add(key)
        return WAITING

    async def submit(self) -> None:
        """Send what waits. Raises UserError if the provider does not take it."""
        pending, self._pending = self._pending, {}
        model, book = self._batching, self._book
        lines = {key: model.batch_line(key, request) for key, (request, _) in pending.items()}
        for keys in chunks(lines, most_calls=model.most_batch_calls, most_bytes=model.most_batch_bytes):
            usd = None if self.ledger.price is None else {key: pending[key][1].usd for key in keys}
            calls = {key: pending[key][0] for key in keys}
            label, mine = book.claim(self.identity.provider, self.identity.short, calls, usd)
            if mine:
                try:
                    book.sent(label, await model.send_batch([lines[key] for key in mine]))
                except NotSentError:
                    book.release(label)
                    raise
            theirs = set(keys) - set(mine)  # of another process, which was faster
            for batch in book.out():
                if batch.label == label or theirs & set(book.calls(batch.label)):
                    self.waiting[batch.label] = batch


def _request(messages: Sequence[Mapping[str, Any]], choices: Sequence[str], **others: Any) -> ChatRequest:
    """A request from its JSON."""
    return ChatRequest(tuple(Message(**message) for message in messages), choices=tuple(choices), **others)


def batching(model: Any) -> BatchingModel:
    """The model, if its provider has a batch API. Raises UserError."""
    if hasattr(model, "send_batch"):
        return cast("BatchingModel", model)
    raise UserError(
        f"{model.identity.short} has no batch API. --batch works with openai: and anthropic: models; leave it out, or "
        "choose one of those"
    )


def raise_if_waiting(models: Sequence[BatchedChat], cause: GoldlessError | None = None) -> None:
    """Raise WaitingError if any batch of these models is out."""
    out = [batch for model in models for batch in model.waiting.values()]
    if any(model.waits for model in models):
        calls = sum(batch.calls for batch in out)
        prices = [batch.reserved_usd for batch in out]
        cost = "" if None in prices else f", at most {sum(usd or 0.0 for usd in prices):.2f} USD"
        raise WaitingError(
            f"{calls:,} calls are in {len(out)} batch{'es' * (len(out) != 1)}{cost}. Providers answer within 24 hours. "
            "Run the same command again to collect the replies and go on; goldless journal batches shows what is out"
        ) from cause
