"""Wire formats of chat calls: OpenAI's, which most servers share, Anthropic's and Google's.

A *format* is one object with the route, the body and the reading of a reply. Optional parameters that a server does not
accept are learnt from its rejections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from goldless.models.http_api.chat import Step, Written, checked_step, steps_of
from goldless.models.http_api.client import UNKNOWN_CHARGE, AttemptError, bad_reply, first_choice, part_of, usage_in
from goldless.models.interface import ChatRequest, Message, Usage
from goldless.models.services import Service

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


class ChatFormat:
    """How chat calls are written and read: OpenAI's ``/v1/chat/completions``, of which other formats change parts."""

    wording = Wording()
    """The parameters to try first."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Headers of every request, besides the key."""
    listing: str | None = "/v1/models"
    """The route that lists models; None: there is none that lists what can be called."""
    path = "/v1/chat/completions"
    """The route of a call, ``{model}`` to be filled in."""
    charged: tuple[str, Sequence[str], Sequence[str]] = ("usage", ("prompt_tokens",), ("completion_tokens",))
    """Where a reply counts its tokens, and the names of the counts of input and output."""

    def __init__(self, service: Service) -> None:
        if not service.listed:
            self.listing = None
        if not service.logprobs:
            self.wording = replace(self.wording, alternatives=0)
        self._service = service

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        """The listed models by name."""
        # Together's list is not inside an object
        rows = data if isinstance(data, list) else part_of(data, "data") or ()
        return {row["id"]: row for row in rows if isinstance(part_of(row, "id"), str)}

    def route(self, model: str) -> str:
        """Where a call is sent."""
        return self.path.format(model=quote(model.removeprefix(_GEMINI_PREFIX), safe=""))

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
            body[self._service.seed] = request.seed
        if wording.alternatives and (request.choices or request.logprobs):
            body["logprobs"] = True
            if request.choices:
                body["top_logprobs"] = wording.alternatives
        if wording.effort:
            outer, _, inner = self._service.effort.partition(".")
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
        content = message.get("content")
        # Mistral's thinking models write a list of parts, some of which are thinking
        text = parts_text(content) if isinstance(content, list) else content if isinstance(content, str) else None
        if text is None:
            if not cut:
                raise bad_reply("the reply has no text")
            text = ""  # everything allowed went into thinking that is not shown
        thought, text = _without_thinking(text, cut=cut)
        listed = part_of(choice, "logprobs", "content")
        steps = steps_of(listed) if isinstance(listed, list) else ()
        return Written(text, "length" if cut else "stop", self.usage(data), steps, thought)

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for, usable or not; none if it does not say."""
        place, inputs, outputs = self.charged
        return usage_in(part_of(data, place), inputs, outputs)


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


# --- Anthropic and Google ----------------------------------------------------------------------------------------

_ANTHROPIC_VERSION = "2023-06-01"
"""The last with a temperature; models that do not take one say so, and are asked without."""
_ANTHROPIC_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


class AnthropicFormat(ChatFormat):
    """``/v1/messages``: no seed and no log-probabilities; a refusal is a reason to stop."""

    wording = Wording(limits=("max_tokens",), seed=False, alternatives=0)
    headers = MappingProxyType({"anthropic-version": _ANTHROPIC_VERSION})
    listing = "/v1/models?limit=1000"
    path = "/v1/messages"
    charged = (
        "usage",
        ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        ("output_tokens",),
    )

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
        system, turns = _split_system(request.messages)
        body: dict[str, Any] = {"model": model, "max_tokens": wording.token_limit(request), "messages": turns}
        if system:
            body["system"] = system
        if wording.thinking:
            body["thinking"] = {"type": "enabled", "budget_tokens": wording.thinking}
        elif wording.temperature:
            body["temperature"] = request.temperature  # which a model that thinks does not take
        if wording.effort:
            body["output_config"] = {"effort": wording.effort}
        return body

    def read(self, data: Any) -> Written:
        if not isinstance(data, dict) or data.get("type") != "message":
            raise bad_reply("the reply is not a message")
        reason = data.get("stop_reason")
        if reason == "refusal":
            why = part_of(data, "stop_details", "explanation") or part_of(data, "stop_details", "category")
            raise refusal(f"the model refused: {str(why)[:200]}" if why else "the model refused")
        text = parts_text(data.get("content"))
        return Written(text, "length" if reason in _ANTHROPIC_CUT else "stop", self.usage(data))


_GEMINI_ROLES = {"user": "user", "assistant": "model"}
_GEMINI_PREFIX = "models/"
_GEMINI_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"}
)


class GeminiFormat(ChatFormat):
    """``models/MODEL:generateContent`` of the Gemini API, where a blocked prompt has no candidates."""

    wording = Wording(limits=("maxOutputTokens",))
    listing = "/v1/models?pageSize=1000"
    path = "/v1/models/{model}:generateContent"
    charged = ("usageMetadata", ("promptTokenCount",), ("candidatesTokenCount", "thoughtsTokenCount"))

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        rows = [row for row in part_of(data, "models") or () if isinstance(part_of(row, "name"), str)]
        return {
            row["name"].removeprefix(_GEMINI_PREFIX): {**row, "context_length": row.get("inputTokenLimit")}
            for row in rows
        }

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:  # noqa: ARG002 - in the route
        system, turns = _split_system(request.messages)
        settings: dict[str, Any] = {"maxOutputTokens": wording.token_limit(request)}
        if wording.temperature:
            settings["temperature"] = request.temperature
        if request.seed is not None and wording.seed:
            settings["seed"] = request.seed
        if wording.alternatives and (request.choices or request.logprobs):
            settings["responseLogprobs"] = True
            if request.choices:
                settings["logprobs"] = wording.alternatives
        thinking: dict[str, Any] = {}
        if wording.thinking is not None:
            thinking["thinkingBudget"] = wording.thinking
        if wording.effort:
            thinking["thinkingLevel"] = wording.effort
        if thinking:
            settings["thinkingConfig"] = thinking
        body: dict[str, Any] = {
            "contents": [{"role": _GEMINI_ROLES[turn.role], "parts": [{"text": turn.content}]} for turn in turns],
            "generationConfig": settings,
        }
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        return body

    def read(self, data: Any) -> Written:
        blocked = part_of(data, "promptFeedback", "blockReason")
        if blocked:
            raise refusal(f"the server's filter blocked the prompt: {blocked}")
        candidates = part_of(data, "candidates")
        if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
            raise bad_reply("the reply has no candidates")
        candidate = candidates[0]
        reason = candidate.get("finishReason")
        if reason in _GEMINI_BLOCKED:
            raise refusal(f"the server's filter stopped the reply: {reason}")
        if reason not in {"STOP", "MAX_TOKENS", None}:
            raise bad_reply(f"the model stopped without a reply: {reason}")
        # a reply that is all thinking has no parts
        text = parts_text(part_of(candidate, "content", "parts") or ())
        return Written(text, "length" if reason == "MAX_TOKENS" else "stop", self.usage(data), _gemini_steps(candidate))


def _gemini_steps(candidate: dict[str, Any]) -> tuple[Step, ...]:
    """The written tokens with their alternatives; empty if any is malformed."""
    chosen = part_of(candidate, "logprobsResult", "chosenCandidates") or ()
    tops = part_of(candidate, "logprobsResult", "topCandidates") or [{}] * len(chosen)
    if len(tops) != len(chosen):
        return ()
    steps = []
    for one, top in zip(chosen, tops, strict=True):
        written = _gemini_token(one)
        listed = [_gemini_token(row) for row in part_of(top, "candidates") or ()]
        if written is None:
            return ()
        alternatives = dict([written, *(row for row in listed if row is not None)])
        steps.append(checked_step(*written, alternatives))
    return tuple(steps)


def _gemini_token(row: Any) -> tuple[str, float] | None:
    token, value = part_of(row, "token"), part_of(row, "logProbability")
    return (token, float(value)) if isinstance(token, str) and isinstance(value, int | float) else None


def refusal(message: str) -> AttemptError:
    """The model, or a filter before or behind it, declined."""
    return AttemptError("refused", message, charged=UNKNOWN_CHARGE)


def parts_text(parts: Any) -> str:
    """The texts of a list of parts, without parts of thinking. Raises AttemptError if it is not such a list."""
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise bad_reply("the reply has no list of parts")
    texts = [part_of(part, "text") for part in parts if not part_of(part, "thought")]
    return "".join(text for text in texts if isinstance(text, str))


def _split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    system = "\n\n".join(message.content for message in messages if message.role == "system" and message.content)
    return system, [message for message in messages if message.role != "system"]


FORMATS = {"openai": ChatFormat, "anthropic": AnthropicFormat, "gemini": GeminiFormat}
