"""Scripted jurors: what they say depends on which of two invented words they read first."""

from __future__ import annotations

import anyio

from goldless.apps.jury.panel import Juror
from goldless.judging.scales import find_scale
from goldless.models.interface import ChatReply, ChatRequest
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure

DOWN = CallFailure("server_error", "the model is down", attempts=6)


def shown_first(request: ChatRequest, *words: str) -> str:
    """The word that comes first in the question."""
    text = request.messages[1].content if request.messages[0].role == "system" else request.messages[0].content
    return min((word for word in words if word in text), key=text.index)


def prefers(*ranking: str, name: str = "honest") -> ScriptedModel:
    """A model for which the answer with an earlier word of the ranking is the better one."""

    def answer(request: ChatRequest) -> str:
        text = "\n".join(message.content for message in request.messages if message.role == "user")
        present = [word for word in ranking if word in text]
        return "one" if shown_first(request, *present) == present[0] else "two"

    return ScriptedModel(answers=answer, name=name)


def always(reply: str | CallFailure, name: str = "stubborn") -> ScriptedModel:
    """A model that says the same whatever it is asked."""
    return ScriptedModel(answers=lambda _: reply, name=name)


def juror(model, name: str = "ann", weight: float = 1.0, scale: str = "pairwise") -> Juror:
    return Juror(name, model, find_scale(scale), weight)


class Held(ScriptedModel):
    """A model that answers only once it is let go."""

    def __init__(self) -> None:
        super().__init__(answers=lambda _: "one", name="held")
        self.asked, self.let_go = anyio.Event(), anyio.Event()

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        self.asked.set()
        await self.let_go.wait()
        return await super().chat(request)
