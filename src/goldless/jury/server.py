"""The jury's server: OpenAI's chat completions, answered by a jury.

By default it listens on this machine only; on another address it requires a token. It logs no content of requests. A
case is finished even if its client has disconnected: its replies are paid for, and the journal has them when the
client asks again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import orjson
from aiohttp import web

from goldless.errors import GoldlessError, PrerequisiteError, UserError, kind_and_place
from goldless.http_serving import listening_application, serve_until_told
from goldless.jury.access import (
    CURRENT_ID,
    HEALTH,
    LOCAL_NAMES,
    Limits,
    Tokens,
    add_request_id,
    gate,
    request_id,
)
from goldless.jury.panel import Jury, JuryError, JuryVerdict
from goldless.jury.selector import Selector
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
LEAVING_SECONDS = 2.0
"""For replies on their way when the server closes; cases in progress have ended by then."""
ROUTES = "POST /v1/chat/completions, POST /v1/select, GET /v1/models and GET /v1/models/MODEL"
_UNSUPPORTED = ("tools", "functions", "logprobs", "audio", "modalities")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve(
    jury: Jury,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    tokens: Tokens | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    selector: Selector | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve until cancelled, interrupted or terminated; cases in progress are finished first.

    ``ready`` is called with the address to give clients as ``base_url``; port 0 picks a free port. On SIGHUP the tokens
    are read again.
    """
    limits = limits or Limits()
    jury_server = listening(jury, host=host, port=port, tokens=tokens, tls=tls, limits=limits, selector=selector)
    await serve_until_told(jury_server, ready, None if tokens is None else lambda: _reread(tokens))


def _reread(tokens: Tokens) -> None:
    try:
        tokens.reread()
    except PrerequisiteError as error:
        LOGGER.error("the tokens stay as they were: %s", error)  # noqa: TRY400 - the message says it all
    else:
        LOGGER.warning("the tokens were read again")


@asynccontextmanager
async def listening(
    jury: Jury,
    *,
    host: str,
    port: int,
    tokens: Tokens | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits,
    selector: Selector | None = None,
) -> AsyncIterator[str]:
    """Run the server during the block and yield its address; at the end cases in progress are finished."""
    if host not in LOCAL_NAMES and tokens is None:
        raise UserError(
            f"listening on {host} needs a token: without one, anyone who reaches the jury could spend your calls. "
            "Set a token, or use host 127.0.0.1"
        )
    server = _Server(jury, limits, selector)
    app = _application(server, tokens=tokens, most_bytes=limits.most_bytes)
    async with listening_application(app, host=host, port=port, ending_seconds=LEAVING_SECONDS, tls=tls) as url:
        try:
            yield f"{url}/v1"
        finally:
            await server.drain()


def _application(server: _Server, *, tokens: Tokens | None, most_bytes: int) -> web.Application:
    check = gate(tokens, only_local_names=tokens is None)
    app = web.Application(client_max_size=most_bytes, middlewares=[_errors, check])
    app.on_response_prepare.append(add_request_id)
    app.router.add_get(HEALTH, server.health)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/v1/select", server.select)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/v1/models/{model:.+}", server.model)
    return app


class _Server:
    """Answers requests."""

    def __init__(self, jury: Jury, limits: Limits, selector: Selector | None = None) -> None:
        self._jury = jury
        self._selector = selector
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.at_once)
        self._present = 0
        self._receiving: dict[asyncio.Timeout, None] = {}
        self._stopping = False
        self._empty = asyncio.Event()
        self._empty.set()

    async def drain(self) -> None:
        """Refuse new cases and those that wait; return when those in progress are finished, or at the time limit."""
        self._stopping = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.ending_seconds):
            await self._empty.wait()

    async def health(self, _: web.Request) -> web.Response:
        return _json({"status": "stopping" if self._stopping else "ok"}, status=503 if self._stopping else 200)

    async def models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [model_entry(self._jury.worth)]})

    async def model(self, request: web.Request) -> web.Response:
        if request.match_info["model"] != MODEL:
            raise RequestError(f"unknown model. The only model here is {MODEL}", status=404, code="model_not_found")
        return _json(model_entry(self._jury.worth))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self._refuse_if_stopping()
        body = await self._body(request)
        case = self._case(body)
        async with self._in_progress():
            verdict = await self._jury.decide(case.question, case.answers)
        if body.get("stream"):
            return await _stream(request, body, verdict, case.worded(verdict))
        return _json(completion(verdict, case.worded(verdict)))

    async def select(self, request: web.Request) -> web.Response:
        self._refuse_if_stopping()
        if self._selector is None:
            raise RequestError("this server does not select: it was started without --select-with", status=404)
        body = await self._body(request)
        async with self._in_progress():
            return _json(await self._selector.reply(body, self._limits))

    @asynccontextmanager
    async def _in_progress(self) -> AsyncIterator[None]:
        """A case that has arrived in full: requests that never do must not take the places of others."""
        if self._present >= self._limits.at_once + self._limits.waiting:
            raise RequestError("too many cases are waiting. Try again in a moment", status=429, code="rate_limit")
        self._present += 1
        self._empty.clear()
        try:
            async with self._slots:
                self._refuse_if_stopping()
                yield
        finally:
            self._present -= 1
            if not self._present:
                self._empty.set()

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise RequestError("the jury is being stopped. Try again later", status=503, code="stopping")

    async def _body(self, request: web.Request) -> dict[str, Any]:
        # a web page can send other types to this machine without being asked whether it may
        if request.content_type != "application/json":
            raise RequestError("the body must be JSON, with Content-Type: application/json", status=415)
        try:
            body = orjson.loads(await self._received(request))
        except TimeoutError:
            raise RequestError("timed out while receiving the request", status=408) from None
        except web.RequestPayloadError:
            raise RequestError("the body does not match its headers, such as an invalid gzip encoding") from None
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the body is not valid JSON: {error}") from None
        if not isinstance(body, dict):
            raise RequestError("the body must be a JSON object with model and messages")
        return body

    async def _received(self, request: web.Request) -> bytes:
        """The whole body; TimeoutError if it takes too long, or longest of too many."""
        async with asyncio.timeout(self._limits.reading_seconds) as limit:
            self._receiving[limit] = None
            if len(self._receiving) > self._limits.receiving:
                next(iter(self._receiving)).reschedule(asyncio.get_running_loop().time())
            try:
                return await request.read()
            finally:
                del self._receiving[limit]

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
    """Turn everything that goes wrong into OpenAI's error format, with the request's id."""
    name = request_id(request)
    CURRENT_ID.set(name)
    problem = partial(error_body, request_id=name)
    try:
        return await handler(request)
    except RequestError as error:
        body = problem(str(error), status=error.status, param=error.param, code=error.code)
        return _json(body, status=error.status, headers=_headers(error.status))
    except JuryError as error:
        body = problem(str(error), status=502, code="no_verdict")
        # the jurors were asked again as often as makes sense: a client that insists would only pay more
        return _json({**body, "goldless": {"votes": votes_data(error.votes)}}, status=502, headers=_NO_RETRY)
    except web.HTTPException as error:
        said = f"{error.reason}. The routes are {ROUTES}; requests have a size limit"
        body = problem(said, status=error.status)
        allowed = {name: value for name, value in error.headers.items() if name == "Allow"}
        return _json(body, status=error.status, headers=allowed)
    except GoldlessError as error:
        LOGGER.error("request %s: no verdict: %s", name, error)  # noqa: TRY400 - the message says it all
    except Exception as error:  # noqa: BLE001 - whatever it is, clients get JSON, and no text of theirs is logged
        LOGGER.error("request %s: no verdict: %s", name, kind_and_place(error))  # noqa: TRY400
    said = f"the jury failed on this case; see request {name} in the server's log"
    return _json(problem(said, status=500), status=500, headers=_NO_RETRY)


_NO_RETRY = {"X-Should-Retry": "false"}


def _headers(status: int) -> dict[str, str]:
    return {429: {"Retry-After": "1"}, 503: {"Retry-After": "10"}, 401: {"WWW-Authenticate": "Bearer"}}.get(status, {})


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
