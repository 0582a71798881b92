"""A real HTTP server on this machine that speaks the wire formats of model servers, and misbehaves on request.

In a test: ``with LoopbackServer(Behaviour(speaks={"vllm"})) as server: … server.url …``. The server runs in a thread of
its own, or with ``async with`` in the loop of the test; what it was asked stands in ``server.asked``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import orjson
from aiohttp import web

from tests.support.servers.toy_language import BEGIN, Bigram, Tokenizing, chat_tokens, token_id, tokens_of

Json = dict[str, Any]
Fault = Literal["cut", "truncated", "invalid", "stall"] | tuple[int, dict[str, str], str]
"""What happens to one request instead of an answer; a tuple is status, headers and body."""


@dataclass
class Behaviour:
    """What the server is like."""

    speaks: set[str] = field(default_factory=set)
    """Any of ``sglang``, ``vllm``, ``echo``: how it gives log-probabilities of a prompt. Chat it always speaks."""
    models: list[Json] = field(default_factory=lambda: [{"id": "toy", "object": "model", "root": "toy"}])
    listing_status: int = 200
    """The status of ``/v1/models``."""
    fingerprint: str | None = None
    """The ``system_fingerprint`` of its replies."""
    weights: str = "toy-weights"
    """What an SGLang says of its weights."""
    tokenizing: Tokenizing = "words"
    key: str = ""
    """The key it wants; anything else is answered 401."""
    delay_seconds: float = 0.0
    serves_at_once: int = 0
    """Lets more requests than this wait in its queue, as vLLM and llama.cpp's server do; 0: any number."""
    chat: Callable[[Json], Json] | None = None
    """Makes the reply to a chat request; default: the text "A fine reply."."""
    faults: list[Fault] = field(default_factory=list)
    """Taken one by one by the next POST requests."""
    most_at_once: int = 0
    """Answers 429 when more requests than this are being answered; 0: any number."""
    retry_after: str = "0.05"
    echo_header_in_errors: bool = False
    """Bad manners: errors repeat the Authorization header."""
    ignores_prompt_logprobs: bool = False
    """Takes ``echo`` and ``prompt_logprobs`` and answers as if they were not there, like llama.cpp's server."""
    chat_ids: Literal["tokenize", "reply", "none"] = "tokenize"
    """Where a chat template's ids are to be had."""
    detokenizes: str = ""
    """The name of the text in replies of ``/detokenize``; none: it has no such path."""
    vocabulary: dict[int, str] | None = None
    """Its tokens by id, for prompts that come as ids from another tokenizer."""
    counts_begin_mark: bool = False
    """Puts a begin-of-text token in front of an echoed prompt and counts it in ``text_offset``, as vLLM does."""
    damage: Callable[[Json], Json] = lambda reply: reply
    """Changes scoring replies, to see whether the change is noticed."""


class LoopbackServer:
    """The server in a thread; a context manager."""

    _texts: ClassVar[dict[int, str]] = {}
    """Tokens by id, the same for all servers of this process."""

    def __init__(self, behaviour: Behaviour | None = None, *, port: int = 0) -> None:
        """``port``: 0 takes any that is free; that of a server which has ended starts it again."""
        self.behaviour = behaviour or Behaviour()
        self.asked: list[tuple[str, Any]] = []
        """Path and decoded body of every request, in the order they came."""
        self.authorizations: list[str | None] = []
        self.queries: list[str] = []
        self.most_seen_at_once = 0
        self._at_once = 0
        self._bigram = Bigram()
        self._port = port
        self._queue = asyncio.Semaphore(self.behaviour.serves_at_once or 1_000_000)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def paths(self) -> list[str]:
        """The paths asked, in order."""
        return [path for path, _ in self.asked]

    def bodies(self, path: str) -> list[Json]:
        """The bodies sent to one path, in order."""
        return [body for asked, body in self.asked if asked == path]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def __aenter__(self) -> Self:
        self._runner = await self._started()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        runner = await self._started()
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _started(self) -> web.AppRunner:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, backlog=2048)
        await site.start()
        self._port = runner.addresses[0][1]
        return runner

    # --- requests ----------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await self._decoded(request) if request.method == "POST" else None
        self.asked.append((request.path, body))
        self.authorizations.append(request.headers.get("Authorization"))
        self.queries.append(request.query_string)
        self._at_once += 1
        self.most_seen_at_once = max(self.most_seen_at_once, self._at_once)
        try:
            return await self._answer_or_misbehave(request, body)
        finally:
            self._at_once -= 1

    async def _decoded(self, request: web.Request) -> Any:
        return orjson.loads(await request.read())

    async def _answer_or_misbehave(self, request: web.Request, body: Any) -> web.StreamResponse:
        behaviour = self.behaviour
        if behaviour.key and request.headers.get("Authorization") != f"Bearer {behaviour.key}":
            return self._error(request, 401, "Incorrect API key provided.")
        if body is not None and behaviour.most_at_once and self._at_once > behaviour.most_at_once:
            await asyncio.sleep(0.01)
            return self._error(request, 429, "Too many requests.", {"Retry-After": behaviour.retry_after})
        if body is not None and behaviour.faults:
            return await self._misbehave(request, behaviour.faults.pop(0))
        if behaviour.delay_seconds:
            async with self._queue:
                await asyncio.sleep(behaviour.delay_seconds)
        try:
            return _json(self._reply(request.path, body))
        except _RejectionError as rejection:
            return self._error(request, rejection.status, str(rejection), param=rejection.param)

    async def _misbehave(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault == "stall":
            await asyncio.sleep(3600)
        if fault == "invalid":
            return web.Response(body=b"<html>gateway</html>")
        if fault == "truncated":
            return web.Response(body=b'{"choices": [{"mess', content_type="application/json")
        if isinstance(fault, tuple):
            status, headers, text = fault
            return self._error(request, status, text, headers)
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"choices": [{"message": ')
        if request.transport is not None:
            request.transport.abort()
        return response

    def _error(
        self, request: web.Request, status: int, said: str, headers: dict[str, str] | None = None, param: str = ""
    ) -> web.Response:
        if self.behaviour.echo_header_in_errors:
            said = f"{said} You sent {request.headers.get('Authorization')}"
        return _json({"error": {"message": said, "param": param}}, status=status, headers=headers)

    def _reply(self, path: str, body: Any) -> Json:
        speaks = self.behaviour.speaks
        routes: dict[str, tuple[set[str], Callable[[Any], Json]]] = {
            "/v1/models": (set(), lambda _: self._list()),
            "/v1/chat/completions": (set(), self._chat),
            "/get_model_info": ({"sglang"}, lambda _: {"model_path": self.behaviour.weights}),
            "/generate": ({"sglang"}, self._generate),
            "/tokenize": ({"sglang", "vllm"}, self._tokenize),
            "/v1/completions": ({"vllm", "echo"}, self._complete),
        }
        if self.behaviour.detokenizes:
            routes["/detokenize"] = ({"sglang", "vllm"}, self._detokenize)
        needs, answer = routes.get(path, ({"nothing"}, dict))
        if needs and not needs & speaks:
            raise _RejectionError(404, "Not Found")
        if isinstance(body, dict) and "model" in body and self.behaviour.models:
            names = [model["id"] for model in self.behaviour.models]
            if body["model"] not in names:
                raise _RejectionError(404, f"The model `{body['model']}` does not exist.", "model")
        return answer(body)

    def _list(self) -> Json:
        if self.behaviour.listing_status != 200:
            raise _RejectionError(self.behaviour.listing_status, "The list is broken.")
        return {"object": "list", "data": self.behaviour.models}

    # --- chat --------------------------------------------------------------------------------------------------

    def _chat(self, body: Json) -> Json:
        if self.behaviour.chat is not None:
            return self.behaviour.chat(body)
        reply = chat_reply("A fine reply.") | {"system_fingerprint": self.behaviour.fingerprint}
        if body.get("return_prompt_token_ids") and self.behaviour.chat_ids == "reply":
            reply["choices"][0]["prompt_token_ids"] = self._ids(chat_tokens(body["messages"]))
        return reply

    # --- scoring -----------------------------------------------------------------------------------------------

    def _tokenize(self, body: Json) -> Json:
        if "messages" in body:
            if self.behaviour.chat_ids != "tokenize":
                raise _RejectionError(400, "prompt: Field required")
            tokens = chat_tokens(body["messages"])
        else:
            tokens = tokens_of(body["prompt"], self.behaviour.tokenizing)
            tokens = [BEGIN, *tokens] if body.get("add_special_tokens", True) else tokens
        return {"tokens": self._ids(tokens), "count": len(tokens), "max_model_len": 2048}

    def _detokenize(self, body: Json) -> Json:
        return {self.behaviour.detokenizes: "".join(self._texts[one] for one in body["tokens"])}

    def _generate(self, body: Json) -> Json:
        ids, start = body["input_ids"], body["logprob_start_len"]
        values = self._bigram.logprobs([self._texts[one] for one in ids])
        values[start] = None  # its predecessor was not computed
        rows = [[value, one, None] for value, one in zip(values[start:], ids[start:], strict=True)]
        meta = {"prompt_tokens": len(ids), "completion_tokens": 0, "input_token_logprobs": rows}
        return self.behaviour.damage({"text": "", "meta_info": meta})

    def _complete(self, body: Json) -> Json:
        if body.get("echo") and not self.behaviour.ignores_prompt_logprobs:
            return self.behaviour.damage(self._echo(body))
        choice: Json = {"index": 0, "text": " and", "logprobs": None, "finish_reason": "length"}
        if body.get("logprobs"):
            choice["logprobs"] = {"tokens": [" and"], "token_logprobs": [-0.5], "text_offset": [0]}
        wanted = body.get("prompt_logprobs")
        if wanted is not None and "vllm" in self.behaviour.speaks and not self.behaviour.ignores_prompt_logprobs:
            choice["prompt_logprobs"] = self._prompt_logprobs(body["prompt"])
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 1}
        reply = {"choices": [choice], "usage": usage, "system_fingerprint": self.behaviour.fingerprint}
        return self.behaviour.damage(reply)

    def _prompt_logprobs(self, ids: list[int]) -> list[Json | None]:
        values = self._bigram.logprobs([self._texts[one] for one in ids])
        return [
            None if value is None else {str(one): {"logprob": value, "rank": 7, "decoded_token": self._texts[one]}}
            for value, one in zip(values, ids, strict=True)
        ]

    def _echo(self, body: Json) -> Json:
        if "echo" not in self.behaviour.speaks:
            raise _RejectionError(400, "echo is not supported", "echo")
        if isinstance(body["prompt"], list):
            tokens = [(self.behaviour.vocabulary or {})[one] for one in body["prompt"]]
        else:
            tokens = tokens_of(body["prompt"], self.behaviour.tokenizing)
        tokens = [BEGIN, *tokens] if self.behaviour.counts_begin_mark else tokens
        values = self._bigram.logprobs(tokens)
        if body["max_tokens"]:
            tokens, values = [*tokens, " and"], [*values, -0.5]
        offsets = [sum(map(len, tokens[:index])) for index in range(len(tokens))]
        prompt = body["prompt"]
        text = (prompt if isinstance(prompt, str) else "".join(tokens)) + (" and" if body["max_tokens"] else "")
        logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": body["max_tokens"]}
        return {"choices": [{"index": 0, "text": text, "logprobs": logprobs}], "usage": usage}

    def _ids(self, tokens: list[str]) -> list[int]:
        ids = [token_id(token) for token in tokens]
        self._texts.update(zip(ids, tokens, strict=True))
        return ids


class _RejectionError(Exception):
    def __init__(self, status: int, said: str, param: str = "") -> None:
        super().__init__(said)
        self.status = status
        self.param = param


def rejection(status: int, said: str, param: str = "") -> Exception:
    """What a chat function raises to reject a request."""
    return _RejectionError(status, said, param)


def chat_reply(text: str | None, *, finish: str = "stop", logprobs: list[Json] | None = None, **message: Any) -> Json:
    """A chat completion as OpenAI words it."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "logprobs": None if logprobs is None else {"content": logprobs},
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "toy", "choices": [choice], "usage": usage}


def _json(data: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(data), status=status, headers=headers, content_type="application/json")
