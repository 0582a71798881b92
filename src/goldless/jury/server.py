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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any

import orjson
from aiohttp import web
from yarl import URL

from goldless.errors import GoldlessError, PrerequisiteError, UserError, kind_and_place
from goldless.http_serving import listening_application, serve_until_told
from goldless.jury.panel import Jury, JuryError, JuryVerdict
from goldless.jury.wire import (
    MODEL,
    Case,
    RequestError,
    chunks,
    completion,
    error_body,
    model_entry,
    read_case,
    votes_data,
)

LOGGER = logging.getLogger("goldless.jury")

DEFAULT_PORT = 8321
ROUTES = "POST /v1/chat/completions, GET /v1/models and GET /v1/models/MODEL"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_UNSUPPORTED = ("tools", "functions", "logprobs", "audio", "modalities")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
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

    def __post_init__(self) -> None:
        """Raise if a limit allows nothing."""
        for field in fields(self):
            least = {"most_answers": 2, "waiting": 0}.get(field.name, 1)
            if getattr(self, field.name) < least:
                raise UserError(f"{field.name} must be at least {least}, got {getattr(self, field.name)}")


def token_from(variable: str) -> str:
    """The token in the environment variable of that name. Raises PrerequisiteError if there is none."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise PrerequisiteError(
            f"{variable} is not set. Set it to the token that clients must send: export {variable}=…"
        )
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise PrerequisiteError(
            f"{variable} has characters that a token cannot contain, such as a space or a line break"
        )
    return value


async def serve(
    jury: Jury,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve until cancelled, interrupted or terminated; cases in progress are finished first.

    ``ready`` is called with the address to give clients as ``base_url``; port 0 picks a free port.
    """
    limits = limits or Limits()
    await serve_until_told(listening(jury, host=host, port=port, token=token, limits=limits), ready)


@asynccontextmanager
async def listening(
    jury: Jury, *, host: str, port: int, token: str | None = None, limits: Limits
) -> AsyncIterator[str]:
    """Run the server during the block and yield its address."""
    if host not in _LOCAL_NAMES and token is None:
        raise UserError(
            f"listening on {host} needs a token: without one, anyone who reaches the jury could spend your calls. "
            "Set a token, or use host 127.0.0.1"
        )
    app = application(jury, host=host, token=token, limits=limits)
    async with listening_application(app, host=host, port=port, ending_seconds=limits.ending_seconds) as url:
        yield f"{url}/v1"


def application(jury: Jury, *, host: str, token: str | None, limits: Limits) -> web.Application:
    """The routes, for use in another server."""
    server = _Server(jury, limits)
    names = None if token is not None or host not in _LOCAL_NAMES else _LOCAL_NAMES
    app = web.Application(client_max_size=limits.most_bytes, middlewares=[_errors, _gate(token, names)])
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/v1/models/{model:.+}", server.model)
    return app


class _Server:
    """Answers requests."""

    def __init__(self, jury: Jury, limits: Limits) -> None:
        self._jury = jury
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.at_once)
        self._present = 0

    async def models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [model_entry(self._jury.worth)]})

    async def model(self, request: web.Request) -> web.Response:
        if request.match_info["model"] != MODEL:
            raise RequestError(f"unknown model. The only model here is {MODEL}", status=404, code="model_not_found")
        return _json(model_entry(self._jury.worth))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if self._present >= self._limits.at_once + self._limits.waiting:
            raise RequestError("too many cases are waiting. Try again in a moment", status=429, code="rate_limit")
        self._present += 1
        try:
            body = await self._body(request)
            case = self._case(body)
            async with self._slots:
                verdict = await self._jury.decide(case.question, case.answers)
        finally:
            self._present -= 1
        if body.get("stream"):
            return await _stream(request, body, verdict, case.worded(verdict))
        return _json(completion(verdict, case.worded(verdict)))

    async def _body(self, request: web.Request) -> dict[str, Any]:
        # a web page can send other types to this machine without being asked whether it may
        if request.content_type != "application/json":
            raise RequestError("the body must be JSON, with Content-Type: application/json", status=415)
        try:
            async with asyncio.timeout(self._limits.reading_seconds):
                body = orjson.loads(await request.read())
        except TimeoutError:
            raise RequestError("timed out while receiving the request", status=408) from None
        except web.RequestPayloadError:
            raise RequestError("the body does not match its headers, such as an invalid gzip encoding") from None
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the body is not valid JSON: {error}") from None
        if not isinstance(body, dict):
            raise RequestError("the body must be a JSON object with model and messages")
        return body

    def _case(self, body: dict[str, Any]) -> Case:
        _refuse_unsupported(body)
        case = read_case(body.get("messages"))
        if len(case.answers) > self._limits.most_answers:
            raise RequestError(
                f"answers must be at most {self._limits.most_answers}, got {len(case.answers)}",
                param="messages",
            )
        longest = max(map(len, (case.question or "", *case.answers)))
        if longest > self._limits.longest_text:
            raise RequestError(
                f"the question and each answer must have at most {self._limits.longest_text:,} characters, got "
                f"{longest:,}",
                param="messages",
            )
        form = body.get("response_format")
        kind = form.get("type") if isinstance(form, dict) else None
        if form is not None and kind != "text" and not (kind == "json_object" and case.verdicts is None):
            raise RequestError(
                "unsupported response_format. Use json_object for a case sent as JSON, or leave it out for a "
                "verdict such as [[A]]",
                param="response_format",
            )
        return case


def _refuse_unsupported(body: dict[str, Any]) -> None:
    """Raise for options that would change the shape of the reply; sampling parameters are ignored."""
    for name in _UNSUPPORTED:
        if body.get(name):
            raise RequestError(f"{name} is not supported. Leave it out", param=name, code="unsupported_parameter")
    count, stream, options = body.get("n"), body.get("stream"), body.get("stream_options")
    if count is not None and count != 1:
        raise RequestError(f"n must be 1, got {count}", param="n", code="unsupported_parameter")
    if not isinstance(stream, bool | None):
        raise RequestError("stream must be true or false", param="stream")
    if not isinstance(options, dict | None):
        raise RequestError("stream_options must be an object", param="stream_options")


# --- the wire --------------------------------------------------------------------------------------------------


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn everything that goes wrong into OpenAI's error format."""
    try:
        return await handler(request)
    except RequestError as error:
        body = error_body(str(error), status=error.status, param=error.param, code=error.code)
        return _json(body, status=error.status, headers=_headers(error.status))
    except JuryError as error:
        body = error_body(str(error), status=502, code="no_verdict")
        # the jurors were asked again as often as makes sense: a client that insists would only pay more
        return _json({**body, "goldless": {"votes": votes_data(error.votes)}}, status=502, headers=_NO_RETRY)
    except web.HTTPException as error:
        said = f"{error.reason}. The routes are {ROUTES}; requests have a size limit"
        body = error_body(said, status=error.status)
        allowed = {name: value for name, value in error.headers.items() if name == "Allow"}
        return _json(body, status=error.status, headers=allowed)
    except GoldlessError as error:
        LOGGER.error("no verdict on a case: %s", error)  # noqa: TRY400 - the message says it all
    except Exception as error:  # noqa: BLE001 - whatever it is, clients get JSON, and no text of theirs is logged
        LOGGER.error("no verdict on a case: %s", kind_and_place(error))  # noqa: TRY400
    said = "the jury failed on this case; see the server's log"
    return _json(error_body(said, status=500), status=500, headers=_NO_RETRY)


_NO_RETRY = {"X-Should-Retry": "false"}


def _headers(status: int) -> dict[str, str]:
    return {429: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}}.get(status, {})


def _gate(token: str | None, names: frozenset[str] | None) -> Any:
    """Admit requests with the token; without a token, only requests to this machine's local names."""
    expected = None if token is None else f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if expected is not None:
            brought = request.headers.get("Authorization", "").encode(errors="surrogateescape")
            if not hmac.compare_digest(brought, expected):
                said = "missing or wrong bearer token"
                raise RequestError(said, status=401, code="invalid_api_key")
        if names is not None and _host_name(request.host) not in names:
            # a web page whose name was made to point here must not reach the jury through the user's browser
            raise RequestError("without a token this jury can only be called as 127.0.0.1 or localhost", status=403)
        return await handler(request)

    return check


def _host_name(host: str) -> str:
    try:
        return URL.build(scheme="http", authority=host).host or ""
    except ValueError:
        return ""


async def _stream(request: web.Request, body: dict[str, Any], verdict: JuryVerdict, content: str) -> web.StreamResponse:
    options = body.get("stream_options") or {}
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for chunk in chunks(verdict, content, with_usage=bool(options.get("include_usage"))):
        await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _json(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(data), status=status, headers=headers, content_type="application/json")
