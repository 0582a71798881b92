"""Wire formats of chat calls: how a request is written for a provider, and what its reply says.

A *format* is one object with the route, the body and the reading of a reply. This module has the interface, the
parameters that are learnt from rejections, and OpenAI's format, which most servers share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from goldless.models.http_api.chat import Step, Written, steps_of
from goldless.models.http_api.client import UNKNOWN_CHARGE, AttemptError, bad_reply, part_of
from goldless.models.http_api.reading import usage_of
from goldless.models.http_api.tokenizing import first_choice
from goldless.models.interface import ChatRequest, Message, Usage

MOST_ALTERNATIVES = 20
"""Maximum alternatives in the OpenAI format."""
_FEWER_ALTERNATIVES = {MOST_ALTERNATIVES: 5, 5: 0}
THINKING_LIMITS = frozenset({"max_completion_tokens", "maxOutputTokens"})
"""Limits that include thinking: servers that want them have models that think before they write."""
ROOM_FOR_THINKING = 4096
"""Tokens added to the limit of a model that thinks, where the user gives no number."""
_THINK, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Wording:
    """Which optional parameters a server accepts, learnt from its rejections, and how the model is to think."""

    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    """Names of the token limit; the first is used."""
    temperature: bool = True
    seed: bool = True
    alternatives: int = MOST_ALTERNATIVES
    """``top_logprobs`` to request; 0: the server returns no log-probabilities of what it writes."""
    effort: str = ""
    """Level of thinking, as the provider names it; empty: its default."""
    thinking: int | None = None
    """Tokens of thinking allowed beyond those of the reply; None: a default for models that think."""
    seen_thinking: bool = False
    """Whether a reply was all thinking."""

    @property
    def thinks(self) -> bool:
        """Whether the model may think before it writes, within the same limit."""
        return bool(self.effort or self.thinking or self.seen_thinking) or self.limits[0] in THINKING_LIMITS

    @property
    def thinking_tokens(self) -> int:
        """Tokens that a call may be charged for beyond its ``max_tokens``."""
        return self.thinking if self.thinking is not None else ROOM_FOR_THINKING * self.thinks

    def token_limit(self, request: ChatRequest) -> int:
        """The limit to request: thinking counts, and a choice needs no more than its longest answer."""
        if not request.choices or self.thinks:
            return request.max_tokens + self.thinking_tokens
        return min(request.max_tokens, max(map(len, request.choices)) + 8)

    def after(self, failure: AttemptError) -> Wording | None:
        """Other parameters to try after this rejection, or None if the parameters are not the cause."""
        if failure.status not in {400, 422} or failure.kind == "too_long":
            return None  # a request that is too long is refused with words about max_tokens, whatever it is called
        if len(self.limits) > 1 and failure.names(self.limits[0]):
            return replace(self, limits=self.limits[1:])
        if self.alternatives and any(map(failure.names, ("top_logprobs", "logprobs", "responseLogprobs"))):
            return replace(self, alternatives=_FEWER_ALTERNATIVES.get(self.alternatives, 0))
        if self.temperature and failure.names("temperature"):
            return replace(self, temperature=False)
        if self.seed and failure.names("seed"):
            return replace(self, seed=False)
        return None

    def settings(self) -> dict[str, str]:
        """Settings for the identity, because they change what the model writes."""
        found = {} if self.temperature else {"temperature": "server default"}
        if not self.seed:
            found["seed"] = "not taken"
        if self.effort:
            found["effort"] = self.effort
        if self.thinking is not None:
            found["thinking"] = str(self.thinking)
        return found


class ChatFormat(Protocol):
    """How chat calls are written and read."""

    wording: Wording
    """The parameters to try first."""
    headers: Mapping[str, str]
    """Headers of every request, besides the key."""
    listing: str | None
    """The route that lists models; None: there is none that lists what can be called."""

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        """The listed models by name."""

    def route(self, model: str) -> str:
        """Where a call is sent."""

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
        """The call as JSON."""

    def read(self, data: Any) -> Written:
        """What a reply says. Raises AttemptError for a refusal or a reply that cannot be used."""

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for, usable or not; none if it does not say."""


class OpenAiFormat:
    """``/v1/chat/completions``, as OpenAI, Azure and most other servers have it."""

    listing: str | None = "/v1/models"

    def __init__(
        self, *, listed: bool = True, seed: str = "seed", effort: str = "reasoning_effort", logprobs: bool = True
    ) -> None:
        """``seed`` and ``effort``: their names, with a dot for a nested one."""
        self.headers: Mapping[str, str] = {}
        self.listing = OpenAiFormat.listing if listed else None
        self.wording = Wording(alternatives=MOST_ALTERNATIVES if logprobs else 0)
        self._seed = seed
        self._effort = effort

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        """The listed models by name."""
        # Together's list is not inside an object
        rows = data if isinstance(data, list) else part_of(data, "data") or ()
        return {row["id"]: row for row in rows if isinstance(part_of(row, "id"), str)}

    def route(self, model: str) -> str:  # noqa: ARG002 - the model is in the body
        """Where a call is sent."""
        return "/v1/chat/completions"

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
        """The call as JSON."""
        body: dict[str, Any] = {
            "model": model,
            "messages": request.messages,
            wording.limits[0]: wording.token_limit(request),
        }
        if wording.temperature:
            body["temperature"] = request.temperature
        if request.seed is not None and wording.seed:
            body[self._seed] = request.seed
        if wording.alternatives and (request.choices or request.logprobs):
            body["logprobs"] = True
            if request.choices:
                body["top_logprobs"] = wording.alternatives
        if wording.effort:
            outer, _, inner = self._effort.partition(".")
            body[outer] = {inner: wording.effort} if inner else wording.effort
        return body

    def read(self, data: Any) -> Written:
        """What a reply says. Raises AttemptError for a refusal or a reply that cannot be used."""
        choice = first_choice(data)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise bad_reply("the reply's first choice has no message")
        finish = choice.get("finish_reason")
        if message.get("refusal"):
            raise refusal(f"the model refused: {str(message['refusal'])[:200]}")
        if finish == "content_filter":
            raise refusal("the server's content filter stopped the reply")
        if finish == "error":
            message = "the model behind the server failed while writing"
            raise AttemptError("server_error", message, charged=UNKNOWN_CHARGE)
        cut = finish in {"length", "model_length"}
        text = _plain_text(message.get("content"))
        if text is None:
            if not cut:
                raise bad_reply("the reply has no text")
            text = ""  # everything allowed went into thinking that is not shown
        thought, text = _without_thinking(text, cut=cut)
        return Written(text, "length" if cut else "stop", self.usage(data), written_steps(choice), thought)

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for."""
        return usage_of(part_of(data, "usage"))


def refusal(message: str) -> AttemptError:
    """The model, or a filter before or behind it, declined."""
    return AttemptError("refused", message, charged=UNKNOWN_CHARGE)


def parts_text(parts: Any, *, of: str = "the reply") -> str:
    """The texts of a list of parts, without parts of thinking. Raises AttemptError if it is not such a list."""
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise bad_reply(f"{of} has no list of parts")
    texts = [part_of(part, "text") for part in parts if not part_of(part, "thought")]
    return "".join(text for text in texts if isinstance(text, str))


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The system messages as one text, and the turns."""
    system = "\n\n".join(message.content for message in messages if message.role == "system" and message.content)
    return system, [message for message in messages if message.role != "system"]


def written_steps(choice: dict[str, Any]) -> tuple[Step, ...]:
    """The written tokens with their alternatives; empty if the server returned no log-probabilities."""
    content = part_of(choice, "logprobs", "content")
    return steps_of(content) if isinstance(content, list) else ()


def _plain_text(content: Any) -> str | None:
    """The text of a message; Mistral's thinking models write a list of parts, some of which are thinking."""
    return parts_text(content) if isinstance(content, list) else content if isinstance(content, str) else None


def _without_thinking(text: str, *, cut: bool) -> tuple[int, str]:
    """The characters of thinking that a server leaves in the text, and the text after them.

    The last end mark counts: thinking may quote a response that contains one.
    """
    if not text.lstrip().startswith(_THINK):
        return 0, text
    before, mark, after = text.rpartition(_THOUGHT)
    if not mark:
        return (len(text), "") if cut else (0, text)
    return len(before) + len(mark), after
