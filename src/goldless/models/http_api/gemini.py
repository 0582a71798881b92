"""Google's wire format: ``models/MODEL:generateContent`` of the Gemini API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from goldless.models.http_api.chat import Step, Written, checked_step
from goldless.models.http_api.client import bad_reply, part_of
from goldless.models.http_api.formats import Wording, parts_text, refusal, split_system
from goldless.models.http_api.reading import usage_in
from goldless.models.interface import ChatRequest, Usage

_ROLES = {"user": "user", "assistant": "model"}
_LISTED = "models/"
_CUT = "MAX_TOKENS"
_FINE = frozenset({"STOP", _CUT, None})
_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"}
)


class GeminiFormat:
    """Thinking counts as output; a blocked prompt has no candidates."""

    wording = Wording(limits=("maxOutputTokens",))
    headers: Mapping[str, str] = {}
    listing: str | None = "/v1/models?pageSize=1000"

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        """The listed models by name."""
        rows = [row for row in part_of(data, "models") or () if isinstance(part_of(row, "name"), str)]
        return {
            row["name"].removeprefix(_LISTED): {**row, "context_length": row.get("inputTokenLimit")} for row in rows
        }

    def route(self, model: str) -> str:
        """Where a call is sent."""
        return f"/v1/models/{quote(model.removeprefix(_LISTED), safe='')}:generateContent"

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:  # noqa: ARG002 - in the route
        """The call as JSON."""
        system, turns = split_system(request.messages)
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
            "contents": [{"role": _ROLES[turn.role], "parts": [{"text": turn.content}]} for turn in turns],
            "generationConfig": settings,
        }
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        return body

    def read(self, data: Any) -> Written:
        """What a reply says. Raises AttemptError for a refusal or a reply that cannot be used."""
        blocked = part_of(data, "promptFeedback", "blockReason")
        if blocked:
            raise refusal(f"the server's filter blocked the prompt: {blocked}")
        candidates = part_of(data, "candidates")
        if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
            raise bad_reply("the reply has no candidates")
        candidate = candidates[0]
        reason = candidate.get("finishReason")
        if reason in _BLOCKED:
            raise refusal(f"the server's filter stopped the reply: {reason}")
        if reason not in _FINE:
            raise bad_reply(f"the model stopped without a reply: {reason}")
        # a reply that is all thinking has no parts
        text = parts_text(part_of(candidate, "content", "parts") or ())
        return Written(text, "length" if reason == _CUT else "stop", self.usage(data), _steps(candidate))

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for; thinking is output."""
        written = ("candidatesTokenCount", "thoughtsTokenCount")
        return usage_in(part_of(data, "usageMetadata"), ("promptTokenCount",), written)


def _steps(candidate: dict[str, Any]) -> tuple[Step, ...]:
    """The written tokens with their alternatives; empty if any is malformed."""
    chosen = part_of(candidate, "logprobsResult", "chosenCandidates") or ()
    tops = part_of(candidate, "logprobsResult", "topCandidates") or [{}] * len(chosen)
    if len(tops) != len(chosen):
        return ()
    steps = []
    for one, top in zip(chosen, tops, strict=True):
        written = _token(one)
        listed = [_token(row) for row in part_of(top, "candidates") or ()]
        if written is None:
            return ()
        alternatives = dict([written, *(row for row in listed if row is not None)])
        steps.append(checked_step(*written, alternatives))
    return tuple(steps)


def _token(row: Any) -> tuple[str, float] | None:
    token, value = part_of(row, "token"), part_of(row, "logProbability")
    return (token, float(value)) if isinstance(token, str) and isinstance(value, int | float) else None
