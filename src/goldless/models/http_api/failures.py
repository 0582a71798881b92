"""What a server or the way to it can do wrong, as one typed exception inside this package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from goldless.records import CallFailure, FailureKind

_RETRYABLE_STATUSES = frozenset({429, 500, 502, 503, 504, 529})
_OVERLOAD_STATUSES = frozenset({429, 529})
_TOO_LONG_STATUSES = frozenset({400, 422, 500})
"""TGI answers 422; llama.cpp now and then 500."""
_SHOWN_CHARACTERS = 400
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|longer than the (?:model's context|maximum model length)"
    r"|too long to fit into the model|prompt is too long|input is too long|exceeds? (?:the )?context (?:limit|window)"
    r"|exceeds? the (?:available context|configured limit of \d+ tokens|maximum number of tokens)"
    r"|context size has been exceeded|tokens \+ `?max_new_tokens`? must be <=",
    re.IGNORECASE,
)
"""How servers word it: OpenAI, vLLM, SGLang, Anthropic, Bedrock, llama.cpp, Gemini, TGI."""
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',}\]]+", re.IGNORECASE)


class ApiKey:
    """A key that cannot be printed by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def __repr__(self) -> str:
        """Whether there is a key, never the key."""
        return "<key>" if self._value else "<no key>"

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self._value)

    def headers(self) -> dict[str, str]:
        """The only place the key goes to."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def redact(self, text: str) -> str:
        """The text without the key, and without anything that looks like credentials."""
        if self._value:
            text = text.replace(self._value, "[redacted]")
        return _CREDENTIALS.sub(r"\1 [redacted]", text)


class AttemptError(Exception):
    """One attempt that gave nothing, or the last of several.

    It stays inside this package: callers of a model get a :class:`CallFailure`.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int = 0,
        param: str = "",
        retryable: bool = False,
        overloaded: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Keep what the retry, the limiter and the record need."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        """HTTP status; 0 where there was none."""
        self.param = param
        """The parameter the server says is wrong, where it says so."""
        self.retryable = retryable
        self.overloaded = overloaded
        """Too many calls at once: the concurrency must fall."""
        self.retry_after_seconds = retry_after_seconds
        self.attempts = 1

    def record(self) -> CallFailure:
        """The failure as it is stored."""
        return CallFailure(self.kind, self.message, self.attempts)

    def names(self, parameter: str) -> bool:
        """Whether the server objects to this parameter by name."""
        return self.param == parameter or re.search(rf"\b{parameter}\b", self.message) is not None


def bad_reply(message: str) -> AttemptError:
    """A well-formed answer that cannot be used; asking again would give the same."""
    return AttemptError("bad_reply", message)


def status_failure(status: int, body: bytes, headers: Mapping[str, str], *, url: str, key: ApiKey) -> AttemptError:
    """The failure an HTTP status other than 200 stands for."""
    said, param, code = _error_text(body)
    if 300 <= status < 400:
        # Following would send texts, and perhaps a key, to an address nobody named.
        said = f"it redirects to {headers.get('Location', 'another address')}; give that address instead"
    message = key.redact(f"{url} answered {status}: {said}" if said else f"{url} answered {status}")
    kind: FailureKind = "rejected"
    if status == 413 or (status in _TOO_LONG_STATUSES and _TOO_LONG.search(f"{code} {said}")):
        kind = "too_long"
    elif status == 429:
        kind = "rate_limited"
    elif status >= 500:
        kind = "server_error"
    return AttemptError(
        kind,
        _shortened(message),
        status=status,
        param=param,
        # An account without credit also answers 429; waiting does not fill it.
        retryable=status in _RETRYABLE_STATUSES and code != "insufficient_quota" and kind != "too_long",
        overloaded=status in _OVERLOAD_STATUSES,
        retry_after_seconds=retry_after_seconds(headers.get("Retry-After")),
    )


def transport_failure(error: BaseException, *, url: str, key: ApiKey) -> AttemptError:
    """The failure an exception of the HTTP library stands for."""
    said = key.redact(str(error)) or type(error).__name__
    if isinstance(error, aiohttp.ClientSSLError):
        return AttemptError("connection", _shortened(f"{url}: no trusted connection: {said}"))
    if isinstance(error, TimeoutError):
        return AttemptError("timeout", _shortened(f"{url} did not answer in time: {said}"), retryable=True)
    return AttemptError("connection", _shortened(f"{url}: the connection failed: {said}"), retryable=True)


def invalid_json(body: bytes, *, url: str, key: ApiKey) -> AttemptError:
    """The failure of an answer that is no JSON, most often a cut one."""
    start = key.redact(body[:120].decode(errors="replace"))
    return AttemptError("bad_reply", f"{url} answered with invalid JSON ({len(body)} bytes: {start!r})", retryable=True)


def retry_after_seconds(value: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds to wait as a Retry-After header says it (a number or an HTTP date); None where it says nothing usable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())


def _error_text(body: bytes) -> tuple[str, str, str]:
    """Message, parameter and code out of the error formats in use, or the body as it is."""
    try:
        data: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace").strip(), "", ""
    if isinstance(data, dict):
        error = data.get("error", data)
        if isinstance(error, dict):
            said = error.get("message") or error.get("detail") or error
            text = said if isinstance(said, str) else orjson.dumps(said).decode()
            return text, str(error.get("param") or ""), str(error.get("code") or "")
        return str(error), "", ""
    return str(data), "", ""


def _shortened(message: str) -> str:
    return message if len(message) <= _SHOWN_CHARACTERS else f"{message[:_SHOWN_CHARACTERS]}…"
