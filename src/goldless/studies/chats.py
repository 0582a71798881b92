"""Chats: lists of messages in the usual shapes, as turns of a role and a text."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant", "ai": "assistant"}
"""Other names of roles."""
TEXTS = {"text", "message", "output_text", "input_text"}
"""Types of parts that are text; reasoning and calls of tools are not."""


def turns(given: Any) -> list[tuple[str, str]] | None:
    """The turns of a chat, also of one in JSON; None if it is not a list of messages with roles."""
    if isinstance(given, str):
        if not given.lstrip().startswith("[{"):
            return None
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(given, list) or not given or not all(map(_is_message, given)):
        return None
    roles = [str(one.get("role") or one.get("from")).lower() for one in given]
    return [(ROLES.get(role, role), content_text(one) or "") for role, one in zip(roles, given, strict=True)]


def _is_message(given: Any) -> bool:
    said = ("content", "value", "parts", "text")
    return (
        isinstance(given, dict) and bool(given.get("role") or given.get("from")) and any(key in given for key in said)
    )


def content_text(given: Any) -> str | None:
    """The text of a message, of its content, or of one part."""
    if isinstance(given, list):
        return "\n\n".join(text for part in given if (text := content_text(part))) or None
    if isinstance(given, dict):
        if given.get("type", "text") not in TEXTS:
            return None
        return next((content_text(given[key]) for key in ("content", "value", "parts", "text") if given.get(key)), None)
    return None if given is None else str(given)


def said_by(chat: list[tuple[str, str]], roles: Collection[str]) -> str | None:
    """Everything that these roles said, turn by turn; None if it is nothing."""
    return "\n\n".join(text for role, text in chat if role in roles and text) or None


def last_response(chat: list[tuple[str, str]]) -> tuple[str | None, str | None]:
    """The last turn of the assistant, and the turns before it as the prompt."""
    place = max((place for place, (role, _) in enumerate(chat) if role == "assistant"), default=None)
    if place is None:
        return None, None
    before = chat[:place]
    alone = len(before) == 1 and before[0][0] == "user"
    prompt = before[0][1] if alone else "\n\n".join(f"{role}: {text}" for role, text in before)
    return chat[place][1] or None, prompt or None
