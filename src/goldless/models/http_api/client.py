"""One HTTP session to one server: addresses, keys, JSON, all errors as one exception type, and checks of replies."""

from __future__ import annotations

import math
import re
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from ipaddress import ip_address
from typing import Any, TypeVar

import aiohttp
import orjson
from yarl import URL

from goldless.errors import GoldlessError, kind_and_place
from goldless.models.http_api.limits import exhausted_wait, requested_wait
from goldless.models.interface import Usage
from goldless.records import CallFailure, FailureKind

_RETRYABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
_OVERLOAD_STATUSES = frozenset({429, 529})
_OUTAGE_STATUSES = frozenset({502, 503, 504})
"""A gateway without the server behind it, or a server that is starting."""
_TOO_LONG_STATUSES = frozenset({400, 422, 500})
"""TGI responds with 422; llama.cpp sometimes with 500."""
_NOT_TAKEN_STATUSES = frozenset({503, 529})
"""The server says that it did not work on the request; after another failure of a server it may charge for it."""
_SHOWN_CHARACTERS = 400
CONNECT_SECONDS = 10.0
"""For a connection."""
MOST_REPLY_BYTES = 64 << 20
"""Of one reply, unpacked. The log-probabilities of a prompt of 100,000 tokens take about 15 MB."""
LEAST_SECRET_CHARACTERS = 12
"""A shorter key is a placeholder such as EMPTY, which a model may well write."""
UNKNOWN_CHARGE = (0, 0)
"""An attempt that may be charged for, nobody knows how much."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|longer than the (?:model's context|maximum model length)"
    r"|too long to fit into the model|prompt is too long|input is too long|exceeds? (?:the )?context (?:limit|window)"
    r"|exceeds? the (?:available context|configured limit of \d+ tokens|maximum number of tokens)"
    r"|context size has been exceeded|tokens \+ `?max_new_tokens`? must be <=",
    re.IGNORECASE,
)
"""How servers word it: OpenAI, vLLM, SGLang, Anthropic, Bedrock, llama.cpp, Gemini, TGI."""
_BAD_KEY = re.compile(
    r"api key (?:not valid|not found|expired)|API_KEY_INVALID|please pass a valid api key", re.IGNORECASE
)
"""How Gemini rejects a key, with status 400."""
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
"""Error codes of Azure and OpenAI for a prompt that their filter blocks."""
Said = TypeVar("Said", str, bytes)
REDACTED = "[redacted]"
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',}\]]+", re.IGNORECASE)


class Client:
    """Sends single requests; knows nothing of retries or concurrency."""

    def __init__(self, base_url: str, key: ApiKey, headers: Mapping[str, str] | None = None) -> None:
        """``base_url`` usually ends in ``/v1``; native routes of a server are beside it."""
        self.base_url, _, self._query = base_url.rstrip("/").partition("?")
        self.key = key
        self._headers = dict(headers or {})
        self._root = self.base_url.removesuffix("/v1")
        self._proxy = proxy_for(URL(self.base_url))
        self._session: aiohttp.ClientSession | None = None
        self._addresses: dict[str, URL] = {}

    def address(self, route: str) -> URL:
        """The full address of ``/v1/…`` or of a native route such as ``/tokenize``."""
        known = self._addresses.get(route)
        if known is None:
            base = f"{self.base_url}{route[3:]}" if route.startswith("/v1/") else f"{self._root}{route}"
            joint = "&" if "?" in base else "?"
            # encoded: a model's name may have characters that the library would write in another way
            known = URL(f"{base}{joint}{self._query}" if self._query else base, encoded=True)
            self._addresses[route] = known
        return known

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, method: str, route: str, body: bytes | None = None) -> tuple[Any, float | None]:
        """The decoded reply to a JSON body, and a pause in seconds that it requests. Raises AttemptError."""
        content, headers, url = await self.transfer(method, route, body)
        return self._decoded(content, headers, url), exhausted_wait(headers)

    async def transfer(
        self, method: str, route: str, body: bytes | None = None, content_type: str = "", *, most_bytes: int = 0
    ) -> tuple[bytes, Mapping[str, str], URL]:
        """The reply as it is, to JSON or another type of content. Raises AttemptError.

        The caller limits its time. ``most_bytes``: of the reply, MOST_REPLY_BYTES if not given.
        """
        session, url = self._session or self._open(), self.address(route)
        own = {"Content-Type": content_type} if content_type else None
        most_bytes = most_bytes or MOST_REPLY_BYTES
        parts: list[bytes] = []
        size = 0
        try:
            async with session.request(
                method, url, data=body, headers=own, allow_redirects=False, proxy=self._proxy
            ) as response:
                status, headers = response.status, response.headers
                async for part in response.content.iter_any():
                    size += len(part)
                    if size > most_bytes:  # without reading on
                        raise bad_reply(f"{url} sent more than {most_bytes:,} bytes, which no reply needs")
                    parts.append(part)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # The library's exceptions carry the request headers, the key among them: the chain ends here.
            raise self.failure(error, url) from None
        content = b"".join(parts)
        if not 200 <= status < 300:
            raise status_failure(status, content, headers, url=str(url), key=self.key)
        return content, headers, url

    def failure(self, error: BaseException, url: URL) -> AttemptError:
        """The failure for an exception of the HTTP library, or for a call that took too long."""
        said = self.key.redact(str(error)) or type(error).__name__
        if isinstance(error, aiohttp.ClientSSLError):
            return AttemptError("connection", _shortened(f"{url}: no trusted connection: {said}"))
        # without a connection nothing was sent
        unconnected = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        charged = None if unconnected else UNKNOWN_CHARGE
        if isinstance(error, TimeoutError) and not unconnected:
            return AttemptError("timeout", _shortened(f"{url} timed out: {said}"), retryable=True, charged=charged)
        message = _shortened(f"{url}: the connection failed: {said}")
        return AttemptError("connection", message, retryable=True, charged=charged)

    def _decoded(self, content: bytes, headers: Mapping[str, str], url: URL) -> Any:
        content = self.key.withhold(content)
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError:  # usually a truncated reply
            start = self.key.redact(content[:120].decode(errors="replace"))
            message = f"{url} returned invalid JSON ({len(content)} bytes: {start!r})"
            raise AttemptError("bad_reply", message, retryable=True, charged=UNKNOWN_CHARGE) from None
        if part_of(data, "error") and "choices" not in data:
            # Some gateways answer 200 and put the failure of the model behind them into the body.
            code = part_of(data, "error", "code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 400
            raise status_failure(status, content, headers, url=str(url), key=self.key)
        return data

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # The limiter decides how many calls there are; a second limit here would hide from it.
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            headers={"Content-Type": "application/json", "User-Agent": "goldless"} | self._headers | self.key.headers(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )
        return self._session


def proxy_for(url: URL) -> str | None:
    """The proxy in the environment for this address, or None; this machine is always reached directly.

    ``trust_env`` would look it up on every call, and would read passwords from .netrc.
    """
    host = url.host or ""
    with suppress(ValueError):  # a name is not an address
        if host == "localhost" or ip_address(host).is_loopback:
            return None
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(url.scheme)


# --- what can go wrong -------------------------------------------------------------------------------------------


class ApiKey:
    """A key that cannot be printed by accident."""

    __slots__ = ("_header", "_value")

    def __init__(self, value: str = "", header: str = "Authorization: Bearer ") -> None:
        """``header``: how the server wants it, up to where the key is put."""
        self._value = value
        self._header = header

    def __repr__(self) -> str:
        return "<key>" if self._value else "<no key>"

    def __bool__(self) -> bool:
        return bool(self._value)

    def headers(self) -> dict[str, str]:
        """The only place where the key is used."""
        name, _, before = self._header.partition(": ")
        return {name: f"{before}{self._value}"} if self._value else {}

    def redact(self, text: str) -> str:
        """A server's message without the key, and without anything that looks like credentials."""
        if self._value:
            text = text.replace(self._value, REDACTED)
        return _CREDENTIALS.sub(rf"\1 {REDACTED}", text)

    def withhold(self, said: Said) -> Said:
        """A successful reply without the key, as bytes or as text."""
        if len(self._value) < LEAST_SECRET_CHARACTERS:
            return said
        if isinstance(said, bytes):
            return said.replace(self._value.encode(), REDACTED.encode())
        return said.replace(self._value, REDACTED)


@dataclass(eq=False)
class AttemptError(Exception):
    """One failed attempt, or the last of several, with what the retry, the limiter and the record need.

    It stays inside this package: callers of a model get a :class:`CallFailure`.
    """

    kind: FailureKind
    message: str
    _: KW_ONLY
    status: int = 0
    """HTTP status; 0 if there was none."""
    param: str = ""
    """The parameter that the server rejects, if it says so."""
    retryable: bool = False
    overloaded: bool = False
    """Too many calls at once: reduce the concurrency."""
    retry_after_seconds: float | None = None
    attempts: int = 1
    charged: tuple[int, int] | None = None
    """As in a CallFailure."""
    bad_key: bool = False
    """The key is missing, wrong or expired, or does not allow this."""

    def __str__(self) -> str:
        return self.message

    @property
    def is_answer(self) -> bool:
        """Whether this is the server's final word: a rejection or an unusable reply, not an outage."""
        return self.kind in {"rejected", "bad_reply"}

    @property
    def is_outage(self) -> bool:
        """Whether the server is down, or not yet up, rather than failing at this call."""
        return self.retryable and (self.kind == "connection" or self.status in _OUTAGE_STATUSES)

    def record(self) -> CallFailure:
        """The failure as stored."""
        return CallFailure(self.kind, self.message, self.attempts, self.charged)

    def names(self, parameter: str) -> bool:
        """Whether the server rejects this parameter by name."""
        return self.param == parameter or re.search(rf"\b{parameter}\b", self.message, re.IGNORECASE) is not None


def part_of(reply: Any, *place: str) -> Any:
    """The value at a path in a reply, key by key; None if there is no such path."""
    for key in place:
        reply = reply.get(key) if isinstance(reply, dict) else None
    return reply


def first_choice(data: Any) -> dict[str, Any]:
    """The first choice of an OpenAI-style reply. Raises AttemptError if there is none."""
    try:
        choice = data["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply("the reply has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply("the reply's first choice is not an object")
    return choice


def bad_reply(message: str) -> AttemptError:
    """The failure of a well-formed but unusable reply; a retry would give the same."""
    return AttemptError("bad_reply", message, charged=UNKNOWN_CHARGE)


def status_failure(status: int, body: bytes, headers: Mapping[str, str], *, url: str, key: ApiKey) -> AttemptError:
    """The failure for an HTTP status other than 200."""
    said, param, code, error = _error_text(body)
    if 300 <= status < 400:
        # Following would send texts, and perhaps a key, to an address nobody named.
        said = f"it redirects to {headers.get('Location', 'another address')}. Use that address instead"
    message = key.redact(f"{url} returned status {status}: {said}" if said else f"{url} returned status {status}")
    kind: FailureKind = "rejected"
    if status == 413 or (status in _TOO_LONG_STATUSES and _TOO_LONG.search(f"{code} {said}")):
        kind = "too_long"
    elif status == 429:
        kind = "rate_limited"
    elif status >= 500 or status == 408:
        kind = "server_error"
    elif code in _FILTERED:
        kind = "refused"
    return AttemptError(
        kind,
        _shortened(message),
        status=status,
        param=param,
        # An account without credit also answers 429; waiting does not fill it.
        retryable=status in _RETRYABLE_STATUSES and code != "insufficient_quota" and kind != "too_long",
        overloaded=status in _OVERLOAD_STATUSES,
        retry_after_seconds=requested_wait(headers, error),
        charged=UNKNOWN_CHARGE
        if kind == "refused" or (kind == "server_error" and status not in _NOT_TAKEN_STATUSES)
        else None,
        bad_key=status in {401, 403} or (status == 400 and _BAD_KEY.search(said) is not None),
    )


def _error_text(body: bytes) -> tuple[str, str, str, Any]:
    """Message, parameter and code from the common error formats, or the body as it is; and the error itself."""
    try:
        data: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace").strip(), "", "", None
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return str(error), "", "", error
    said = error.get("message") or error.get("detail") or error
    text = said if isinstance(said, str) else orjson.dumps(said).decode()
    return text, str(error.get("param") or ""), str(error.get("code") or ""), error


def _shortened(message: str) -> str:
    return message if len(message) <= _SHOWN_CHARACTERS else f"{message[:_SHOWN_CHARACTERS]}…"


# --- what is believed of a reply ---------------------------------------------------------------------------------

ROUNDING_NATS = 1e-3
"""In half precision log-probabilities can exceed zero by at most about this much."""
_MOST_MASS = 1.01
"""The probabilities of different tokens at one position sum to at most 1, but for rounding."""


@contextmanager
def reading() -> Iterator[None]:
    """Anything that is raised while a reply is read becomes the AttemptError of a bad reply."""
    try:
        yield
    except (AttemptError, GoldlessError):
        raise
    except Exception as error:  # noqa: BLE001 - that is what it is for
        raise bad_reply(f"the reply cannot be read ({kind_and_place(error)})") from None


def usage_in(counts: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Usage:
    """Tokens charged, by the names of their counts; none at all if any is not a number of tokens."""
    sums = [0, 0]
    for side, kinds in enumerate((inputs, outputs)):
        for kind in kinds:
            value = part_of(counts, kind)
            if value is None:
                continue
            whole = type(value) is int or (type(value) is float and value.is_integer())
            if not whole or value < 0:
                return Usage()
            sums[side] += int(value)
    return Usage(*sums)


def usage_of(counts: Any) -> Usage:
    """Tokens charged, from an OpenAI ``usage`` object or SGLang's ``meta_info``."""
    return usage_in(counts, ("prompt_tokens",), ("completion_tokens",))


def check_logprobs(values: Iterable[Any]) -> None:
    """Raise AttemptError unless each value can be a log-probability; how small one may be is up to the caller."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise bad_reply(f"got {value!r} instead of a log-probability")
        if value > ROUNDING_NATS:
            raise bad_reply(f"got {value!r}, which is not a log-probability")


def check_alternatives(values: Sequence[Any]) -> None:
    """Raise AttemptError unless the values can be log-probabilities of different tokens at one position."""
    check_logprobs(values)
    mass = sum(map(math.exp, values))
    if mass > _MOST_MASS:
        raise bad_reply(f"the probabilities of the tokens at one position sum to {mass:.3g}")
