"""Providers' own wire formats on this machine, as their reference pages describe them.

``ProviderServer`` answers for Anthropic, the Gemini API, Azure and Bedrock beside what ``loopback`` does for OpenAI. It
rejects what the providers reject: a missing version header, fields they do not know, a system turn among the turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from tests.support.servers.loopback import Behaviour, Json, LoopbackServer, chat_reply

TEXT = "A fine reply."
KEY = "provider-key-value"
BLOCKED = "something that a filter blocks"
Reply = tuple[int, Json]


class ProviderServer(LoopbackServer):
    """A loopback server that also speaks the native formats; ``said`` replaces what its models reply."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        super().__init__(behaviour)
        self.said: Callable[[Json], Json] | None = None
        self.headers: dict[str, str] = {}
        """Sent with each native reply."""
        self.seen_headers: list[dict[str, str]] = []

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    async def _answer_or_misbehave(self, request: web.Request, body: Any) -> web.StreamResponse:
        self.seen_headers.append({name.lower(): value for name, value in request.headers.items()})
        path = unquote(request.raw_path.partition("?")[0])
        if body is not None and self.behaviour.faults:
            return await self._misbehave(request, self.behaviour.faults.pop(0))
        for matches, speak in (
            (path.startswith(("/v1/messages", "/v1/models")) and "anthropic-version" in request.headers, anthropic),
            (path.startswith("/v1beta/"), gemini),
            (path.startswith("/openai/"), openai_models),
        ):
            if matches:
                status, reply = speak(self, request, path, body)
                return web.Response(
                    body=orjson.dumps(reply), status=status, headers=self.headers, content_type="application/json"
                )
        return await super()._answer_or_misbehave(request, body)

    def reply_to(self, body: Json, usual: Json) -> Json:
        """The scripted reply, or the usual one."""
        return usual if self.said is None else self.said(body)


# --- Anthropic: platform.claude.com/docs/en/api/messages and /api/versioning -----------------------------------------

_SAMPLING = {"temperature", "top_p", "top_k"}
"""Not in versions from 2026-10-21."""
_ANTHROPIC_FIELDS = {
    *("model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream"),
    *("metadata", "thinking", "tools", "tool_choice", "service_tier", "output_config"),
}


def anthropic(server: ProviderServer, request: web.Request, path: str, body: Any) -> Reply:  # noqa: PLR0911
    def failed(status: int, kind: str, message: str) -> Reply:
        return status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if KEY not in {request.headers.get("x-api-key"), bearer}:
        return failed(401, "authentication_error", "invalid x-api-key")
    if path == "/v1/models":
        listed = [{"type": "model", "id": "claude-toy-1", "display_name": "Toy", "created_at": "2026-01-01T00:00:00Z"}]
        return 200, {"data": listed, "has_more": False, "first_id": "claude-toy-1", "last_id": "claude-toy-1"}
    known = _ANTHROPIC_FIELDS - (_SAMPLING if request.headers["anthropic-version"] >= "2026-10-21" else set())
    if unknown := set(body) - known:
        return failed(400, "invalid_request_error", f"{min(unknown)}: Extra inputs are not permitted")
    if not body.get("max_tokens"):
        return failed(400, "invalid_request_error", "max_tokens: Field required")
    if any(message["role"] not in {"user", "assistant"} for message in body["messages"]):
        return failed(400, "invalid_request_error", 'messages: Unexpected role "system"')
    thinking = body.get("thinking")
    if thinking and (thinking["budget_tokens"] >= body["max_tokens"] or body.get("temperature", 1) != 1):
        return failed(400, "invalid_request_error", "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body["model"] != "claude-toy-1":
        return failed(404, "not_found_error", f"model: {body['model']}")
    return 200, server.reply_to(body, anthropic_reply([{"type": "text", "text": TEXT}]))


def anthropic_reply(content: list[Json], *, stop: str = "end_turn", **more: Any) -> Json:
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 4}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-toy-1",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
        **more,
    }


# --- Gemini: ai.google.dev/api/generate-content ---------------------------------------------------------------------

_GEMINI_SETTINGS = {
    *("maxOutputTokens", "temperature", "topP", "topK", "seed", "responseLogprobs", "logprobs", "thinkingConfig"),
    *("candidateCount", "stopSequences"),
}


def gemini(server: ProviderServer, request: web.Request, path: str, body: Any) -> Reply:  # noqa: PLR0911
    def failed(status: int, kind: str, message: str) -> Reply:
        return status, {"error": {"code": status, "message": message, "status": kind}}

    if request.headers.get("x-goog-api-key") != KEY:
        return failed(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
    if path == "/v1beta/models":
        return 200, {"models": [{"name": "models/gemini-toy", "inputTokenLimit": 1000, "outputTokenLimit": 100}]}
    if path != "/v1beta/models/gemini-toy:generateContent":
        return failed(404, "NOT_FOUND", f"{path} is not found for API version v1beta.")
    settings = body.get("generationConfig", {})
    if unknown := set(settings) - _GEMINI_SETTINGS:
        return failed(400, "INVALID_ARGUMENT", f'Invalid JSON payload received. Unknown name "{min(unknown)}"')
    if any(content.get("role", "user") not in {"user", "model"} for content in body["contents"]):
        return failed(400, "INVALID_ARGUMENT", "Please use a valid role: user, model.")
    if settings.get("responseLogprobs") and server.said is None:
        return failed(400, "INVALID_ARGUMENT", "Logprobs is not enabled for models/gemini-toy")
    return 200, server.reply_to(body, gemini_reply([{"text": TEXT}]))


def gemini_reply(parts: list[Json], *, finish: str = "STOP", **candidate: Any) -> Json:
    content = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    counts = {"promptTokenCount": 11, "candidatesTokenCount": 3, "thoughtsTokenCount": 1, "totalTokenCount": 15}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0, **candidate}],
        "usageMetadata": counts,
        "modelVersion": "gemini-toy",
        "responseId": "r1",
    }


# --- OpenAI's models at Azure (learn.microsoft.com/azure/ai-foundry/openai/latest, and the dated API) and Bedrock ---


def openai_models(server: ProviderServer, request: web.Request, path: str, body: Any) -> Reply:
    if KEY not in {request.headers.get("api-key"), request.headers.get("Authorization", "").removeprefix("Bearer ")}:
        return 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}}
    dated = path == "/openai/deployments/toy/chat/completions" and request.query.get("api-version") == "2024-10-21"
    if not dated and (path != "/openai/v1/chat/completions" or body["model"] != "toy"):
        message = "The API deployment for this resource does not exist."
        return 404, {"error": {"code": "DeploymentNotFound", "message": message}}
    if body["messages"][-1]["content"] == BLOCKED:
        message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
        return 400, {"error": {"code": "content_filter", "message": message, "param": "prompt", "status": 400}}
    return 200, server.reply_to(body, chat_reply(TEXT))
