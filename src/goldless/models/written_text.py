"""Whether a text that a chat model wrote can be used."""

from __future__ import annotations

from goldless.models.interface import ChatReply
from goldless.records import CallFailure


def unusable(reply: ChatReply | CallFailure, what: str, most_tokens: int) -> CallFailure | None:
    """Why the text is missing: the call failed, it was cut, or it is empty; None where it can be used."""
    if isinstance(reply, CallFailure):
        return reply
    if reply.finish == "length":
        return CallFailure("truncated", f"the {what} was cut at {most_tokens} tokens")
    if not reply.text.strip():
        return CallFailure("bad_reply", f"the {what} came back empty")
    return None
