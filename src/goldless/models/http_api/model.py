"""A model behind an HTTP server: a chat model, and a scorer if the server returns log-probabilities of a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import anyio

from goldless.errors import CallError
from goldless.models.http_api.calls import Answer
from goldless.models.http_api.chat import hides_answers, reply_of, with_tokens_of, without_key
from goldless.models.http_api.client import AttemptError
from goldless.models.http_api.dialects import Dialect
from goldless.models.http_api.probed_model import ProbedModel
from goldless.models.http_api.reading import reading
from goldless.models.http_api.sending import send_by_context
from goldless.models.http_api.server_report import read_cache_counts, recommend
from goldless.models.http_api.tokenizing import ServerTokenizer
from goldless.models.interface import (
    CacheCounts,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
)
from goldless.models.turn_signs import without_turn_signs
from goldless.models.usage import most_chat_usage
from goldless.records import CallFailure

CHECK_SECONDS = 10.0


class HttpModel(ProbedModel):
    """One model on one server: it scores and writes, as far as ``capabilities`` say."""

    @property
    def positions(self) -> str:
        """Which positions are summed: with the end-of-turn token where the server or the tokenizer shows it."""
        return "target+end" if self._dialect is not None and self._dialect.ends_turns else "target"

    @property
    def context_length(self) -> int | None:
        """Maximum tokens of context and target together; one is reserved for a token that a server insists on."""
        longest = self._listing.context_tokens(self._name) if self._listing else None
        return None if longest is None else longest - 1

    async def cache_counts(self) -> Mapping[str, CacheCounts]:
        """How much the server's prefix cache saved since it started, by address; empty if it does not say."""
        # only of a server that names its weights: a provider's address is not asked for pages it does not have
        found = None if self._weights is None else await read_cache_counts(self._client)
        return {} if found is None else {self._client.base_url: found}

    async def recommendations(self, noise_nats: float) -> tuple[str, ...]:
        """How the server should be started for scoring, given the noise of its sums."""
        return () if self._dialect is None else await recommend(self._client, self._dialect.name, noise_nats)

    @property
    def calls_at_once(self) -> int:
        """Calls that are sent at once; more would wait."""
        return self._limiter.pace.limit

    async def check(self) -> str | None:
        """Why the server does not respond; None if it does. Does not wait for other calls."""
        try:
            with anyio.fail_after(CHECK_SECONDS):
                await self._client.send("GET", "/v1/models")
        except AttemptError as failure:
            return failure.message if failure.is_outage or failure.kind == "timeout" else None
        except TimeoutError:
            return f"no reply within {CHECK_SECONDS:.0f} seconds"
        return None

    # --- scoring -----------------------------------------------------------------------------------------------

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target as the assistant's turn | messages).

        Raises CapabilityError if the server cannot score, CallError if its tokenizer does not respond.
        """
        dialect = await self._scoring_dialect()
        try:
            with reading():
                # the server's tokenizer would honour special tokens in the target
                return await dialect.encode(self._calls, messages, without_turn_signs(target))
        except AttemptError as failure:
            raise CallError(self._record(failure)) from None

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text; None if the server cannot turn ids into text.

        Raises CapabilityError if the server cannot score, CallError if it does not respond.
        """
        dialect = await self._scoring_dialect()
        try:
            with reading():
                return await dialect.pieces(self._calls, request)
        except AttemptError as failure:
            raise CallError(self._record(failure)) from None

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests, those with a common context next to each other; deliver each reply as it arrives.

        Raises CapabilityError if the server cannot score. An empty target has no positions: its sum is over
        nothing, and no call is made.
        """
        dialect = await self._scoring_dialect()

        async def send(index: int) -> None:
            deliver({index: await self._score_one(dialect, requests[index])})

        at_once = self._limiter.pace.maximum
        await send_by_context(requests, send, at_once=at_once, shared=dialect.shares_contexts)

    async def _score_one(self, dialect: Dialect, request: ScoreRequest) -> ScoreReply:
        if not request.target:
            return TokenLogprobs(())
        longest = self.context_length
        if longest is not None and not isinstance(request.context, str) and request.tokens > longest:
            return CallFailure("too_long", f"{request.tokens} tokens do not fit {self._name}, which accepts {longest}")
        try:
            with reading():
                return await dialect.score(self._calls, request)
        except AttemptError as failure:
            return self._record(failure)

    # --- chat --------------------------------------------------------------------------------------------------

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply, or why there is none.

        With ``choices``, ``text`` is the chosen answer and ``finish`` is ``choice``: the written answer if the text
        has exactly one, otherwise the most probable one. If neither is known, the text is as the model wrote it and
        ``choice_logprobs`` is None. How probabilities are read is described in ``chat``.
        """
        if not self._name:
            await self._connect()
        try:
            answer = await self._ask(request)
        except AttemptError as failure:
            return self._record(failure)
        reply = self._reply(answer.data, request, answer.retries)
        if isinstance(reply, CallFailure) or not request.choices or reply.choice_logprobs is not None:
            return reply
        tokenizer = self._server_tokenizer if self._names_tokens else None
        return reply if tokenizer is None else await self._named(tokenizer, request, answer, reply)

    async def _named(
        self, tokenizer: ServerTokenizer, request: ChatRequest, answer: Answer, reply: ChatReply
    ) -> ChatReply:
        """The reply with the probabilities of answers that were not among the most probable tokens.

        Their tokens are asked for by id, which vLLM can since 0.32 and others ignore; most of the request is in its
        prefix cache.
        """
        written = self._format.read(answer.data)
        if not hides_answers(written, request):
            return reply
        try:
            ids = await tokenizer.first_ids(self._calls, request.choices)
            body = self._format.body(request, model=self._name, wording=self._wording) | {"logprob_token_ids": ids}
            most = most_chat_usage(self, request)
            send = partial(self._calls.post, self._format.route(self._name), body, most)
            more = await self._calls.paid(most, send, lambda found: self._format.usage(found.data))
            with reading():
                other = self._format.read(more.data)
        except AttemptError as failure:
            self._names_tokens = not failure.is_answer
            return reply
        complete = with_tokens_of(written, other)
        self._names_tokens = not hides_answers(complete, request)  # otherwise the server ignores the ids
        found = reply_of(complete, request, answer.retries)
        return reply if found.choice_logprobs is None else without_key(found, self._client.key)

    def _reply(self, data: Any, request: ChatRequest, retries: tuple[CallFailure, ...] = ()) -> ChatReply | CallFailure:
        try:
            with reading():
                return without_key(reply_of(self._format.read(data), request, retries), self._client.key)
        except AttemptError as failure:
            if failure.charged is not None:
                failure.charged = astuple(self._format.usage(data))
            return self._record(failure)

    def _record(self, failure: AttemptError) -> CallFailure:
        record, message = failure.record(), self._client.key.redact(failure.message)
        return replace(record, message=f"{message}. Check {self._key_variable}" if failure.bad_key else message)

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages in the server's chat layout; None if it cannot count them (only vLLM can).

        Raises CallError if its tokenizer does not respond.
        """
        if self._server_tokenizer is None or not self._counts_tokens:
            return None
        try:
            return len(await self._server_tokenizer.chat_ids(self._calls, tuple(messages)))
        except AttemptError as failure:
            if not failure.is_answer:
                raise CallError(failure.record()) from None
            self._counts_tokens = False
            return None
