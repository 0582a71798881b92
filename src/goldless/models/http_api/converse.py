"""Bedrock's wire format, ``/model/MODEL/converse``, and the signature of its requests."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from yarl import URL

from goldless.models.http_api.chat import Written
from goldless.models.http_api.client import ApiKey, bad_reply, part_of
from goldless.models.http_api.formats import Wording, parts_text, refusal, split_system
from goldless.models.http_api.reading import usage_in
from goldless.models.interface import ChatRequest, Message, Usage

_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_BLOCKED = frozenset({"guardrail_intervened", "content_filtered", "refusal"})
_CHARGED = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_SERVICE = "bedrock"
_ALGORITHM = "AWS4-HMAC-SHA256"


class ConverseFormat:
    """One format for all models on Bedrock; no seed and no log-probabilities."""

    wording = Wording(limits=("maxTokens",), seed=False, alternatives=0)
    headers: Mapping[str, str] = {}
    listing: str | None = None

    def entries(self, data: Any) -> dict[str, Mapping[str, Any]]:  # noqa: ARG002 - nothing is listed
        """The listed models by name: none."""
        return {}

    def route(self, model: str) -> str:
        """Where a call is sent."""
        return f"/model/{quote(model, safe='')}/converse"

    def body(self, request: ChatRequest, *, model: str, wording: Wording) -> dict[str, Any]:  # noqa: ARG002 - in the route
        """The call as JSON."""
        system, turns = split_system(request.messages)
        limits: dict[str, Any] = {"maxTokens": wording.token_limit(request)}
        body: dict[str, Any] = {"messages": [_turn(turn) for turn in turns], "inferenceConfig": limits}
        if system:
            body["system"] = [{"text": system}]
        if wording.thinking:
            thinking = {"type": "enabled", "budget_tokens": wording.thinking}
            body["additionalModelRequestFields"] = {"thinking": thinking}
        elif wording.temperature:
            limits["temperature"] = request.temperature
        if wording.effort:
            body["outputConfig"] = {"effort": wording.effort}
        return body

    def read(self, data: Any) -> Written:
        """What a reply says. Raises AttemptError for a refusal or a reply that cannot be used."""
        reason = part_of(data, "stopReason")
        if reason in _BLOCKED:
            raise refusal(f"the server's filter stopped the reply: {reason}")
        if part_of(data, "output", "message") is None:
            raise bad_reply("the reply has no message")
        text = parts_text(part_of(data, "output", "message", "content"))
        return Written(text, "length" if reason in _CUT else "stop", self.usage(data))

    def usage(self, data: Any) -> Usage:
        """The tokens that a reply says it is charged for."""
        return usage_in(part_of(data, "usage"), _CHARGED, ("outputTokens",))


def _turn(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": [{"text": message.content}]}


class AwsKey(ApiKey):
    """Access keys that sign each request (Signature Version 4) and are never sent."""

    __slots__ = ("_access", "_region", "_token")

    def __init__(self, access: str, secret: str, region: str, token: str = "") -> None:
        """``token``: of temporary keys."""
        super().__init__(secret)
        self._access = access
        self._region = region
        self._token = token

    def headers(self) -> dict[str, str]:
        """None: a signature is different for each request."""
        return {}

    def secrets(self) -> tuple[str, ...]:
        """What must not be written anywhere."""
        return (*super().secrets(), *filter(None, (self._access, self._token)))

    def signed(self, method: str, url: URL, body: bytes) -> dict[str, str] | None:
        """The headers that prove that this request is ours."""
        return self.signature(method, url, body, datetime.now(UTC))

    def signature(self, method: str, url: URL, body: bytes, now: datetime) -> dict[str, str]:
        """The headers that prove that this request, sent now, is ours."""
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{stamp[:8]}/{self._region}/{_SERVICE}/aws4_request"
        host = url.host if url.is_default_port() else f"{url.host}:{url.port}"
        shown = {"host": str(host), "x-amz-date": stamp}
        if self._token:
            shown["x-amz-security-token"] = self._token
        names = ";".join(shown)
        lines = "".join(f"{name}:{value}\n" for name, value in shown.items())
        # the path as it is sent is quoted once more
        path = quote(url.raw_path, safe="/-_.~")
        canonical = "\n".join((method, path, url.raw_query_string, lines, names, hashlib.sha256(body).hexdigest()))
        to_sign = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{self._value}".encode()
        for part in (*scope.split("/"), to_sign):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        del shown["host"]
        shown["Authorization"] = (
            f"{_ALGORITHM} Credential={self._access}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        )
        return shown
