"""Models whose every call goes through the journal and the ledger."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Self

import anyio
import orjson

from goldless.errors import GoldlessError, kind_and_place
from goldless.models.interface import (
    ChatReply,
    ChatRequest,
    Deliver,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    WrappedModel,
    content_hash,
)
from goldless.models.journal import Entry, Failed, Journal, Kept, model_hash
from goldless.models.usage import Aside, Ledger, most_chat_usage, most_score_usage
from goldless.records import CallFailure

IN_BATCH = CallFailure(
    "waiting",
    "in a batch that is out, so it is not asked again. Collect it by the command with --batch, or see "
    "goldless journal batches",
    attempts=0,
)
OVER_BUDGET = CallFailure("budget", "not sent: it could have exceeded the budget", attempts=0)
Request = ScoreRequest | ChatRequest
Reply = TokenLogprobs | ChatReply | CallFailure
ByKey = Callable[[Mapping[str, Any]], None]  # takes replies by the keys of their calls


@dataclasses.dataclass(slots=True)
class Reused:
    """Replies taken from the journal, with what they cost when their calls were made."""

    calls: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Of the calls, those whose price was not known."""

    def __add__(self, other: Reused) -> Reused:
        return Reused(self.calls + other.calls, self.cost_usd + other.cost_usd, self.unpriced + other.unpriced)

    def __sub__(self, other: Reused) -> Reused:
        return self + Reused(-other.calls, -other.cost_usd, -other.unpriced)


class JournalledModel(WrappedModel):
    """A model that calls only for what the journal does not have, each distinct call once."""

    def __init__(self, model: Any, journal: Journal, ledger: Ledger, *, replicate: int = 0) -> None:
        super().__init__(model)
        self._journal = journal
        self.replicate = replicate  # every replicate of a request is a call of its own, paid for once
        self.ledger = ledger
        self.reused = Reused()  # replies taken from the journal
        self._under_way: dict[str, anyio.Event] = {}

    def replica(self, replicate: int) -> Self:
        """The same model with other calls of the same requests; what is in progress, or waits, is shared."""
        other = copy.copy(self)
        other.replicate, other.reused = replicate, Reused()
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

    async def chat(self, request: ChatRequest, *, replicate: int | None = None) -> ChatReply | CallFailure:
        """The reply. A different ``replicate`` is a different call of the same request; None: the model's own."""
        replicate = self.replicate if replicate is None else replicate
        key = self._on_occasion(chat_key(self.identity, request, replicate=replicate))
        replies: dict[str, ChatReply | CallFailure] = {}
        await self._replies({key: request}, replies.update)
        return replies[key]

    def _on_occasion(self, key: str) -> str:
        """The key of a call on the journal's occasion."""
        return content_hash(self._journal.occasion, key) if self._journal.occasion else key

    # --- what the journal has ------------------------------------------------------------------------------------

    async def _replies(self, asked: Mapping[str, Request], deliver: ByKey) -> None:
        """Deliver what the journal has, then call for the rest; requests and replies by key."""
        wanted = self._deliver_known(list(asked), deliver)
        while wanted:
            # tasks that run side by side may ask the same, such as the marginal of an answer that is always the same
            others = [key for key in wanted if key in self._under_way]
            mine = {key: asked[key] for key in wanted if key not in self._under_way}
            if mine:
                done = anyio.Event()
                self._under_way |= dict.fromkeys(mine, done)
                try:
                    elsewhere = await self._ask(mine, deliver)
                    await self._journal.freed(elsewhere)
                    others += elsewhere
                finally:
                    for key in mine:
                        del self._under_way[key]
                    done.set()
            for key in others:
                if key in self._under_way:
                    await self._under_way[key].wait()
            wanted = self._deliver_known(others, deliver)

    def _deliver_known(self, keys: Sequence[str], deliver: ByKey) -> list[str]:
        """Deliver what the journal has; returns the other keys."""
        found = self._journal.find(keys) if keys else {}
        if found:
            deliver({key: self._known(key, kept) for key, kept in found.items()})
        return [key for key in keys if key not in found]

    def _known(self, key: str, kept: Kept) -> Reply:  # noqa: ARG002 - batches know more of some keys
        usage, cost_usd, estimated = kept.charge
        self.reused += Reused(1, cost_usd or 0.0, cost_usd is None)
        said = json.loads(kept.reply)
        if "logprobs" in said:
            return TokenLogprobs(tuple(said["logprobs"]))
        return dataclasses.replace(read_chat(said), earlier_usage=None if estimated else usage)

    # --- what it has not -----------------------------------------------------------------------------------------

    async def _ask(self, asked: Mapping[str, Request], deliver: ByKey) -> list[str]:
        """Make calls and deliver their replies; returns those that other processes are making or have made."""
        elsewhere: list[str] = []
        while asked:
            most = {key: self._most(request) for key, request in asked.items()}
            aside = {key: found for key in asked if (found := self.ledger.set_aside(most[key])) is not None}
            if not aside and not await self.ledger.settled():
                deliver(dict.fromkeys(asked, OVER_BUDGET))
                break
            mine = await self._journal.begin(list(aside)) if aside else set()
            if others := [key for key in aside if key not in mine]:
                for key in others:
                    self.ledger.settle(aside[key].usd, None)
                in_batches = self._journal.in_batches(others)
                deliver(dict.fromkeys(in_batches, IN_BATCH))
                elsewhere += [key for key in others if key not in in_batches]
            if mine:
                try:
                    await self._call({key: asked[key] for key in aside if key in mine}, aside, deliver)
                finally:
                    self._journal.release(mine)
            asked = {key: request for key, request in asked.items() if key not in aside}
        return elsewhere

    def _most(self, request: Request) -> Usage:
        if isinstance(request, ScoreRequest):
            return most_score_usage(request)
        return most_chat_usage(self._model, request)

    async def _call(self, asked: Mapping[str, Request], aside: Mapping[str, Aside], deliver: ByKey) -> None:
        """Ask the model, and deliver what it says once that is kept; what cannot be kept is a failure."""
        scores = {key: request for key, request in asked.items() if isinstance(request, ScoreRequest)}
        keys, requests = list(scores), list(scores.values())

        def keep(replies: Mapping[int, ScoreReply]) -> None:
            found = {keys[i]: _checked(requests[i], reply) for i, reply in replies.items()}
            self._journal.record(self.identity, *self._booked(found, asked, aside))
            deliver(found)

        if scores:
            await self._model.score(requests, keep)
        for key, request in asked.items():
            if isinstance(request, ChatRequest):
                try:
                    reply = await self._model.chat(request)
                    if isinstance(reply, ChatReply):
                        _check_storable(reply)
                except GoldlessError:
                    raise  # no other call would fare better
                except Exception as error:  # noqa: BLE001 - whatever a package's model does
                    reply = CallFailure(
                        "bad_reply", f"the reply cannot be read ({kind_and_place(error)})", charged=(0, 0)
                    )
                booked = self._booked({key: reply}, asked, aside)
                await self._journal.together(partial(self._journal.record, self.identity, *booked))
                deliver({key: reply})

    def _booked(
        self, replies: Mapping[str, Reply], asked: Mapping[str, Request], aside: Mapping[str, Aside]
    ) -> tuple[list[Entry], list[Failed], dict[str, str]]:
        """What the journal is to keep of replies: the good ones, the failures, and long parts that requests share."""
        entries: list[Entry] = []
        failures: list[Failed] = []
        bodies: dict[str, str] = {}
        for key, reply in replies.items():
            if isinstance(reply, CallFailure):
                failures.append((key, reply, self.ledger.book_unkept(aside[key], reply.charged)))
                continue
            charge = self.ledger.book(aside[key], reply.usage)
            request = asked[key]
            if isinstance(request, ScoreRequest) and isinstance(reply, TokenLogprobs):
                known = context_hash(request.context)
                if known not in bodies:
                    bodies[known] = orjson.dumps(request.context).decode()
                sent = orjson.dumps({"context": known, "target": request.target}).decode()
                entries.append(Entry(key, "score", sent, orjson.dumps({"logprobs": reply.logprobs}).decode(), *charge))
            elif isinstance(reply, ChatReply):
                entries.append(Entry(key, "chat", orjson.dumps(request).decode(), chat_as_json(reply), *charge))
        return entries, failures, bodies


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


def _check_storable(reply: ChatReply) -> None:
    """Raise ValueError for a reply that the journal cannot keep, such as a text that is not Unicode, or NaN."""
    written, chosen = reply.token_logprobs or (), reply.choice_logprobs or {}
    "".join((reply.text, *(token for token, _ in written))).encode()
    if not all(map(math.isfinite, (*(value for _, value in written), *chosen.values()))):
        raise ValueError("a log-probability is not a finite number")


# --- keys, requests and replies as JSON ------------------------------------------------------------------------------


def chat_key(identity: ModelIdentity, request: ChatRequest, *, replicate: int = 0) -> str:
    """The journal's key of a call for a text."""
    if "dialect" in identity.settings:  # how a server returns log-probabilities does not change what it writes
        kept = {name: value for name, value in identity.settings.items() if name not in {"dialect", "layout"}}
        identity = dataclasses.replace(identity, tokenizer="", settings=kept)
    # not by dataclasses.asdict, which copies every text
    data: dict[str, Any] = {field.name: getattr(request, field.name) for field in dataclasses.fields(ChatRequest)}
    data["messages"] = [{"role": message.role, "content": message.content} for message in request.messages]
    for number in ("temperature", "seed"):  # written as json writes them
        data[number] = orjson.Fragment(json.dumps(data[number]))
    return _hashed("chat", model_hash(identity), data, replicate)


def score_key(model: str, request: ScoreRequest, *, replicate: int = 0) -> str:
    """The journal's key of a scoring call."""
    again = (replicate,) if replicate else ()
    return _hashed("score", model, context_hash(request.context), request.target, *again)


@lru_cache(maxsize=4096)
def context_hash(context: tuple[int, ...] | str) -> str:
    """Hash of a context, which many calls share."""
    return _hashed(context)


def _hashed(*parts: Any) -> str:
    """``content_hash`` of text and whole numbers, ten times as fast: every token of every call passes here."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def chat_as_json(reply: ChatReply) -> str:
    """A reply as JSON, without its usage, which has columns of its own."""
    said = {name: getattr(reply, name) for name in ("text", "finish", "token_logprobs", "choice_logprobs")}
    return orjson.dumps(said, default=dict).decode()


def read_chat(said: dict[str, Any]) -> ChatReply:
    """A reply from what ``chat_as_json`` wrote."""
    tokens = said["token_logprobs"]
    return ChatReply(**said | {"token_logprobs": tokens and tuple((token, value) for token, value in tokens)})
