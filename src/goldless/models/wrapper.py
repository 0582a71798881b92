"""A model inside an object that adds to it, such as a journal or a meter: what is not changed goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goldless.models.interface import Capabilities, Message, ModelIdentity, ScoreRequest
from goldless.models.provider import Model


class WrappedModel:
    """What every kind of model has."""

    def __init__(self, model: Any) -> None:
        """``model`` need have only what is asked of it."""
        self._model: Model = model

    @property
    def identity(self) -> ModelIdentity:
        """Who computes or answers."""
        return self._model.identity

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._model.capabilities

    async def prepare(self) -> None:
        """Load, connect or probe."""
        await self._model.prepare()

    async def aclose(self) -> None:
        """Give back what the model holds."""
        await self._model.aclose()


class WrappedScorer(WrappedModel):
    """What a scorer has besides."""

    @property
    def context_length(self) -> int | None:
        """Most tokens of context and target together."""
        return self._model.context_length

    @property
    def positions(self) -> str:
        """Which positions are summed."""
        return self._model.positions

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target | messages)."""
        return await self._model.encode(messages, target)

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        """The target's tokens as text, as the scorer tells them."""
        return await self._model.pieces(request)
