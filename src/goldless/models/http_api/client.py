"""Calls to one server: HTTP, keys, failures as one exception, retries, and how many calls there are at once.

The number of calls at once doubles with every round (as many clean replies as calls allowed) as long as that brings at
least a quarter more throughput. From the first time that a server is overloaded (429, 529, a timeout), it grows by 5%
with every clean round and falls to 80% with every overload; many 429 within one round are one overload.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import random
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import anyio
import orjson
from yarl import URL

from goldless.errors import GoldlessError, kind_and_place
from goldless.models.usage import UNKNOWN_CHARGE, Reservations
from goldless.records import FailureKind

if TYPE_CHECKING:
    from goldless.models.interface import Usage
    from goldless.models.usage import Ledger

LOGGER = logging.getLogger("goldless.models")
START, GROWTH, FALL, LEAST_GAIN = 8, 1.05, 0.8, 1.25
CONNECT_SECONDS, LONGEST_WAIT_SECONDS = 10.0, 30.0
LONGEST_PAUSE_SECONDS = 60.0  # for a limit that a good reply says is used up; after it, the server's own answer decides
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""If the server requests a longer pause than this, the call is left open for another run."""
LONGEST_LOOK_SECONDS = 5.0  # between two attempts to find a server up again
MOST_REPLY_BYTES = 64 << 20
"""Of one reply, unpacked. The log-probabilities of a prompt of 100,000 tokens take about 15 MB."""
LEAST_SECRET_CHARACTERS = 12  # a shorter key is a placeholder such as EMPTY, which a model may well write
SHOWN_CHARACTERS = 400
REDACTED = "[redacted]"
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',}\]]+", re.IGNORECASE)


class ApiKey:
    """A key that cannot be printed by accident."""

    __slots__ = ("_header", "_value")

    def __init__(self, value: str = "", header: str = "Authorization: Bearer ") -> None:
        self._value = value
        self._header = header  # how the server wants it, up to where the key is put

    def __repr__(self) -> str:
        return "<key>" if self._value else "<no key>"

    def headers(self) -> dict[str, str]:
        """The only place where the key is used."""
        name, _, before = self._header.partition(": ")
        return {name: f"{before}{self._value}"} if self._value else {}

    def redact(self, text: str) -> str:
        """A server's message without the key and anything that looks like credentials."""
        if self._value:
            text = text.replace(self._value, REDACTED)
        return _CREDENTIALS.sub(rf"\1 {REDACTED}", text)

    def withhold(self, text: str) -> str:
        """The text of a model, without the key."""
        return text if len(self._value) < LEAST_SECRET_CHARACTERS else text.replace(self._value, REDACTED)


# --- what can go wrong -------------------------------------------------------------------------------------------

_RETRYABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
_OUTAGE_STATUSES = frozenset({502, 503, 504})  # a gateway without the server behind it, or a server that is starting
_NOT_TAKEN_STATUSES = frozenset({503, 529})
"""The server says that it did not work on the request; after another failure of a server it may charge for it."""
_TOO_LONG_STATUSES = frozenset({400, 422, 500})  # TGI responds with 422; llama.cpp sometimes with 500
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|longer than the (?:model's context|maximum model length)"
    r"|too long to fit into the model|prompt is too long|input is too long|exceeds? (?:the )?context (?:limit|window)"
    r"|exceeds? the (?:available context|configured limit of \d+ tokens|maximum number of tokens)"
    r"|context size has been exceeded|tokens \+ `?max_new_tokens`? must be <=",
    re.IGNORECASE,
)
"""The wording of servers: OpenAI, vLLM, SGLang, Anthropic, Bedrock, llama.cpp, Gemini, TGI."""
_NEVER_FITS = re.compile(r"request too large for .*\blimit\b.*\brequested\b", re.IGNORECASE | re.DOTALL)
"""With status 429: one request exceeds what OpenAI or Groq allow in a minute, so waiting does not help."""
_BAD_KEY = re.compile(r"api key (?:not valid|not found|expired)|API_KEY_INVALID|pass a valid api key", re.IGNORECASE)
"""Gemini's wording when it rejects a key, with status 400."""


@dataclass(eq=False)
class AttemptError(GoldlessError):
    """One failed attempt, or the last of several; callers of a model get a ``CallFailure`` instead."""

    kind: FailureKind
    message: str
    _: KW_ONLY
    status: int = 0  # HTTP status; 0 if there was none
    param: str = ""  # the parameter that the server rejects, if it says so
    retryable: bool = False
    retry_after_seconds: float | None = None
    attempts: int = 1
    charged: tuple[int, int] | None = None  # as in a CallFailure
    bad_key: bool = False  # the key is missing, wrong or expired, or does not allow this

    def __str__(self) -> str:
        return self.message

    @property
    def is_answer(self) -> bool:
        """True if this is the server's final word: a rejection or an unusable reply, not an outage."""
        return self.kind in {"rejected", "bad_reply"}

    @property
    def is_outage(self) -> bool:
        """True if the server is down, or not yet up, rather than failing at this call."""
        return self.retryable and (self.kind == "connection" or self.status in _OUTAGE_STATUSES)

    def names(self, parameter: str) -> bool:
        """True if the server rejects this parameter by name."""
        return self.param == parameter or re.search(rf"\b{parameter}\b", self.message, re.IGNORECASE) is not None


def bad_reply(message: str, *, retryable: bool = False) -> AttemptError:
    """The failure of an unusable reply; of a well-formed one a retry would give the same."""
    return AttemptError("bad_reply", message, retryable=retryable, charged=UNKNOWN_CHARGE)


@contextmanager
def reading() -> Iterator[None]:
    """Anything that is raised while a reply is read becomes the AttemptError of a bad reply."""
    try:
        yield
    except GoldlessError:
        raise
    except KeyError as error:
        raise bad_reply(f"the reply has no {error.args[0]}") from None
    except Exception as error:  # noqa: BLE001 - that is what it is for
        raise bad_reply(f"the reply cannot be read ({kind_and_place(error)})") from None


def part_of(reply: Any, *place: str) -> Any:
    """The value at a path in a reply, key by key; None if there is no such path."""
    for key in place:
        reply = reply.get(key) if isinstance(reply, dict) else None
    return reply


def status_failure(status: int, body: bytes, headers: Mapping[str, str], *, url: str, key: ApiKey) -> AttemptError:
    """The failure for an HTTP status other than 200."""
    said, error = body.decode(errors="replace").strip(), None
    with suppress(orjson.JSONDecodeError):
        data = orjson.loads(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        text = (part_of(error, "message") or part_of(error, "detail") or error) if error is not None else ""
        said = text if isinstance(text, str) else orjson.dumps(text).decode()
    code = str(part_of(error, "code") or "")
    if 300 <= status < 400:
        # Following would send texts, and perhaps a key, to an address nobody named.
        said = f"it redirects to {headers.get('Location', 'another address')}. Use that address instead"
    kind: FailureKind = "rejected"
    too_long = status in _TOO_LONG_STATUSES and _TOO_LONG.search(f"{code} {said}")
    if status == 413 or too_long or (status == 429 and _NEVER_FITS.search(said)):
        kind = "too_long"
    elif status == 429:
        kind = "rate_limited"
    elif status >= 500 or status == 408:
        kind = "server_error"
    elif code in {"content_filter", "content_policy_violation"}:  # of Azure and OpenAI
        kind = "refused"
    charged = kind == "refused" or (kind == "server_error" and status not in _NOT_TAKEN_STATUSES)
    wait = requested_wait(headers, error)
    soon = (wait or 0.0) <= LONGEST_RETRY_AFTER_SECONDS
    return AttemptError(
        kind,
        _shortened(key.redact(f"{url} returned status {status}{f': {said}' if said else ''}")),
        status=status,
        param=str(part_of(error, "param") or ""),
        # An account without credit also answers 429; waiting does not fill it.
        retryable=status in _RETRYABLE_STATUSES and soon and code != "insufficient_quota" and kind != "too_long",
        retry_after_seconds=wait,
        charged=UNKNOWN_CHARGE if charged else None,
        bad_key=status in {401, 403} or (status == 400 and _BAD_KEY.search(said) is not None),
    )


def _shortened(message: str) -> str:
    return message if len(message) <= SHOWN_CHARACTERS else f"{message[:SHOWN_CHARACTERS]}…"


# --- waits that a server requests --------------------------------------------------------------------------------

_LIMITS = [
    (form.format(of, "remaining"), form.format(of, "reset"))
    for form in ("x-ratelimit-{1}{0}", "anthropic-ratelimit{0}-{1}")
    for of in ("-requests", "-tokens", "-input-tokens", "-output-tokens", "")
]
"""Headers of the rest of a limit and its reset: OpenAI and gateways like it, OpenRouter and Together; Anthropic."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
"""``6m0s``, ``12ms``, ``36s``."""


def requested_wait(headers: Mapping[str, str], error: Any = None) -> float | None:
    """Seconds to wait after a failed call; None if the server does not say."""
    said = [(headers.get("Retry-After-Ms"), 0.001), (headers.get("Retry-After"), 1.0)]
    said += [(part_of(detail, "retryDelay"), 1.0) for detail in part_of(error, "details") or ()]  # Google's RetryInfo
    if isinstance(passed_on := part_of(error, "metadata", "headers"), dict):  # by OpenRouter
        headers = {**headers, **{str(name).lower(): str(value) for name, value in passed_on.items()}}
    waits = (wait * unit for value, unit in said if (wait := seconds_until(value)) is not None)
    return next(waits, exhausted_wait(headers))


def exhausted_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until a limit of which nothing is left is full again; None if something is left of each."""
    used_up = [reset for left, reset in _LIMITS if headers.get(left, "").strip() in {"0", "0.0"}]
    return max((wait for reset in used_up if (wait := seconds_until(headers.get(reset))) is not None), default=None)


def seconds_until(value: Any) -> float | None:
    """Seconds from a number, a duration, a time stamp or an HTTP date; None if it is none of them."""
    if not isinstance(value, str) or not value.strip():
        return None
    value, now = value.strip(), datetime.now(UTC)
    with suppress(ValueError):
        number = float(value)
        if number > 1e8:  # a moment in seconds or, beyond 1e11, in milliseconds
            number = number / (1000 if number > 1e11 else 1) - now.timestamp()
        return max(0.0, number) if math.isfinite(number) else None
    if match := _DURATION.fullmatch(value):
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1, 0.001), strict=True))
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            then = parse(value)
            return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
    return None


# --- how many at once, and how long each may take ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The way a server is called: time, repetition and number of calls, for whoever sets them."""

    timeout_seconds: float = 600.0
    """Timeout of one attempt; while a call waits in the server's queue, it starts again with every reply."""
    retries: int = 5  # attempts after the first
    patience_seconds: float = 120.0
    """Time to wait for a server that is down, such as one that restarts, however many attempts that takes."""
    concurrency: int | None = None
    """Concurrent calls, used from the start; None: start with a few and adapt to the server."""
    max_in_flight: int = 1024  # maximum concurrent calls when adapting to the server
    wait_seconds: float = 0.5
    """Wait before the second attempt; it doubles from there, with a random part so that calls do not retry together."""


class Sent(NamedTuple):
    """A call in flight: when it was sent on the event loop's clock, and what ends it."""

    at: float
    scope: anyio.CancelScope


class Limiter:
    """Admits so many callers at once, in order of arrival, and limits their time.

    The time of a call starts when it is sent, and again with every reply to a call sent before it, or after it within
    its time: it may be waiting in the server's queue. A stalled call ends, however many later ones are served.
    """

    def __init__(self, *, start: int = START, maximum: int, timeout_seconds: float = 600.0) -> None:
        self.maximum = maximum
        self.slots = anyio.CapacityLimiter(min(start, maximum))
        self.down_since: float | None = None  # when the server was first found to be down, if no reply came since
        self.paused_until = 0.0
        self._timeout = timeout_seconds
        self._next_renewal = 0.0  # when the time of calls in flight may next start again
        self._sent: set[Sent] = set()
        self._changed_at = self._fell_at = -math.inf
        self._least_rate = 0.0  # calls per second that the present limit must reach before it doubles
        self._clean, self._busy, self._seconds = 0, 0, 0.0
        """Of the present round: good replies, the calls in flight beside each, and the time that each took."""

    @property
    def limit(self) -> int:
        return int(self.slots.total_tokens)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Sent]:
        """Wait for a slot and for the end of any pause. Raises TimeoutError when the time of the call is over."""
        async with self.slots:
            while (now := anyio.current_time()) < self.paused_until:  # noqa: ASYNC110 time ends a pause
                await anyio.sleep(self.paused_until - now)
            with anyio.fail_after(self._timeout) as scope:
                sent = Sent(now, scope)
                self._sent.add(sent)
                try:
                    yield sent
                finally:
                    self._sent.remove(sent)

    def answered(self, sent: Sent, *, clean: bool = False, up: bool = True) -> None:
        """Record a reply. ``clean``: a good one; ``up``: of the server, not of a gateway that has lost it."""
        if up:
            self.down_since = None
        now = anyio.current_time()
        if now >= self._next_renewal:  # not with every reply, because that takes time
            self._next_renewal = now + self._timeout / 100
            for other in self._sent:
                if sent.at <= other.at + self._timeout:
                    other.scope.deadline = now + self._timeout
        # A limit nobody uses must not grow: the first burst would then test it all at once.
        if not clean or sent.at < self._changed_at or self.slots.borrowed_tokens * 2 < self.limit:
            return
        self._clean += 1
        self._busy += self.slots.borrowed_tokens
        self._seconds += now - sent.at
        if self._clean < self.limit:
            return
        # by Little's law; replies that arrive in bursts do not disturb it, unlike a count per second
        rate, limit = self._busy / max(self._seconds, 1e-9), self.limit
        if self._fell_at >= 0:
            limit = max(limit + 1, int(limit * GROWTH))
        elif rate >= self._least_rate:
            self._least_rate = rate * LEAST_GAIN
            limit *= 2
        self._change(limit)

    def overloaded(self, sent: Sent) -> None:
        """Fall once for all calls sent before the fall."""
        if sent.at > self._fell_at:
            self._fell_at = anyio.current_time()
            self._change(int(self.limit * FALL))

    def _change(self, limit: int) -> None:
        self.slots.total_tokens = max(1, min(limit, self.maximum))
        self._changed_at = anyio.current_time()
        self._clean, self._busy, self._seconds = 0, 0, 0.0

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, anyio.current_time() + seconds)


# --- calls -------------------------------------------------------------------------------------------------------


class Client:
    """One HTTP session to one server, with retries."""

    def __init__(self, base_url: str, key: ApiKey, headers: Mapping[str, str], calling: CallSettings) -> None:
        self.base_url, _, self._query = base_url.rstrip("/").partition("?")
        self.key = key
        self._headers = {"Content-Type": "application/json", "User-Agent": "goldless", **headers}
        self._proxy = proxy_for(URL(self.base_url))
        self._sessions: list[aiohttp.ClientSession] = []  # one, once it is needed; shared with hasty copies
        self.purse: Ledger | None = None  # pays for attempts that nothing is set aside for; None: they are not counted
        self.calling = calling
        start, most = calling.concurrency or START, calling.concurrency or calling.max_in_flight
        self.limiter = Limiter(start=start, maximum=most, timeout_seconds=calling.timeout_seconds)

    def hasty(self) -> Client:
        """For a first contact: a server that is down or busy is tried once more and not waited for."""
        hasty = copy.copy(self)
        hasty.calling = replace(self.calling, retries=min(self.calling.retries, 1), patience_seconds=0.0)
        return hasty

    async def aclose(self) -> None:
        while self._sessions:
            await self._sessions.pop().close()

    async def post(
        self, route: str, payload: Any, most: Usage | None = None, *, usage: Callable[[Any], Usage] | None = None
    ) -> Any:
        """The reply's JSON. Raises the last AttemptError, which then carries the number of attempts.

        ``most``: what one attempt may be charged for. The caller has set it aside once; earlier attempts that may be
        charged for as well are paid for here. ``usage``: nothing is set aside for this call, such as a probe; what its
        reply is charged for is read and paid for here too.
        """
        body, purse = orjson.dumps(payload), self.purse
        if usage is None or most is None or purse is None:
            return await self.send("POST", route, body, most=most)
        with Reservations(purse) as aside:
            while not aside.set_aside(route, most):
                if not await purse.settled():
                    raise AttemptError("budget", "not sent: it could have exceeded the budget", attempts=0)
            aside.send([route])
            try:
                data = await self.send("POST", route, body, most=most)
            except AttemptError as failure:
                aside.book_unkept(route, failure.charged)
                raise
            charged = usage(data)
            aside.book_unkept(route, (charged.input_tokens, charged.output_tokens))
            return data

    async def send(
        self, method: str, route: str, body: bytes | None = None, *, most: Usage | None = None, **how: Any
    ) -> Any:
        """The reply to bytes, as ``post``; ``how``: as in ``attempt``."""
        calling, limiter = self.calling, self.limiter
        attempts, used, began = 0, 0.0, math.inf  # attempts made, retries used, and when the first was needed
        while True:
            try:
                return await self.attempt(method, route, body, **how)
            except AttemptError as failure:
                attempts += 1
                failure.attempts = attempts
                now = anyio.current_time()
                began = min(began, now)
                outage = failure.is_outage and calling.patience_seconds > 0 and calling.retries > 0
                if outage:
                    if limiter.down_since is None:
                        limiter.down_since = now
                        patience = calling.patience_seconds
                        LOGGER.warning("the server is down, waiting up to %g seconds for it: %s", patience, failure)
                    given_up = now - min(began, limiter.down_since) >= calling.patience_seconds
                else:
                    # a server that says that there are too many calls gives each its turn with time
                    used += 0.25 if failure.kind == "rate_limited" else 1.0
                    given_up = used > calling.retries
                if given_up or not failure.retryable:
                    raise
                if failure.charged is not None and self.purse is not None and most is not None:
                    with Reservations(self.purse) as aside:
                        if not aside.set_aside(route, most):
                            failure.message += ". It was not sent again: that could have exceeded the budget"
                            raise
                        aside.book_unkept(route, failure.charged)
                usual = min(LONGEST_WAIT_SECONDS, calling.wait_seconds * 2.0 ** (attempts - 1))
                # a server that always says "now" must not use up all attempts at once
                wait = max(failure.retry_after_seconds or 0.0, usual) + random.uniform(0.0, 2.0 * calling.wait_seconds)  # noqa: S311
                if outage:
                    wait = min(wait, max(LONGEST_LOOK_SECONDS, failure.retry_after_seconds or 0.0))
                    if attempts > 1:
                        limiter.pause(wait)  # the others need not find out one by one
                LOGGER.info("attempt %d failed, next in %.1f s: %s", attempts, wait, failure.message)
            await anyio.sleep(wait)

    async def attempt(
        self, method: str, route: str, body: bytes | None = None, *, raw: bool = False, **how: Any
    ) -> Any:
        """The decoded reply, or its bytes if ``raw``; ``how``: as in ``transfer``. A slot for each attempt."""
        root = self.base_url if route.startswith("/v1/") else self.base_url.removesuffix("/v1")
        address = f"{root}{route.removeprefix('/v1')}"
        if self._query:
            address += f"{'&' if '?' in address else '?'}{self._query}"
        # encoded: a model's name may have characters that the library would write in another way
        limiter, url = self.limiter, URL(address, encoded=True)
        try:
            try:
                async with limiter.slot() as sent:
                    status, headers, content = await self.transfer(method, url, body, **how)
            except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
                # The library's exceptions carry the request headers, the key among them: the chain ends here.
                raise self._lost(error, url) from None
            data = content if raw and 200 <= status < 300 else self._decoded(status, headers, content, url)
        except AttemptError as failure:
            if failure.kind not in {"connection", "timeout"}:
                limiter.answered(sent, up=not failure.is_outage)
            if failure.kind in {"timeout", "rate_limited"} or failure.status == 529:
                limiter.overloaded(sent)
            if failure.retry_after_seconds and failure.retryable:
                limiter.pause(failure.retry_after_seconds)
            raise
        limiter.answered(sent, clean=True)
        if pause := exhausted_wait(headers):
            # the server says that nothing is left: the next call would be rejected
            limiter.pause(min(pause, LONGEST_PAUSE_SECONDS))
        return data

    async def transfer(
        self, method: str, url: URL, body: bytes | None, *, content_type: str = "", most_bytes: int = 0
    ) -> tuple[int, Mapping[str, str], bytes]:
        if not self._sessions:
            session = aiohttp.ClientSession(
                # The limiter decides how many calls there are; a second limit here would hide from it.
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                headers=self._headers | self.key.headers(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
            self._sessions.append(session)
        own = {"Content-Type": content_type} if content_type else None
        content, most_bytes = bytearray(), most_bytes or MOST_REPLY_BYTES
        async with self._sessions[0].request(
            method, url, data=body, headers=own, allow_redirects=False, proxy=self._proxy
        ) as response:
            async for part in response.content.iter_any():
                content += part
                if len(content) > most_bytes:  # without reading on
                    raise bad_reply(f"{url} sent more than {most_bytes:,} bytes, which no reply needs")
        return response.status, response.headers, bytes(content)

    def _lost(self, error: BaseException, url: URL) -> AttemptError:
        # without a connection nothing was sent
        unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        untrusted = isinstance(error, aiohttp.ClientSSLError)
        kind: FailureKind = "timeout" if isinstance(error, TimeoutError) and not unsent else "connection"
        what, said = "no trusted connection" if untrusted else "the connection failed", str(error)
        if isinstance(error, aiohttp.ClientConnectorError) and not untrusted:  # its own text shows Python's objects
            said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or said
        message = f"{url}: {what}: {self.key.redact(said) or type(error).__name__}"
        if kind == "timeout":
            message = f"{url} timed out: no reply within {self.calling.timeout_seconds:g} seconds"
        charged = None if unsent else UNKNOWN_CHARGE
        return AttemptError(kind, _shortened(message), retryable=not untrusted, charged=charged)

    def _decoded(self, status: int, headers: Mapping[str, str], content: bytes, url: URL) -> Any:
        if 200 <= status < 300:
            try:
                data = orjson.loads(content)
            except orjson.JSONDecodeError:  # usually a truncated reply
                start = self.key.redact(content[:120].decode(errors="replace"))
                message = f"{url} returned invalid JSON ({len(content)} bytes: {start!r})"
                raise bad_reply(message, retryable=True) from None
            if not part_of(data, "error") or "choices" in data:
                return data
            # Some gateways answer 200 and put the failure of the model behind them into the body.
            code = part_of(data, "error", "code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 400
        raise status_failure(status, content, headers, url=str(url), key=self.key)


def proxy_for(url: URL) -> str | None:
    """The proxy in the environment for this address, or None; this machine is always reached directly."""
    host = url.host or ""  # not by aiohttp's trust_env, which would also read passwords from .netrc
    with suppress(ValueError):  # a name is not an address
        if host == "localhost" or ip_address(host).is_loopback:
            return None
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(url.scheme)
