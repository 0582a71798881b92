"""Metering: what one verdict's calls to a model are charged for, apart from other verdicts under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goldless.judging.asking import ChatJudge, ScoringJudge
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
)
from goldless.records import CallFailure


class ChatMeter:
    """A chat model that counts."""

    def __init__(self, model: ChatJudge) -> None:
        self._chat = model
        self.usage = Usage()

    @property
    def identity(self) -> ModelIdentity:
        """Who judges."""
        return self._chat.identity

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._chat.capabilities

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The model's reply."""
        reply = await self._chat.chat(request)
        if isinstance(reply, ChatReply):
            self.usage += reply.usage
        return reply


class ScoringMeter:
    """A scorer that counts."""

    def __init__(self, model: ScoringJudge) -> None:
        self._scorer = model
        self.usage = Usage()

    @property
    def identity(self) -> ModelIdentity:
        """Who judges."""
        return self._scorer.identity

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._scorer.capabilities

    @property
    def context_length(self) -> int | None:
        """Most tokens of context and target together."""
        return self._scorer.context_length

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The scorer's request."""
        return await self._scorer.encode(messages, target)

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Deliver the scorer's replies."""

        def count(replies: Mapping[int, ScoreReply]) -> None:
            for reply in replies.values():
                if isinstance(reply, TokenLogprobs):
                    self.usage += reply.usage
            deliver(replies)

        await self._scorer.score(requests, count)


class _FullMeter(ScoringMeter, ChatMeter):
    """A model that is both."""

    def __init__(self, scorer: ScoringJudge, chat: ChatJudge) -> None:
        self._scorer = scorer
        self._chat = chat
        self.usage = Usage()


Meter = ChatMeter | ScoringMeter


def metered(model: ScoringJudge | ChatJudge) -> Meter:
    """The model with a count of its own, able to do what the model can."""
    if isinstance(model, ScoringJudge):
        return _FullMeter(model, model) if isinstance(model, ChatJudge) else ScoringMeter(model)
    return ChatMeter(model)
