"""A scorer or chat model whose every call goes through the journal and the ledger."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

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
    TokenLogprobs,
    Usage,
    content_hash,
)
from goldless.models.journal import Entry, Journal, model_hash
from goldless.models.usage import Ledger
from goldless.models.wrapper import WrappedModel, WrappedScorer
from goldless.records import CallFailure

_REQUEST_FIELDS = dataclasses.fields(ChatRequest)
OVER_BUDGET = CallFailure("budget", "not sent: it could have gone over the budget", attempts=0)


class JournalledScorer(WrappedScorer):
    """A scorer that asks only for what the journal does not have."""

    def __init__(self, scorer: Scorer, journal: Journal, ledger: Ledger) -> None:
        super().__init__(scorer)
        self.scorer = scorer
        """The scorer itself: canaries must not be answered from the journal."""
        self._journal = journal
        self.ledger = ledger
        self.reused = 0
        """Replies that came from the journal."""
        self._under_way: dict[str, anyio.Event] = {}

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Deliver what the journal has, then ask for the rest, each different call once."""
        model = model_hash(self.identity)
        keys = [score_key(model, request) for request in requests]
        places: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        wanted = self._deliver_known(list(places), places, deliver)
        while wanted:
            # tasks that run side by side may ask the same, such as the marginal of an answer that is always the same
            others = [key for key in wanted if key in self._under_way]
            await self._ask_once([key for key in wanted if key not in self._under_way], places, requests, deliver)
            for key in others:
                if key in self._under_way:
                    await self._under_way[key].wait()
            wanted = self._deliver_known(others, places, deliver)

    def _deliver_known(self, keys: Sequence[str], places: Mapping[str, list[int]], deliver: Deliver) -> list[str]:
        """Deliver what the journal has; the keys it does not have."""
        found = self._journal.find(keys)
        self.reused += len(found)
        _spread({key: _read_score(reply) for key, reply in found.items()}, places, deliver)
        return [key for key in keys if key not in found]

    async def _ask_once(
        self, keys: list[str], places: Mapping[str, list[int]], requests: Sequence[ScoreRequest], deliver: Deliver
    ) -> None:
        if not keys:
            return
        done = anyio.Event()
        self._under_way |= dict.fromkeys(keys, done)
        try:
            await self._ask(keys, places, requests, deliver)
        finally:
            for key in keys:
                del self._under_way[key]
            done.set()

    async def _ask(
        self, keys: list[str], places: Mapping[str, list[int]], requests: Sequence[ScoreRequest], deliver: Deliver
    ) -> None:
        while keys:
            most = {key: Usage(_most_tokens(requests[places[key][0]]), 1) for key in keys}
            aside = {key: cost for key in keys if (cost := self.ledger.set_aside(most[key])) is not None}
            if aside:
                await self._ask_now(aside, places, requests, deliver)
            elif not await self.ledger.settled():
                _spread(dict.fromkeys(keys, OVER_BUDGET), places, deliver)
                return
            keys = [key for key in keys if key not in aside]

    async def _ask_now(
        self,
        aside: Mapping[str, float],
        places: Mapping[str, list[int]],
        requests: Sequence[ScoreRequest],
        deliver: Deliver,
    ) -> None:
        keys = list(aside)
        asked = [requests[places[key][0]] for key in keys]
        self._journal.begin(keys)

        def keep(replies: Mapping[int, ScoreReply]) -> None:
            by_key = {keys[i]: reply for i, reply in replies.items()}
            kept = self._keep(by_key, {keys[i]: asked[i] for i in replies}, aside)
            _spread(kept, places, deliver)

        await self.scorer.score(asked, keep)

    def _keep(
        self, replies: Mapping[str, ScoreReply], asked: Mapping[str, ScoreRequest], aside: Mapping[str, float]
    ) -> dict[str, ScoreReply]:
        """What is to be delivered; replies are in the journal then, failures apart from them."""
        entries, bodies, failures = [], {}, []
        checked = {key: _checked(asked[key], reply) for key, reply in replies.items()}
        for key, reply in checked.items():
            came = replies[key]
            cost = self.ledger.book(aside[key], came.usage if isinstance(came, TokenLogprobs) else None)
            if isinstance(reply, CallFailure):
                failures.append((key, reply))
                continue
            failures.extend((key, earlier) for earlier in reply.retries)
            context, target = asked[key].context, asked[key].target
            bodies[context_hash(context)] = _json(context)
            request = _json({"context": context_hash(context), "target": target})
            entries.append(Entry(key, "score", request, _json({"logprobs": reply.logprobs}), reply.usage, cost))
        if entries:
            self._journal.record(self.identity, entries, bodies)
        if failures:
            self._journal.record_failures(self.identity, failures)
        return checked


class JournalledChat(WrappedModel):
    """A chat model that asks only for what the journal does not have."""

    def __init__(self, model: ChatModel, journal: Journal, ledger: Ledger) -> None:
        super().__init__(model)
        self._journal = journal
        self.ledger = ledger
        self.reused = 0
        self._under_way: dict[str, anyio.Event] = {}

    @property
    def context_length(self) -> int | None:
        """Most tokens of a request and its reply together, where the model tells."""
        return self._model.context_length if isinstance(self._model, MeasuringModel) else None

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages, where the model tells."""
        return await self._model.count_tokens(messages) if isinstance(self._model, MeasuringModel) else None

    async def chat(self, request: ChatRequest, *, replicate: int = 0) -> ChatReply | CallFailure:
        """The reply. Another ``replicate`` is another call of the same request."""
        asked = _request_data(request)
        key = chat_key(self.identity, request, replicate=replicate)
        while not (found := self._journal.find([key])) and key in self._under_way:
            await self._under_way[key].wait()
        if found:
            self.reused += 1
            return dataclasses.replace(_read_chat(found[key]), earlier_usage=self._journal.usage(key))
        done = self._under_way[key] = anyio.Event()
        try:
            return await self._ask(key, request, asked)
        finally:
            del self._under_way[key]
            done.set()

    async def _ask(self, key: str, request: ChatRequest, asked: Mapping[str, Any]) -> ChatReply | CallFailure:
        # a token has at least one byte of text; some more go to the marks around each message
        most = sum(len(message.content.encode()) + 16 for message in request.messages)
        while (aside := self.ledger.set_aside(Usage(most, request.max_tokens))) is None:
            if not await self.ledger.settled():
                return OVER_BUDGET
        self._journal.begin([key])
        reply = await self._model.chat(request)
        cost = self.ledger.book(aside, reply.usage if isinstance(reply, ChatReply) else None)
        if isinstance(reply, CallFailure):
            self._journal.record_failures(self.identity, [(key, reply)])
            return reply
        entry = Entry(key, "chat", _json(asked), _json(_reply_data(reply)), reply.usage, cost)
        self._journal.record(self.identity, [entry])
        if reply.retries:
            self._journal.record_failures(self.identity, [(key, failure) for failure in reply.retries])
        return reply


def _writing(identity: ModelIdentity) -> ModelIdentity:
    """Who writes: how a server is asked for log-probabilities, where that was tried, changes nothing it writes."""
    if "dialect" not in identity.settings:
        return identity
    kept = {name: value for name, value in identity.settings.items() if name not in {"dialect", "layout"}}
    return dataclasses.replace(identity, settings=kept)


def _most_tokens(request: ScoreRequest) -> int:
    """Tokens that a call can be charged for at most: a token has at least one byte of text."""
    return sum(len(part.encode()) if isinstance(part, str) else len(part) for part in (request.context, request.target))


def _checked(request: ScoreRequest, reply: ScoreReply) -> ScoreReply:
    """The reply, or a failure where its values are not one finite number for each token of the target."""
    if isinstance(reply, CallFailure):
        return reply
    expected = len(reply.logprobs) if isinstance(request.target, str) else len(request.target)
    if len(reply.logprobs) == expected and all(map(math.isfinite, reply.logprobs)):
        return reply
    return CallFailure("bad_reply", f"{len(reply.logprobs)} values for {expected} tokens, or values that are no number")


def chat_key(identity: ModelIdentity, request: ChatRequest, *, replicate: int = 0) -> str:
    """The journal's key of a call for a text."""
    return content_hash("chat", model_hash(_writing(identity)), _request_data(request), replicate)


def score_key(model: str, request: ScoreRequest) -> str:
    """The journal's key of a scoring call."""
    return content_hash("score", model, context_hash(request.context), request.target)


@functools.lru_cache(maxsize=4096)
def context_hash(context: tuple[int, ...] | str) -> str:
    """Hash of a context, which many calls share."""
    return content_hash(context)


def _spread(replies: Mapping[str, ScoreReply], places: Mapping[str, list[int]], deliver: Deliver) -> None:
    if replies:
        deliver({i: reply for key, reply in replies.items() for i in places[key]})


def _read_score(text: str) -> TokenLogprobs:
    return TokenLogprobs(tuple(json.loads(text)["logprobs"]))


def _request_data(request: ChatRequest) -> dict[str, Any]:
    """The request as plain data, as ``dataclasses.asdict`` gives it, which copies every text and takes much longer."""
    data = {field.name: getattr(request, field.name) for field in _REQUEST_FIELDS}
    data["messages"] = [{"role": message.role, "content": message.content} for message in request.messages]
    return data


def _reply_data(reply: ChatReply) -> dict[str, Any]:
    """What is kept of a reply; its usage stands in columns of its own, its retries among the failures."""
    logprobs = None if reply.choice_logprobs is None else dict(reply.choice_logprobs)
    return {
        "text": reply.text,
        "finish": reply.finish,
        "token_logprobs": reply.token_logprobs,
        "choice_logprobs": logprobs,
    }


def _read_chat(text: str) -> ChatReply:
    body = json.loads(text)
    if body["token_logprobs"] is not None:
        body["token_logprobs"] = tuple((token, value) for token, value in body["token_logprobs"])
    return ChatReply(**body)


_json: Callable[[Any], str] = functools.partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
