"""Anthropic's wire format: ``/v1/messages``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.models.http_api.chat import Written
from goldless.models.http_api.client import bad_reply, part_of
from goldless.models.http_api.formats import Wording, parts_text, refusal, split_system
from goldless.models.http_api.reading import usage_in
from goldless.models.interface import ChatRequest, Usage

VERSION = "2023-06-01"
"""The last with a temperature; models that do not take one say so, and are asked without."""
_CHARGED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


class AnthropicFormat:
    """No seed and no log-probabilities; a refusal is a reason to stop."""

    wording = Wording(limits=("max_tokens",), seed=False, alternatives=0)
    headers: Mapping[str, str] = {"anthropic-version": VERSION}
    listing: str | None = "/v1/models?limit=1000"

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:
        """The listed models by name."""
        return {row["id"]: row for row in part_of(data, "data") or () if isinstance(part_of(row, "id"), str)}

    def route(self, model: str) -> str:  # noqa: ARG002 - the model is in the body
        """Where a call is sent."""
        return "/v1/messages"

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:
        """The call as JSON."""
        system, turns = split_system(request.messages)
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
        """What a reply says. Raises AttemptError for a refusal or a reply that cannot be used."""
        if not isinstance(data, dict) or data.get("type") != "message":
            raise bad_reply("the reply is not a message")
        reason = data.get("stop_reason")
        if reason == "refusal":
            why = part_of(data, "stop_details", "explanation") or part_of(data, "stop_details", "category")
            raise refusal(f"the model refused: {str(why)[:200]}" if why else "the model refused")
        text = parts_text(data.get("content"))
        return Written(text, "length" if reason in _CUT else "stop", self.usage(data))

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for."""
        return usage_in(part_of(data, "usage"), _CHARGED, ("output_tokens",))
