"""The jury's server: OpenAI's chat completions, answered by a jury.

By default it listens on this machine only; on another address it requires a token. It logs no content of requests. A
case is finished even if its client has disconnected: its replies are paid for, and the journal has them when the
client asks again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import orjson
from aiohttp import web

from goldless.errors import GoldlessError, PrerequisiteError, UserError, kind_and_place
from goldless.http_serving import listening_application, serve_until_told
from goldless.jury.access import HEALTH, LOCAL_NAMES, Handler, Limits, Tokens, gate
from goldless.jury.panel import Jury, JuryError
from goldless.jury.selector import Selector
from goldless.jury.wire import (
    ACCEPTED,
    MODEL,
    Case,
    ChatBody,
    RequestError,
    chunks,
    completion,
    error_body,
    model_entry,
    read_body,
    read_case,
    votes_data,
)

LOGGER = logging.getLogger("goldless.jury")

DEFAULT_PORT = 8321
LEAVING_SECONDS = 2.0
"""For replies on their way when the server closes; cases in progress have ended by then."""
ROUTES = "POST /v1/chat/completions, POST /v1/select, GET /v1/models and GET /v1/models/MODEL"
REQUEST_ID = "X-Request-Id"
CURRENT_ID: ContextVar[str] = ContextVar("goldless_request_id", default="none")
"""The id of the request that is being answered."""
NO_RETRY = {"X-Should-Retry": "false"}
HEADERS = {429: {"Retry-After": "1"}, 503: {"Retry-After": "10"}, 401: {"WWW-Authenticate": "Bearer"}}
"""Further headers of an error, by its status."""


async def serve(jury: Jury, *, tokens: Tokens | None = None, ready: Callable[[str], None], **place: Any) -> None:
    """Serve until cancelled, interrupted or terminated; cases in progress are finished first.

    ``ready`` is called with the address to give clients as ``base_url``. On SIGHUP the tokens are read again.
    ``place``: the other arguments of ``listening``.
    """

    def reread() -> None:
        assert tokens is not None
        try:
            tokens.reread()
        except PrerequisiteError as error:
            LOGGER.error("the tokens stay as they were: %s", error)  # noqa: TRY400 - the message says it all
        else:
            LOGGER.warning("the tokens were read again")

    await serve_until_told(listening(jury, tokens=tokens, **place), ready, None if tokens is None else reread)


@asynccontextmanager
async def listening(
    jury: Jury,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    tokens: Tokens | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    selector: Selector | None = None,
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
    server = _Server(jury, limits, selector)
    app = web.Application(
        client_max_size=limits.most_bytes, middlewares=[_errors, gate(tokens, only_local_names=tokens is None)]
    )
    app.on_response_prepare.append(_add_request_id)
    app.router.add_get(HEALTH, server.health)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/v1/select", server.select)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/v1/models/{model:.+}", server.model)
    async with listening_application(app, host=host, port=port, ending_seconds=LEAVING_SECONDS, tls=tls) as url:
        try:
            yield f"{url}/v1"
        finally:
            await server.drain()


class _Server:
    """Answers requests."""

    def __init__(self, jury: Jury, limits: Limits, selector: Selector | None = None) -> None:
        self._jury = jury
        self._selector = selector
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.at_once)
        self._present = 0
        self._stopping = False

    async def drain(self) -> None:
        """Refuse new cases and those that wait; return when those in progress are finished, or at the time limit."""
        self._stopping = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.ending_seconds):
            while self._present:  # noqa: ASYNC110 - once, at the end
                await anyio.sleep(0.02)

    async def health(self, _: web.Request) -> web.Response:
        return _json({"status": "stopping" if self._stopping else "ok"}, status=503 if self._stopping else 200)

    async def models(self, _: web.Request) -> web.Response:
        return _json({"object": "list", "data": [model_entry(self._jury.worth)]})

    async def model(self, request: web.Request) -> web.Response:
        if request.match_info["model"] != MODEL:
            raise RequestError(f"unknown model. The only model here is {MODEL}", status=404, code="model_not_found")
        return _json(model_entry(self._jury.worth))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = read_body(ChatBody, await self._body(request), accepted=ACCEPTED)
        case = self._case(body)
        async with self._in_progress():
            verdict = await self._jury.decide(case.question, case.answers)
        content = case.worded(verdict)
        if not body.stream:
            return _json(completion(verdict, content))
        with_usage = bool((body.stream_options or {}).get("include_usage"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for chunk in chunks(verdict, content, with_usage=with_usage):
            await response.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def select(self, request: web.Request) -> web.Response:
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
        try:
            async with self._slots:
                self._refuse_if_stopping()
                yield
        finally:
            self._present -= 1

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise RequestError("the jury is being stopped. Try again later", status=503, code="stopping")

    async def _body(self, request: web.Request) -> bytes:
        self._refuse_if_stopping()
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

    def _case(self, body: ChatBody) -> Case:
        case, limits = read_case(body), self._limits
        if len(case.answers) > limits.most_answers:
            raise RequestError(
                f"answers must be at most {limits.most_answers}, got {len(case.answers)}", param="messages"
            )
        longest = max(map(len, (case.question or "", *case.answers)))
        if longest > limits.longest_text:
            raise RequestError(
                f"the question and each answer must have at most {limits.longest_text:,} characters, got {longest:,}",
                param="messages",
            )
        return case


# --- the wire --------------------------------------------------------------------------------------------------


async def _add_request_id(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[REQUEST_ID] = CURRENT_ID.get()


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn everything that goes wrong into OpenAI's error format, with the request's id: the client's, if plain."""
    name = request.headers.get(REQUEST_ID, "")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        name = uuid.uuid4().hex
    CURRENT_ID.set(name)
    problem = partial(error_body, request_id=name)
    try:
        return await handler(request)
    except RequestError as error:
        body = problem(str(error), status=error.status, param=error.param, code=error.code)
        return _json(body, status=error.status, headers=HEADERS.get(error.status))
    except JuryError as error:
        body = problem(str(error), status=502, code="no_verdict")
        # the jurors were asked again as often as makes sense: a client that insists would only pay more
        return _json({**body, "goldless": {"votes": votes_data(error.votes)}}, status=502, headers=NO_RETRY)
    except web.HTTPException as error:
        said = f"{error.reason}. The routes are {ROUTES}; requests have a size limit"
        allowed = {name: value for name, value in error.headers.items() if name == "Allow"}
        return _json(problem(said, status=error.status), status=error.status, headers=allowed)
    except GoldlessError as error:
        LOGGER.error("request %s: no verdict: %s", name, error)  # noqa: TRY400 - the message says it all
    except Exception as error:  # noqa: BLE001 - whatever it is, clients get JSON, and no text of theirs is logged
        LOGGER.error("request %s: no verdict: %s", name, kind_and_place(error))  # noqa: TRY400
    said = f"the jury failed on this case; see request {name} in the server's log"
    return _json(problem(said, status=500), status=500, headers=NO_RETRY)


def _json(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(data), status=status, headers=headers, content_type="application/json")
