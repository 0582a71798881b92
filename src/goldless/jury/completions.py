"""Replies and errors in the format of OpenAI's chat completions, with the votes beside them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from goldless.errors import UserError
from goldless.jury.panel import JuryVerdict, Vote
from goldless.models.interface import Usage

MODEL = "goldless-jury"
"""The one model of a jury's server."""
Json = dict[str, Any]


class RequestError(UserError):
    """A request that is not answered: the status, and what OpenAI's error format says of it."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        """Keep what the reply needs."""
        self.status = status
        self.param = param
        """The field of the request that is wrong."""
        self.code = code
        super().__init__(message)


def error_body(message: str, *, status: int, param: str | None = None, code: str | None = None) -> Json:
    """An error as OpenAI words it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    if status == 429:
        kind = "rate_limit_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def model_entry() -> Json:
    """The jury as one of ``/v1/models``."""
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": "goldless"}


def completion(verdict: JuryVerdict, content: str) -> Json:
    """A chat completion: the verdict's wording, the tokens charged, and the votes under ``goldless``."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    return {
        **_head("chat.completion"),
        "choices": [choice],
        "usage": _usage(verdict.usage),
        "goldless": vote_record(verdict),
    }


def chunks(verdict: JuryVerdict, content: str, *, with_usage: bool) -> Iterator[Json]:
    """The same completion as the events of a stream: the content, its end with the votes, the usage where asked."""
    head = _head("chat.completion.chunk")
    usage: Json = {"usage": None} if with_usage else {}
    said = {"index": 0, "delta": {"role": "assistant", "content": content}, "logprobs": None, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    yield {**head, "choices": [said], **usage}
    yield {**head, "choices": [ended], **usage, "goldless": vote_record(verdict)}
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(verdict.usage)}


def vote_record(verdict: JuryVerdict) -> Json:
    """Everything behind a verdict, as plain data."""
    return {
        "winner": verdict.winner,
        "shares": list(verdict.shares),
        "asked": len(verdict.votes),
        "used": verdict.used,
        "missing": verdict.missing,
        "absent": list(verdict.absent),
        "votes": votes_data(verdict.votes),
    }


def votes_data(votes: tuple[Vote, ...]) -> list[Json]:
    """The votes as plain data."""
    return [asdict(vote) for vote in votes]


def _head(kind: str) -> Json:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": MODEL}


def _usage(usage: Usage) -> Json:
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}
