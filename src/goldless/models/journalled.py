"""Scorers and chat models whose every call goes through the journal and the ledger."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import anyio
import orjson

from goldless.errors import GoldlessError, kind_and_place
from goldless.models.interface import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Deliver,
    MeasuringModel,
    Message,
    ModelIdentity,
    Scorer,
    ScoreReply,
    ScoreRequest,
    Usage,
    WrappedModel,
    WrappedScorer,
    content_hash,
)
from goldless.models.journal import Entry, Journal, Kept, model_hash
from goldless.models.stored_reply import (
    as_json,
    chat_as_json,
    check_storable,
    logprobs_as_json,
    read_chat,
    read_logprobs,
)
from goldless.models.usage import Aside, Charge, Ledger, most_chat_usage, most_score_usage
from goldless.records import CallFailure

_REQUEST_FIELDS = dataclasses.fields(ChatRequest)
Spread = Callable[[Mapping[str, ScoreReply]], None]
"""Delivers replies by key to every request with that key."""
IN_BATCH = CallFailure(
    "waiting",
    "in a batch that is out, so it is not asked again. Collect it by the command with --batch, or see goldless batches",
    attempts=0,
)
OVER_BUDGET = CallFailure("budget", "not sent: it could have exceeded the budget", attempts=0)


@dataclasses.dataclass(slots=True)
class Reused:
    """Replies taken from the journal, with what they cost when their calls were made."""

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Of the calls, those whose price was not known."""

    def add(self, kept: Kept) -> None:
        """Count a reply."""
        self.calls += 1
        self.cost_usd += kept.cost_usd or 0.0
        self.unpriced += kept.cost_usd is None

    def __add__(self, other: Reused) -> Reused:
        """Both together."""
        return Reused(self.calls + other.calls, self.cost_usd + other.cost_usd, self.unpriced + other.unpriced)

    def __sub__(self, other: Reused) -> Reused:
        """One without the other."""
        return Reused(self.calls - other.calls, self.cost_usd - other.cost_usd, self.unpriced - other.unpriced)


class _Journalled(WrappedModel):
    """A model that calls only for what the journal does not have."""

    def __init__(self, model: Scorer | ChatModel, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(model)
        self._journal = journal
        self.replicate = replicate
        """Every replicate of a request is a call of its own, paid for once."""
        self.ledger = ledger
        self.reused = Reused()
        """Replies taken from the journal."""
        self._under_way: dict[str, anyio.Event] = {}

    def replica(self, replicate: int) -> Self:
        """The same model with other calls of the same requests; what is in progress, or waits, is shared."""
        other = copy.copy(self)
        other.replicate, other.reused = replicate, Reused()
        return other

    def _paid(self, aside: Aside, failure: CallFailure) -> Charge | None:
        """What a failed attempt before another was charged for; the model has booked it."""
        return None if failure.charged is None else self.ledger.charge(aside, Usage(*failure.charged))

    @contextlib.contextmanager
    def _asking(self, keys: Sequence[str]) -> Iterator[None]:
        """During the block, other requests for these calls wait for them."""
        done = anyio.Event()
        self._under_way |= dict.fromkeys(keys, done)
        try:
            yield
        finally:
            for key in keys:
                del self._under_way[key]
            done.set()


class JournalledScorer(_Journalled, WrappedScorer):
    """A scorer that calls only for what the journal does not have."""

    def __init__(self, scorer: Scorer, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(scorer, journal, ledger, replicate=replicate)
        self.scorer = scorer
        """The scorer itself: canaries must not be answered from the journal."""

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Deliver what the journal has, then call for the rest, each distinct call once."""
        model = model_hash(self.identity)
        places: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            places.setdefault(score_key(model, request, replicate=self.replicate), []).append(i)
        asked = {key: requests[found[0]] for key, found in places.items()}

        def spread(replies: Mapping[str, ScoreReply]) -> None:
            if replies:
                deliver({i: reply for key, reply in replies.items() for i in places[key]})

        wanted = self._deliver_known(list(places), spread)
        while wanted:
            # tasks that run side by side may ask the same, such as the marginal of an answer that is always the same
            others = [key for key in wanted if key in self._under_way]
            mine = {key: asked[key] for key in wanted if key not in self._under_way}
            if mine:
                with self._asking(list(mine)):
                    elsewhere = await self._ask(mine, spread)
                    await self._journal.freed(elsewhere)
                    others += elsewhere
            for key in others:
                if key in self._under_way:
                    await self._under_way[key].wait()
            wanted = self._deliver_known(others, spread)

    def _deliver_known(self, keys: Sequence[str], spread: Spread) -> list[str]:
        """Deliver what the journal has; returns the other keys."""
        found = self._journal.find(keys)
        for kept in found.values():
            self.reused.add(kept)
        spread({key: read_logprobs(kept.reply) for key, kept in found.items()})
        return [key for key in keys if key not in found]

    async def _ask(self, asked: Mapping[str, ScoreRequest], spread: Spread) -> list[str]:
        """Make calls and deliver their replies; returns those that other processes are making or have made."""
        elsewhere: list[str] = []
        while asked:
            most = {key: most_score_usage(request) for key, request in asked.items()}
            aside = {key: found for key in asked if (found := self.ledger.set_aside(most[key])) is not None}
            if aside:
                elsewhere += await self._ask_now(asked, aside, spread)
            elif not await self.ledger.settled():
                spread(dict.fromkeys(asked, OVER_BUDGET))
                break
            asked = {key: request for key, request in asked.items() if key not in aside}
        return elsewhere

    async def _ask_now(
        self, asked: Mapping[str, ScoreRequest], aside: Mapping[str, Aside], spread: Spread
    ) -> list[str]:
        mine = self._journal.begin(list(aside))
        keys = [key for key in aside if key in mine]
        elsewhere = [key for key in aside if key not in mine]
        for key in elsewhere:
            self.ledger.settle(aside[key].usd, None)

        def keep(replies: Mapping[int, ScoreReply]) -> None:
            spread(self._keep({keys[i]: reply for i, reply in replies.items()}, asked, aside))

        try:
            if keys:
                await self.scorer.score([asked[key] for key in keys], keep)
        finally:
            self._journal.release(keys)
        return elsewhere

    def _keep(
        self, replies: Mapping[str, ScoreReply], asked: Mapping[str, ScoreRequest], aside: Mapping[str, Aside]
    ) -> dict[str, ScoreReply]:
        """Store replies in the journal, failures separately; returns what to deliver."""
        entries, bodies, failures = [], {}, []
        checked = {key: _checked(asked[key], reply) for key, reply in replies.items()}
        for key, reply in checked.items():
            if isinstance(reply, CallFailure):
                failures.append((key, reply, self.ledger.book_unkept(aside[key], reply.charged)))
                continue
            charge = self.ledger.book(aside[key], reply.usage)
            failures.extend((key, earlier, self._paid(aside[key], earlier)) for earlier in reply.retries)
            context, target = asked[key].context, asked[key].target
            known = context_hash(context)
            if known not in bodies:
                bodies[known] = _written(context)
            request = _written({"context": known, "target": target})
            entries.append(Entry(key, "score", request, logprobs_as_json(reply), *charge))
        if entries:
            self._journal.record(self.identity, entries, bodies)
        if failures:
            self._journal.record_failures(self.identity, failures)
        return checked


class JournalledChat(_Journalled):
    """A chat model that calls only for what the journal does not have."""

    @property
    def context_length(self) -> int | None:
        """Maximum tokens of a request and its reply together, if the model knows."""
        return self._model.context_length if isinstance(self._model, MeasuringModel) else None

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages, if the model can count them."""
        return await self._model.count_tokens(messages) if isinstance(self._model, MeasuringModel) else None

    async def chat(self, request: ChatRequest, *, replicate: int | None = None) -> ChatReply | CallFailure:
        """The reply. A different ``replicate`` is a different call of the same request; None: the model's own."""
        key = chat_key(self.identity, request, replicate=self.replicate if replicate is None else replicate)
        while True:
            if found := self._journal.find([key]):
                return self._known(key, found[key])
            if key in self._under_way:
                await self._under_way[key].wait()
                continue
            with self._asking([key]):
                reply = await self._ask(key, request)
                if reply is not None:
                    return reply
                await self._journal.freed([key])

    def _known(self, key: str, kept: Kept) -> ChatReply:  # noqa: ARG002 - batches know more of some keys
        """A reply that the journal has."""
        self.reused.add(kept)
        return dataclasses.replace(read_chat(kept.reply), earlier_usage=None if kept.estimated else kept.usage)

    async def _ask(self, key: str, request: ChatRequest) -> ChatReply | CallFailure | None:
        """Make the call; None: another process is making it, or has made it."""
        while (aside := self.ledger.set_aside(most_chat_usage(self._model, request))) is None:
            if not await self.ledger.settled():
                return OVER_BUDGET
        if not self._journal.begin([key]):
            self.ledger.settle(aside.usd, None)
            return IN_BATCH if self._journal.in_batch(key) else None
        try:
            return self._kept(key, request, await self._reply(request), aside)
        finally:
            self._journal.release([key])

    def _kept(
        self, key: str, request: ChatRequest, reply: ChatReply | CallFailure, aside: Aside
    ) -> ChatReply | CallFailure:
        """Book and store what a call brought."""
        if isinstance(reply, CallFailure):
            self._journal.record_failures(self.identity, [(key, reply, self.ledger.book_unkept(aside, reply.charged))])
            return reply
        self._keep(key, as_json(request_data(request)), reply, self.ledger.book(aside, reply.usage))
        if reply.retries:
            failures = [(key, failure, self._paid(aside, failure)) for failure in reply.retries]
            self._journal.record_failures(self.identity, failures)
        return reply

    async def _reply(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The model's reply; whatever it raises, or gives that cannot be kept, is a failure of this call only."""
        try:
            reply = await self._model.chat(request)
            if isinstance(reply, ChatReply):
                check_storable(reply)
        except GoldlessError:
            raise  # no other call would fare better
        except Exception as error:  # noqa: BLE001 - whatever a package's model does
            return CallFailure("bad_reply", f"the reply cannot be read ({kind_and_place(error)})", charged=(0, 0))
        return reply

    def _keep(self, key: str, request: str, reply: ChatReply, charge: Charge) -> None:
        """Store a reply and what it cost."""
        self._journal.record(self.identity, [Entry(key, "chat", request, chat_as_json(reply), *charge)])


def _writing(identity: ModelIdentity) -> ModelIdentity:
    """The identity of the writer: how a server returns log-probabilities does not change what it writes."""
    if "dialect" not in identity.settings:
        return identity
    kept = {name: value for name, value in identity.settings.items() if name not in {"dialect", "layout"}}
    return dataclasses.replace(identity, tokenizer="", settings=kept)


def _checked(request: ScoreRequest, reply: ScoreReply) -> ScoreReply:
    """The reply, or a failure if it does not have one finite value per target token."""
    if isinstance(reply, CallFailure):
        return reply
    expected = len(reply.logprobs) if isinstance(request.target, str) else len(request.target)
    if len(reply.logprobs) == expected and all(map(math.isfinite, reply.logprobs)):
        return reply
    return CallFailure(
        "bad_reply",
        f"got {len(reply.logprobs)} values for {expected} tokens, or values that are not numbers",
        charged=(reply.usage.input_tokens, reply.usage.output_tokens),
    )


def chat_key(identity: ModelIdentity, request: ChatRequest, *, replicate: int = 0) -> str:
    """The journal's key of a call for a text."""
    return content_hash("chat", model_hash(_writing(identity)), request_data(request), replicate)


def score_key(model: str, request: ScoreRequest, *, replicate: int = 0) -> str:
    """The journal's key of a scoring call."""
    again = (replicate,) if replicate else ()  # keys of journals written before there were replicates stay valid
    return _hashed("score", model, context_hash(request.context), request.target, *again)


@functools.lru_cache(maxsize=4096)
def context_hash(context: tuple[int, ...] | str) -> str:
    """Hash of a context, which many calls share."""
    return _hashed(context)


def _hashed(*parts: str | int | tuple[int, ...]) -> str:
    """``content_hash`` of text and whole numbers, ten times as fast: every token of every call passes here."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def _written(data: Any) -> str:
    """``as_json`` of text and finite numbers, likewise."""
    return orjson.dumps(data).decode()


def request_data(request: ChatRequest) -> dict[str, Any]:
    """The request as plain data, like ``dataclasses.asdict`` but without copying every text, which is slow."""
    data = {field.name: getattr(request, field.name) for field in _REQUEST_FIELDS}
    data["messages"] = [{"role": message.role, "content": message.content} for message in request.messages]
    return data
