"""Chat completions: what is asked, in the words this server takes, and what its reply means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from goldless.models.http_api.choosing import Step, answer_logprobs, steps_of, written_answer
from goldless.models.http_api.client import AttemptError, bad_reply
from goldless.models.http_api.dialects import usage_of
from goldless.models.http_api.tokenizing import first_choice
from goldless.models.interface import ChatReply, ChatRequest

if TYPE_CHECKING:
    from goldless.models.http_api.calls import Answer

MOST_ALTERNATIVES = 20
"""Alternatives the OpenAI format lists at most."""
_FEWER_ALTERNATIVES = {MOST_ALTERNATIVES: 5, 5: 0}


@dataclass(frozen=True, slots=True)
class Wording:
    """Which optional parameters a server takes, learnt from what it rejects by name."""

    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    alternatives: int = MOST_ALTERNATIVES
    """``top_logprobs`` to ask for; 0: the server gives no log-probabilities of what it writes."""

    def after(self, failure: AttemptError) -> Wording | None:
        """Another wording to try after this rejection, or None where wording is not the matter."""
        if failure.status not in {400, 422} or failure.kind == "too_long":
            return None  # a request that is too long is refused with words about max_tokens, whatever it is called
        if self.limit == "max_tokens" and failure.names("max_tokens"):
            return replace(self, limit="max_completion_tokens")
        if self.alternatives and (failure.names("top_logprobs") or failure.names("logprobs")):
            return replace(self, alternatives=_FEWER_ALTERNATIVES.get(self.alternatives, 0))
        if self.temperature and failure.names("temperature"):
            return replace(self, temperature=False)
        if self.seed and failure.names("seed"):
            return replace(self, seed=False)
        return None

    def settings(self) -> dict[str, str]:
        """What stands in the identity because it changes what the model writes."""
        left_out = {} if self.temperature else {"temperature": "server default"}
        return left_out if self.seed else {**left_out, "seed": "not taken"}


def payload(request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
    """The body of ``/v1/chat/completions``."""
    body: dict[str, Any] = {
        "model": model,
        "messages": request.messages,
        wording.limit: _token_limit(request, wording),
    }
    if wording.temperature:
        body["temperature"] = request.temperature
    if request.seed is not None and wording.seed:
        body["seed"] = request.seed
    if wording.alternatives and (request.choices or request.logprobs):
        body["logprobs"] = True
        if request.choices:
            body["top_logprobs"] = wording.alternatives
    return body


def read_reply(answer: Answer, request: ChatRequest) -> ChatReply:
    """What the model wrote. Raises AttemptError for a refusal or a reply that cannot be used."""
    choice = first_choice(answer.data)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply("the reply's first choice has no message")
    finish = choice.get("finish_reason")
    text = message.get("content")
    if message.get("refusal"):
        raise AttemptError("refused", f"the model refused: {str(message['refusal'])[:200]}")
    if finish == "content_filter":
        raise AttemptError("refused", "the server's content filter stopped the reply")
    if finish == "error":
        raise AttemptError("server_error", "the model behind the server failed while it wrote")
    if not isinstance(text, str):
        if finish != "length":
            raise bad_reply("the reply holds no text")
        text = ""  # everything allowed went into reasoning that is not shown
    reply = ChatReply(
        text=text,
        finish="length" if finish == "length" else "stop",
        usage=usage_of(answer.data.get("usage")),
        retries=answer.retries,
    )
    if request.logprobs or request.choices:
        return _with_logprobs(reply, written_steps(choice), request)
    return reply


def written_steps(choice: dict[str, Any]) -> tuple[Step, ...]:
    """The written tokens with their alternatives; empty where the server gave no log-probabilities."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return steps_of(content) if isinstance(content, list) else ()


def _with_logprobs(reply: ChatReply, steps: tuple[Step, ...], request: ChatRequest) -> ChatReply:
    """Add written tokens and the choice, where asked for and there."""
    if request.logprobs and steps:
        reply = replace(reply, token_logprobs=tuple((step.token, step.logprob) for step in steps))
    if not request.choices:
        return reply
    written = written_answer(reply.text, request.choices)
    logprobs = answer_logprobs(steps, request.choices, begin=written[1] if written else 0)
    if written is not None:
        return replace(reply, text=written[0], finish="choice", choice_logprobs=logprobs)
    if logprobs is not None:
        return replace(reply, text=max(logprobs, key=logprobs.__getitem__), finish="choice", choice_logprobs=logprobs)
    return reply


def _token_limit(request: ChatRequest, wording: Wording) -> int:
    if not request.choices or wording.limit == "max_completion_tokens":
        # Models that want the second name think before they write, and the thinking counts.
        return request.max_tokens
    return min(request.max_tokens, max(map(len, request.choices)) + 8)
