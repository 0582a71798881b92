"""The jury's server: OpenAI's chat completions, answered by a jury.

By default it listens on this machine only; on another address it requires a token. It logs no content of requests. A
case is finished even if its client has disconnected: its replies are paid for, and the journal has them when the
client asks again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from goldless.apps.jury import wire
from goldless.apps.jury.panel import Jury, JuryError
from goldless.apps.jury.wire import Case, ChatBody, RequestError, read_body
from goldless.errors import GoldlessError, PrerequisiteError, UserError, kind_and_place
from goldless.http_serving import LOCAL_NAMES, is_local, listening_application

LOGGER = logging.getLogger("goldless.apps.jury")

DEFAULT_PORT = 8321
HEALTH = "/healthz"
ROUTES = "POST /v1/chat/completions, GET /v1/models and GET /v1/models/MODEL"
REQUEST_ID = "X-Request-Id"
NO_RETRY = {"X-Should-Retry": "false"}
"""The jurors were asked again as often as makes sense: a client that insists would only pay more."""
HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    500: NO_RETRY,
    502: NO_RETRY,
}
"""Further headers of an error, by its status."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Limits:
    """Limits on what a client may send."""

    most_bytes: int = 4 * 1024 * 1024
    """Maximum bytes of a request."""
    most_answers: int = 8
    """Maximum answers of a case; a round robin of 8 asks each juror on a pairwise scale 56 times."""
    longest_text: int = 200_000
    """Maximum characters of the question, and of each answer."""
    at_once: int = 32
    """Cases in progress; others wait."""
    waiting: int = 512
    """Waiting cases; further ones get status 429."""
    reading_seconds: float = 30.0
    """Time limit for receiving a request."""
    ending_seconds: float = 60.0
    """Time limit for cases in progress when the server is stopped."""


# --- who may call -----------------------------------------------------------------------------------------------------


class Tokens:
    """The tokens that open the jury, any one of them: while clients change over, the old and the new one.

    They come from an environment variable or a file, separated by white space. A file is read for every request; where
    it has none now, the earlier ones stay.
    """

    def __init__(self, *, variable: str | None = None, file: Path | str | None = None) -> None:
        self._variable, self._file = variable, file
        self._accepted = self._read()

    def _read(self) -> tuple[bytes, ...]:
        place = str(self._file or self._variable)
        advice = "Write the tokens that clients may send to it, one per line"
        if self._file is None:
            advice = f"Set it to the token that clients must send: export {place}=…"
        try:
            text = os.environ.get(place, "") if self._file is None else Path(place).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise PrerequisiteError(f"{place}: cannot read the tokens ({error}). {advice}") from None
        letters = "".join(text.split())
        if not (letters and letters.isascii() and letters.isprintable()):
            raise PrerequisiteError(f"{place} must have one token or several, of ASCII characters. {advice}")
        return tuple(f"Bearer {token}".encode() for token in text.split())

    def admit(self, authorization: str) -> bool:
        """True if an Authorization header has one of them; compared in constant time."""
        with suppress(PrerequisiteError):
            self._accepted = self._read()
        brought = authorization.encode(errors="surrogateescape")
        return sum(hmac.compare_digest(brought, accepted) for accepted in self._accepted) > 0  # all are compared


# --- serving ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(
    jury: Jury,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    tokens: Tokens | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[str]:
    """Run the server during the block and yield its address; at the end cases in progress are finished.

    Port 0 picks a free port.
    """
    limits = limits or Limits()
    if host not in LOCAL_NAMES and tokens is None:
        raise UserError(
            f"listening on {host} needs a token: without one, anyone who reaches the jury could spend your calls. "
            "Set a token, or use host 127.0.0.1"
        )
    server = _Server(jury, limits, tokens)
    app = web.Application(client_max_size=limits.most_bytes, middlewares=[_errors, server.gate])
    app.router.add_get(HEALTH, server.health)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/v1/models/{model:.+}", server.models)
    async with listening_application(app, host=host, port=port, ending_seconds=limits.ending_seconds) as url:
        yield f"{url}/v1"


class _Server:
    """Answers requests."""

    def __init__(self, jury: Jury, limits: Limits, tokens: Tokens | None) -> None:
        self._jury, self._limits, self._tokens = jury, limits, tokens
        self._slots = asyncio.Semaphore(limits.at_once)
        self._present = 0

    @web.middleware
    async def gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Admit requests with a token; without tokens, only requests to this machine's local names.

        The health page is open: it says nothing but that the jury is there.
        """
        if request.path != HEALTH:
            if self._tokens is None and not is_local(request):
                # a web page whose name was made to point here must not reach the jury through the user's browser
                raise RequestError("without a token this jury can only be called as 127.0.0.1 or localhost", status=403)
            if self._tokens is not None and not self._tokens.admit(request.headers.get("Authorization", "")):
                raise RequestError("missing or wrong bearer token", status=401, code="invalid_api_key")
        return await handler(request)

    async def health(self, _: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def models(self, request: web.Request) -> web.Response:
        named, entry = request.match_info.get("model"), wire.model_entry(self._jury.worth)
        if named is None:
            return _json({"object": "list", "data": [entry]})
        if named != wire.MODEL:
            raise RequestError(
                f"unknown model. The only model here is {wire.MODEL}", status=404, code="model_not_found"
            )
        return _json(entry)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = read_body(ChatBody, await self._body(request), accepted=wire.ACCEPTED)
        case, verdicts = wire.read_case(body)
        self._check(case)
        async with self._in_progress():
            try:
                verdict = await self._jury.decide(case.question, case.answers)
            except JuryError as error:
                votes = {"votes": wire.votes_data(error.votes, self._jury)}
                raise RequestError(str(error), status=502, code="no_verdict", goldless=votes) from error
        whole = wire.completion(verdict, self._jury, verdicts)
        if not body.stream:
            return _json(whole)
        with_usage = bool((body.stream_options or {}).get("include_usage"))
        events = [orjson.dumps(chunk) for chunk in wire.chunks(whole, with_usage=with_usage)]
        text = b"".join(b"data: " + event + b"\n\n" for event in (*events, b"[DONE]"))
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        return web.Response(body=text, headers=headers)

    @asynccontextmanager
    async def _in_progress(self) -> AsyncIterator[None]:
        """A case that has arrived in full: requests that never do must not take the places of others."""
        if self._present >= self._limits.at_once + self._limits.waiting:
            raise RequestError("too many cases are waiting. Try again in a moment", status=429, code="rate_limit")
        self._present += 1
        try:
            async with self._slots:
                yield
        finally:
            self._present -= 1

    async def _body(self, request: web.Request) -> bytes:
        # a web page can send other types to this machine without being asked whether it may
        if request.content_type != "application/json":
            raise RequestError("the body must be JSON, with Content-Type: application/json", status=415)
        try:
            async with asyncio.timeout(self._limits.reading_seconds):
                return await request.read()
        except TimeoutError:
            raise RequestError("timed out while receiving the request", status=408) from None
        except web.RequestPayloadError:
            raise RequestError("the body does not match its headers, such as an invalid gzip encoding") from None

    def _check(self, case: Case) -> None:
        """Refuse a case with too many answers, or with a text that is too long."""
        most, allowed = self._limits.most_answers, self._limits.longest_text
        if len(case.answers) > most:
            raise RequestError(f"a request must have at most {most} answers, got {len(case.answers)}", param="messages")
        longest = max(len(text) for text in (case.question or "", *case.answers))
        if longest > allowed:
            raise RequestError(
                f"the question and each answer must have at most {allowed:,} characters, got {longest:,}",
                param="messages",
            )


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn everything that goes wrong into OpenAI's error format, with the request's id: the client's, if plain."""
    name = request.headers.get(REQUEST_ID, "")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        name = uuid.uuid4().hex
    response: web.StreamResponse
    try:
        response = await handler(request)
    except Exception as error:  # noqa: BLE001 - whatever it is, clients get JSON, and no text of theirs is logged
        told = error if isinstance(error, RequestError) else _told(error, name)
        response = _json(wire.error_body(told, name), status=told.status)
        response.headers.update(HEADERS.get(told.status, {}))
        if told.status == 405 and isinstance(error, web.HTTPException):
            response.headers["Allow"] = error.headers["Allow"]
    response.headers[REQUEST_ID] = name
    return response


def _told(error: Exception, name: str) -> RequestError:
    """An error that is not the client's, or one of HTTP, for the client."""
    if isinstance(error, web.HTTPException):
        said = f"{error.reason}. The routes are {ROUTES}; requests have a size limit"
        return RequestError(said, status=error.status)
    said = str(error) if isinstance(error, GoldlessError) else kind_and_place(error)
    LOGGER.error("request %s: no verdict: %s", name, said)
    return RequestError(f"the jury failed on this case; see request {name} in the server's log", status=500)


def _json(data: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(data), status=status, content_type="application/json")
