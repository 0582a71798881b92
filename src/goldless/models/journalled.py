"""Models whose every call goes through the journal and the ledger, at once or handed to the provider in a batch.

In a batch, calls cost less and are answered later. A call without a reply in the journal is put aside as *waiting*.
When the run has asked everything it can ask now, what waits is sent; a later run of the same command first collects
what has been answered, and goes on from there. A call is claimed in the journal's file before it is made, alone or in a
batch, so that no other process and no later run makes it again; what another has claimed or asked meanwhile stays for
the next run. A batch whose sending was cut off has no id: nobody knows whether it arrived, and only the user may send
its calls again.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import orjson
from pydantic import TypeAdapter

from goldless.errors import GoldlessError, UserError, WaitingError, kind_and_place
from goldless.models.interface import (
    ChatReply,
    ChatRequest,
    Deliver,
    ModelIdentity,
    NotSentError,
    QueueFullError,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    WrappedModel,
    check_score_reply,
    content_hash,
    finished,
)
from goldless.models.journal import (
    Call,
    Journal,
    StoredReply,
    context_hash,
    fast_hash,
    introduce,
    model_hash,
    read_identity,
)
from goldless.models.marks import mark_of
from goldless.models.usage import Charge, Ledger, MoreToReserveError, Reservation, Reservations, most_usage
from goldless.records import CallFailure

if TYPE_CHECKING:
    from goldless.models.http_api.model import BatchingModel

IN_BATCH = CallFailure(
    "waiting",
    "in a pending batch, so it is not asked again. Collect it by the command with --batch, or see "
    "goldless journal show",
    attempts=0,
)
WAITING = CallFailure("waiting", "in a batch, not answered yet", attempts=0)
OVER_BUDGET = CallFailure("budget", "not sent: it could have exceeded the budget", attempts=0)
QUEUE_MEMORY_SECONDS = 7 * 24 * 3600.0
"""Time for which batches stay smaller after one that did not fit into its provider's queue."""
Request = ScoreRequest | ChatRequest
Reply = TokenLogprobs | ChatReply | CallFailure
ByKey = Callable[[Mapping[str, Any]], None]  # takes replies by the keys of their calls


@dataclasses.dataclass(slots=True)
class CacheHits:
    """Replies taken from the journal, with what they cost when their calls were made."""

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Of the calls, those whose price was not known."""

    def __add__(self, other: CacheHits) -> CacheHits:
        return CacheHits(self.calls + other.calls, self.cost_usd + other.cost_usd, self.unpriced + other.unpriced)


class JournalledModel(WrappedModel):
    """A model that calls only for what the journal does not have, each distinct call once."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(model)
        self._journal = journal
        self.replicate = replicate  # every replicate of a request is a call of its own, paid for once
        self.ledger = ledger
        self.reused = CacheHits()  # replies that the journal had before this run
        self.counted: set[str] = set()

    def replica(self, replicate: int) -> Self:
        """The same model with other calls of the same requests; what waits is shared."""
        other = copy.copy(self)
        other.replicate, other.reused, other.counted = replicate, CacheHits(), set()
        return other

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Deliver what the journal has, then call for the rest, each distinct call once."""
        model = model_hash(self.identity)
        places: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            places.setdefault(self._on_occasion(score_key(model, request, replicate=self.replicate)), []).append(i)
        await self._replies(
            {key: requests[found[0]] for key, found in places.items()},
            lambda replies: deliver({i: reply for key, reply in replies.items() for i in places[key]}),
        )

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        key = self._on_occasion(chat_key(self.identity, request, replicate=self.replicate))
        replies: dict[str, ChatReply | CallFailure] = {}
        await self._replies({key: request}, replies.update)
        return finished(replies[key])

    def mark(self, question: str) -> str:
        """Return the mark of a question, by the journal's secret."""
        return mark_of(self._journal.secret, question)

    def _on_occasion(self, key: str) -> str:
        return content_hash(self._journal.occasion, key) if self._journal.occasion else key

    async def _replies(self, asked: Mapping[str, Request], deliver: ByKey) -> None:
        """Deliver what the journal has, then call for the rest; requests and replies by key."""
        wanted = self._deliver_known(list(asked), deliver)
        while wanted:
            elsewhere = await self._ask({key: asked[key] for key in wanted}, deliver)
            # the same may be asked side by side, such as the marginal of an answer that is always the same
            await self._journal.freed(elsewhere)
            wanted = self._deliver_known(elsewhere, deliver)

    def _deliver_known(self, keys: Sequence[str], deliver: ByKey) -> list[str]:
        found = self._journal.find(keys) if keys else {}
        if found:
            deliver({key: self._known(key, kept) for key, kept in found.items()})
        return [key for key in keys if key not in found]

    def _known(self, key: str, kept: StoredReply) -> Reply:
        usage, cost_usd, estimated = kept.charge
        if key not in self.counted:
            self.counted.add(key)
            self.reused += CacheHits(1, cost_usd or 0.0, cost_usd is None)
        if isinstance(kept.reply, TokenLogprobs):
            return kept.reply
        return dataclasses.replace(kept.reply, earlier_usage=None if estimated else usage)

    async def _ask(self, asked: Mapping[str, Request], deliver: ByKey) -> list[str]:
        """Make calls and deliver their replies; returns those that others are making or have made."""
        elsewhere: list[str] = []
        while asked:
            with Reservations(self.ledger) as aside:
                affordable = {key for key, request in asked.items() if aside.set_aside(key, self._most(request))}
                if not affordable:
                    if await self.ledger.settled():
                        return [*elsewhere, *asked]  # what was paid for meanwhile may be among them
                    deliver(dict.fromkeys(asked, OVER_BUDGET))
                    break
                async with self._journal.claim([key for key in asked if key in affordable]) as mine:
                    others = [key for key in asked if key in affordable - mine]
                    for key in others:
                        aside.book_unkept(key, None)
                    in_batches = self._journal.in_batches(others)
                    deliver(dict.fromkeys(in_batches, IN_BATCH))
                    elsewhere += [key for key in others if key not in in_batches]
                    try:
                        await self._call({key: asked[key] for key in asked if key in mine}, aside, deliver)
                    except MoreToReserveError:
                        for key in mine:  # a single text, which was not taken
                            aside.book_unkept(key, None)
                        continue
            asked = {key: request for key, request in asked.items() if key not in affordable}
        return elsewhere

    def _most(self, request: Request) -> Usage:
        return most_usage(request, getattr(self._model, "thinking_tokens", 0))

    async def _call(self, asked: Mapping[str, Request], aside: Reservations, deliver: ByKey) -> None:
        """Ask the model, and deliver what it says once that is kept; what cannot be kept is a failure."""
        scores = {key: request for key, request in asked.items() if isinstance(request, ScoreRequest)}
        keys, requests = list(scores), list(scores.values())

        def keep(replies: Mapping[int, ScoreReply]) -> None:
            checked = {keys[i]: check_score_reply(requests[i], reply) for i, reply in replies.items()}
            self._journal.record(self.identity, self._booked(checked, asked, aside))
            deliver(checked)

        if scores:
            aside.send(scores)
            await self._model.score(requests, keep)
        for key, request in asked.items():
            if isinstance(request, ChatRequest):
                aside.send([key])
                reply = await self._chat(request)
                booked = list(self._booked({key: reply}, asked, aside))
                await self._journal.together(partial(self._journal.record, self.identity, booked))
                deliver({key: reply})

    async def _chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The model's reply; a failure if the journal cannot keep it, such as a text that is not Unicode, or NaN."""
        try:
            reply = await self._model.chat(request)
            if isinstance(reply, ChatReply):
                written, chosen = reply.token_logprobs or (), reply.choice_logprobs or {}
                "".join((reply.text, *(token for token, _ in written))).encode()
                if not all(map(math.isfinite, (*(value for _, value in written), *chosen.values()))):
                    raise ValueError("a log-probability is not a finite number")  # noqa: TRY301
        except GoldlessError:
            raise  # no other call would fare better
        except Exception as error:  # noqa: BLE001 - whatever a package's model does
            return CallFailure("bad_reply", f"the reply cannot be read ({kind_and_place(error)})", charged=(0, 0))
        return reply

    def _booked(
        self, replies: Mapping[str, Reply], asked: Mapping[str, Request], aside: Reservations
    ) -> Iterator[Call]:
        for key, reply in replies.items():
            if isinstance(reply, CallFailure):
                yield key, asked[key], reply, aside.book_unkept(key, reply.charged)
            else:
                self.counted.add(key)
                yield key, asked[key], reply, aside.book(key, reply.usage)


# --- by batches ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
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


def batches_out(journal: Journal, model: str | None = None) -> list[BatchOut]:
    """The batches in a journal's file, or those of a model by its hash, not collected yet, oldest first."""
    query = (
        "select label, id, identity, model, occasion, (select count(*) from claims where owner = label), reserved_usd, "
        "submitted_at from batches left join models using (model) where (?1 is null or model = ?1) "
        "and typeof(label) = 'text' and typeof(id) in ('text', 'null') and typeof(model) = 'text' "
        "and typeof(reserved_usd) in ('real', 'null') and typeof(submitted_at) = 'real' order by submitted_at, label"
    )
    out: list[BatchOut] = []
    for label, name, written, hashed, *sent in journal.rows(query, model):
        identity = read_identity(written) or ModelIdentity("", hashed)
        out.append(BatchOut(label, name, identity.provider, identity.short, *sent))
    return out


def forget_batch(journal: Journal, label: str) -> int:
    """Forget a batch: its calls may be sent again. Returns their number."""
    with journal.transaction() as run:
        calls = run.execute("delete from claims where owner = ?", (label,)).rowcount
        run.execute("delete from batches where label = ?", (label,))
    return int(calls)


def chunks(lines: Mapping[str, bytes], *, most_calls: int, most_bytes: int) -> list[list[str]]:
    """The keys in groups that a provider takes as one batch."""
    groups: list[list[str]] = []
    size = 0
    for key, line in lines.items():
        if not groups or len(groups[-1]) >= most_calls or size + len(line) > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(key)
        size += len(line) + 1
    return groups


class BatchedChat(JournalledModel):
    """A model that asks by batches for texts that the journal does not have."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(model, journal, ledger, replicate=replicate)
        self._batching = batching(model)
        self._pending: dict[str, tuple[ChatRequest, float]] = {}  # calls to be sent, with the cost committed for each
        self._out: set[str] = set()  # calls in batches that are not answered yet
        self._collected: dict[str, Usage | CallFailure] = {}
        """Calls answered since the last run: what they are charged for, if the batch says so, or how they failed."""
        self._put_off: set[str] = set()  # calls of this run that wait to be sent or answered; shared with replicas

    @property
    def waits(self) -> bool:
        return bool(self._put_off)

    @property
    def unsent(self) -> int:
        """Calls that wait to be sent."""
        return len(self._pending)

    def waiting(self) -> list[BatchOut]:
        """The batches of this model that are out."""
        out = batches_out(self._journal, self._model_hash())
        return [batch for batch in out if batch.occasion == self._journal.occasion]

    def _model_hash(self) -> str:
        return model_hash(writer_identity(self.identity))

    async def collect(self) -> None:
        """Keep and book the replies of this model's batches that have ended, and reserve what the others may cost.

        Raises UserError for a batch that is gone, or of which nobody knows whether it was sent.
        """
        read_request = TypeAdapter(ChatRequest).validate_json
        for batch in self.waiting():
            if batch.id is None:
                raise UserError(
                    f"a batch of {batch.calls:,} calls to {batch.model} was being sent when the process ended; whether "
                    f"it arrived is not known, so it is not sent again. If {batch.provider} does not list it: "
                    f"goldless journal clear --batch {batch.label}"
                )
            calls = self._journal.rows("select key, request from claims where owner = ?", batch.label)
            requests = {key: read_request(said) for key, said in calls}
            try:
                replies = await self._batching.batch_replies(batch.id, requests)
            except QueueFullError as full:
                # which is in the failures once for each call: half as many are sent at once from here on
                refused = CallFailure("waiting", str(full), attempts=0)
                self._journal.record(self.identity, [(key, requests[key], refused, None) for key in requests])
                replies = {}
            if replies is None:
                self._out |= set(requests)
                self.ledger.commit(batch.reserved_usd or 0.0)
                continue
            for key, reply in replies.items():
                most = self._most(requests[key])
                sent = Reservation(most, most, 0.0)  # set aside by the run that sent it
                charge: Charge | None = None
                if not isinstance(reply, CallFailure):
                    charge = self.ledger.book(sent, reply.usage, kept=True)
                    self.counted.add(key)
                    self._collected[key] = Usage() if charge.estimated else charge.usage
                else:
                    if reply.charged is not None:
                        charge = self.ledger.book(sent, Usage(*reply.charged), kept=False)
                    self._collected[key] = reply  # it is sent again by another run
                self._journal.record(self.identity, [(key, requests[key], reply, charge)])
            # what a batch did not get to before it expired or was cancelled is in no batch from here on
            forget_batch(self._journal, batch.label)

    def _known(self, key: str, kept: StoredReply) -> Reply:
        """A reply that the journal has; one that was collected now is this run's."""
        usage = self._collected.pop(key, None)
        if not isinstance(usage, Usage):
            return super()._known(key, kept)
        return dataclasses.replace(cast("ChatReply", kept.reply), usage=usage)

    async def _ask(self, asked: Mapping[str, Request], deliver: ByKey) -> list[str]:
        texts = {key: request for key, request in asked.items() if isinstance(request, ChatRequest)}
        for key, request in texts.items():
            reply = self._collected.get(key)
            if not isinstance(reply, CallFailure) and key not in self._out and key not in self._pending:
                # nothing in progress will return a reservation: what does not fit now is not sent
                usd = self.ledger.most_usd(self._most(request))
                if self.ledger.affords(usd):
                    self.ledger.commit(usd)
                    self._pending[key] = (request, usd)
                else:
                    reply = OVER_BUDGET
            if not isinstance(reply, CallFailure):
                self._put_off.add(key)
                reply = WAITING
            deliver({key: reply})
        return await super()._ask({key: request for key, request in asked.items() if key not in texts}, deliver)

    async def submit(self) -> None:
        """Send what waits, as far as the provider's queue has room. Raises UserError if the provider does not take it.

        What is not sent stays for the next run: another process is asking it or has asked it, or the queue is full.
        """
        model = self._batching
        lines = {key: model.batch_line(key, request) for key, (request, _) in self._pending.items()}
        most_calls, most_batches = model.most_batch_calls, len(lines)
        if (refused := self._refused_calls()) is not None:  # one after the other, and fewer calls in each
            most_calls = min(most_calls, max(1, refused // 2))
            most_batches = 0 if self.waiting() else 1
        try:
            for keys in chunks(lines, most_calls=most_calls, most_bytes=model.most_batch_bytes)[:most_batches]:
                await self._send({key: lines[key] for key in keys})
        except QueueFullError:
            return
        finally:
            for _, usd in self._pending.values():
                self.ledger.commit(-usd)

    def _refused_calls(self) -> int | None:
        """The calls of the last batch that did not fit into the provider's queue."""
        query = (
            "select count(*) from failures where model = ? and kind = 'waiting' and created_at > ? "
            "group by created_at order by created_at desc limit 1"
        )
        counts = self._journal.rows(query, model_hash(self.identity), time.time() - QUEUE_MEMORY_SECONDS)
        return None if not counts else int(counts[0][0])

    async def _send(self, lines: Mapping[str, bytes]) -> None:
        """Claim calls and send them as a batch, without those that others have claimed or asked."""
        journal, label = self._journal, uuid.uuid4().hex[:12]
        journal.others_make(list(lines))  # frees what killed processes have claimed
        requests = {key: orjson.dumps(self._pending[key][0]).decode() for key in lines}
        with journal.transaction() as run:
            mine = journal.claim_in(run, requests, label, None)
            if not mine:
                return
            usd = None if self.ledger.price is None else sum(self._pending[key][1] for key in mine)
            batch = (label, introduce(run, writer_identity(self.identity)), journal.occasion, usd, time.time())
            run.execute("insert into batches values (?, null, ?, ?, ?, ?)", batch)
        committed = {key: self._pending.pop(key) for key in mine}
        try:
            name = await self._batching.send_batch([line for key, line in lines.items() if key in mine])
        except NotSentError:
            self._pending |= committed
            forget_batch(journal, label)
            raise
        with journal.transaction() as run:
            run.execute("update batches set id = ? where label = ?", (name, label))


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
    waiting = [model for model in models if model.waits]
    if not waiting:
        return
    out = [batch for model in waiting for batch in model.waiting()]
    calls, prices = sum(batch.calls for batch in out), [batch.reserved_usd for batch in out]
    cost = "" if None in prices else f", at most {sum(usd or 0.0 for usd in prices):.2f} USD"
    message = f"{calls:,} calls are in {len(out)} batch{'es' * (len(out) != 1)}{cost}. "
    if unsent := sum(model.unsent for model in waiting):
        message += f"{unsent:,} wait until the provider's queue has room or another process has made them. "
    raise WaitingError(
        f"{message}Providers answer within 24 hours. Run the same command again to collect the replies and resume; "
        "goldless journal show lists them"
    ) from cause


# --- keys, requests and replies as JSON ------------------------------------------------------------------------------


NEUTRAL_MARK = "MARK"
"""Replaces a question's mark in the journal's key."""


def writer_identity(identity: ModelIdentity) -> ModelIdentity:
    """A model's identity as far as it changes what it writes: how a server returns log-probabilities does not."""
    if "dialect" not in identity.settings:
        return identity
    settings = {name: value for name, value in identity.settings.items() if name not in {"dialect", "layout"}}
    return dataclasses.replace(identity, tokenizer="", settings=settings)


def chat_key(identity: ModelIdentity, request: ChatRequest, *, replicate: int = 0) -> str:
    """The journal's key of a call for a text."""
    identity = writer_identity(identity)
    # not by dataclasses.asdict, which copies every text
    data: dict[str, Any] = {field.name: getattr(request, field.name) for field in dataclasses.fields(ChatRequest)}
    mark = data.pop("mark")
    data["messages"] = [
        {"role": message.role, "content": message.content.replace(mark, NEUTRAL_MARK) if mark else message.content}
        for message in request.messages
    ]
    for number in ("temperature", "seed"):  # written as json writes them
        data[number] = orjson.Fragment(json.dumps(data[number]))
    return fast_hash("chat", model_hash(identity), data, replicate)


def score_key(model: str, request: ScoreRequest, *, replicate: int = 0) -> str:
    """The journal's key of a scoring call."""
    again = (replicate,) if replicate else ()
    return fast_hash("score", model, context_hash(request.context), request.target, *again)
