"""Replies as the journal stores them: as JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import orjson

from goldless.models.interface import ChatReply, TokenLogprobs, Usage

_KEPT_OF_REPLY = ("text", "finish", "token_logprobs", "choice_logprobs")
"""Its usage has separate columns, its retries are among the failures."""


def as_json(data: Any) -> str:
    """Plain data as the journal writes it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=dict)


def chat_as_json(reply: ChatReply) -> str:
    """A text's reply for the journal."""
    return as_json({name: getattr(reply, name) for name in _KEPT_OF_REPLY})


def check_storable(reply: ChatReply) -> None:
    """Raise ValueError for a reply that the journal cannot keep, such as a text that is not Unicode, or NaN."""
    reply.text.encode()
    written, chosen = reply.token_logprobs or (), reply.choice_logprobs or {}
    "".join(token for token, _ in written).encode()
    if not all(map(math.isfinite, (*(value for _, value in written), *chosen.values()))):
        raise ValueError("a log-probability is not a finite number")


def read_chat(text: str) -> ChatReply:
    """A text's reply from the journal."""
    body = json.loads(text)
    if body["token_logprobs"] is not None:
        body["token_logprobs"] = tuple((token, value) for token, value in body["token_logprobs"])
    return ChatReply(**body)


def logprobs_as_json(reply: TokenLogprobs) -> str:
    """A scoring reply for the journal."""
    # not by as_json, which is ten times as slow; every value is finite
    return orjson.dumps({"logprobs": reply.logprobs}).decode()


def read_logprobs(text: str) -> TokenLogprobs:
    """A scoring reply from the journal."""
    return TokenLogprobs(tuple(json.loads(text)["logprobs"]))


def checksum(key: str, reply: bytes, usage: Usage, cost_usd: float | None) -> bytes:
    """A checksum of a stored reply and what it cost."""
    cost = None if cost_usd is None else float(cost_usd)
    paid = f"{key} {int(usage.input_tokens)} {int(usage.output_tokens)} {cost} "
    return hashlib.blake2b(paid.encode() + reply, digest_size=8).digest()


def sound_reply(key: str, reply: Any, usage: Usage, cost_usd: Any, stored: bytes | None) -> str | None:
    """The reply if it is as it was stored, else None; without a checksum, if it can be read."""
    try:
        if stored is None:
            return _readable(reply.decode(), usage)
        return reply.decode() if checksum(key, reply, usage, cost_usd) == stored else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _readable(text: str, usage: Usage) -> str | None:
    """The reply of an earlier version, which wrote no checksums, if it has the form of one."""
    body = json.loads(text)
    values = [*body["logprobs"]] if "logprobs" in body else [value for _, value in read_chat(text).token_logprobs or ()]
    choices = body.get("choice_logprobs") or {}
    tokens = (usage.input_tokens, usage.output_tokens)
    formed = isinstance(body.get("text", ""), str) and isinstance(choices, Mapping)
    numbers = all(isinstance(value, int | float) for value in (*values, *choices.values()))
    return text if formed and numbers and all(isinstance(count, int) for count in tokens) else None
