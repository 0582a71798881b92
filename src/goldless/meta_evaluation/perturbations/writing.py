"""Writing: how a chat model is asked for a text, and when what it wrote is missing."""

from __future__ import annotations

from typing import Protocol

from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity
from goldless.models.written_text import unusable
from goldless.records import CallFailure

LEAST_TOKENS = 1024
MOST_TOKENS = 4096


class Writer(Protocol):
    """What is needed of a chat model."""

    @property
    def identity(self) -> ModelIdentity:
        """Who writes."""

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply."""


def room_for(text: str) -> int:
    """Tokens that a new version of the text may have: about twice its own, between 1024 and 4096."""
    return min(MOST_TOKENS, max(LEAST_TOKENS, len(text) // 2))


async def written(writer: Writer, instruction: str, material: str, *, what: str, most_tokens: int) -> str | CallFailure:
    """What the writer makes of the material; why it is missing where the call failed, or the text is cut or empty."""
    messages = (Message("system", instruction), Message("user", material))
    reply = await writer.chat(ChatRequest(messages, max_tokens=most_tokens))
    failure = unusable(reply, what, most_tokens)
    if failure is not None or not isinstance(reply, ChatReply):
        return failure or CallFailure("bad_reply", f"the {what} is no reply")
    return reply.text.strip()
