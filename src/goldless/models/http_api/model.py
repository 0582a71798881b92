"""A model behind an HTTP server: a chat model, and a scorer if the server returns log-probabilities of a prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import orjson

from goldless.concurrency import side_by_side
from goldless.errors import (
    BudgetError,
    CallError,
    CapabilityError,
    ModelSpecError,
    PrerequisiteError,
    UserError,
    nearest,
)
from goldless.models.http_api.client import (
    AttemptError,
    CallSettings,
    Client,
    bad_reply,
    part_of,
    reading,
    status_failure,
)
from goldless.models.http_api.formats import FORMATS, chosen, listed_models
from goldless.models.http_api.scoring import (
    ASKED,
    DIALECTS,
    REPLIED,
    Dialect,
    LocalTokenizer,
    ServerTokenizer,
    open_tokenizer,
    sglang_weights,
    stable_fingerprint,
)
from goldless.models.http_api.specs import Specification
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    NotSentError,
    QueueFullError,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    Use,
    content_hash,
)
from goldless.models.turn_signs import without_turn_signs
from goldless.models.usage import Ledger, MoreToReserveError, most_usage
from goldless.records import CallFailure, FailureKind

_QUESTION = Message("user", "Answer with yes or no: is water wet?")
_CHAT_PROBE = ChatRequest((_QUESTION,), max_tokens=16, seed=0, choices=("yes", "no"), logprobs=True)
_ANSWER = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)
_LENGTH_FIELDS = ("max_model_len", "context_length", "context_window", "inputTokenLimit")
"""vLLM and SGLang; OpenRouter and Together; Groq; Gemini."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one probe."""

    ability: str  # what was probed, such as ``scoring as vllm``
    works: bool
    answer: str  # the server's reply, described


class HttpModel:
    """One model on one server: it scores and writes, as far as ``capabilities`` say.

    ``prepare`` probes what the model is needed for: chat by one short question, scoring by trying each dialect on a few
    words. What was not probed counts as absent until ``encode`` or ``score`` has checked.
    """

    def __init__(self, said: Specification, *, use: Use = "both", calling: CallSettings | None = None) -> None:
        """Nothing is sent yet. Raises a UserError if the server's address or key is not known."""
        self._said = said
        self._service = said.service
        self._name = said.name
        self._use = use
        address, self._settings = said.place()
        self._format = FORMATS[self._service.format]
        alternatives = self._format.wording.alternatives if self._service.choice else 0
        self._wording = replace(self._format.wording, alternatives=alternatives, **said.thinking)
        calling = replace(calling or CallSettings(), **said.calling)
        self._client = Client(address, said.api_key(address), self._format.headers, calling)
        self._tokenizer: LocalTokenizer | None = None
        self._lock = anyio.Lock()
        self._listed: Mapping[str, Mapping[str, Any]] = {}  # what the server lists, by name
        self._unlisted: AttemptError | None = None  # why a server that should list its models did not
        self._rejection: AttemptError | None = None  # why the probe of chat failed
        self._dialect: Dialect | None = None
        self._probed: set[str] = set()  # names of the methods below that were run by ``_once``
        self._server_tokenizer: ServerTokenizer | None = None  # of a server that looks as if it showed one
        self._weights: str | None = None  # the weights behind the name, as the server calls them
        self._fingerprint = ""
        self.capabilities = Capabilities()  # what was found so far
        self.findings: tuple[ProbeResult, ...] = ()  # the finding of each probe, in order
        self._identify()

    def __repr__(self) -> str:
        return f"HttpModel({self._service.name!r}, {self._client.base_url!r}, {self._name!r})"

    def _identify(self) -> None:
        settings = dict(self._settings)
        if "server" in settings and self._weights is not None:
            settings["server"] = "own"  # it may move, and a router before several servers is the same model
        usual = self._format.wording.settings()  # what no model of this format takes says nothing about this one
        settings |= {name: value for name, value in self._wording.settings().items() if name not in usual}
        if self._dialect is not None:
            settings |= {"dialect": self._dialect.name, "layout": self._dialect.tokenizer.layout}
        said = ("" if self._weights == self._name else self._weights or "", self._fingerprint)
        revision = content_hash(*said)[:16] if any(said) else ""
        tokenizer = self._tokenizer.digest if self._tokenizer else ""
        self.identity = ModelIdentity(self._service.name, self._name, revision, tokenizer, settings)

    @property
    def thinking_tokens(self) -> int:
        return self._wording.thinking_tokens

    @property
    def positions(self) -> str:
        return "target+end" if self._dialect is not None and self._dialect.tokenizer.end is not None else "target"

    @property
    def context_length(self) -> int | None:
        """Maximum tokens of context and target together; one is reserved for a token that a server insists on."""
        entry = self._listed.get(self._name, {})
        lengths = (entry.get(length) for length in _LENGTH_FIELDS)
        return next((length - 1 for length in lengths if isinstance(length, int) and length > 0), None)

    def charge_to(self, purse: Ledger) -> None:
        self._client.purse = purse

    async def prepare(self) -> None:
        await self._once(self._connect)
        if self._use != "scoring":
            await self._once(self._probe_chat)
        if self._use != "chat":
            await self._once(self._probe_scoring)
        if self._dialect is not None and self._dialect.tokenizer.layout == "plain":
            await self._once(self._probe_chat)  # whether a chat template is left out
        self._require_known_model()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _once(self, probe: Callable[[], Awaitable[None]]) -> None:
        async with self._lock:
            if probe.__name__ not in self._probed:
                await probe()
                self._probed.add(probe.__name__)
                self._identify()

    async def _connect(self) -> None:
        client = self._client.hasty()
        listed: Mapping[str, Mapping[str, Any]] = {}
        try:
            with reading():
                if self._service.listed:
                    listed = listed_models(await client.send("GET", self._format.listing))
        except AttemptError as failure:
            if failure.kind in {"connection", "timeout"}:
                raise PrerequisiteError(
                    f"no server responds at {client.base_url} ({failure.message}).\n"
                    "Start it, or check the host and the port"
                ) from None
            self._require_key(failure, "this server accepts")
            if failure.kind in {"rate_limited", "server_error"} and not self._name:
                raise _not_ready(failure) from None
            self._unlisted = None if failure.is_answer else failure
        if not self._name and len(listed) != 1:
            has = f"has {len(listed)} models" if listed else "does not list its models"
            names = f"\nIt has: {', '.join([*listed][:20])}" if listed else ""
            raise ModelSpecError(f"{client.base_url} {has}. Name one: {client.base_url}#MODEL{names}")
        self._name = self._name or next(iter(listed))
        entry = listed.get(self._name, {})
        if entry.get("owned_by") == "sglang":  # whose root is only the served name again
            with suppress(AttemptError):
                self._weights = await sglang_weights(client)
        elif isinstance(entry.get("root"), str):
            self._weights = entry["root"] or None
        if _LENGTH_FIELDS[0] in entry:  # vLLM or SGLang, which have a route to their tokenizer
            self._server_tokenizer = ServerTokenizer(self._name)
            self.capabilities = replace(self.capabilities, keeps_prefixes=True)
        self._listed = listed

    def _require_key(self, failure: AttemptError, that: str) -> None:
        if failure.bad_key:
            raise PrerequisiteError(f"{failure.message}\nSet {self._said.key_variable} to a key that {that}") from None

    def _found(self, ability: str, answer: str, *, works: bool) -> None:
        self.findings += (ProbeResult(ability, works, self._client.key.redact(answer)),)

    async def _probe_chat(self) -> None:
        tokens = choice = False
        try:
            data = await self._ask(_CHAT_PROBE, reserved=False)
            self._fingerprint = stable_fingerprint(data)
            with reading():
                written = self._format.read(data)
        except AttemptError as failure:
            _require_affordable(failure)
            self._require_key(failure, f"may use {self._name}")
            self._rejection = failure
            # A failure that a retry may mend, or a limit met while thinking, is no proof of inability.
            works = not failure.is_answer or "limit was reached" in failure.message
            answer = failure.message
        else:
            works, tokens = True, bool(written.steps)
            choice = any(len(step.alternatives) > 1 for step in written.steps)
            reply = written.without_thoughts()
            if reply.cut and not _ANSWER.search(reply.text):
                aloud = bool(reply.text.strip())
                self._wording = replace(self._wording, seen_thinking=True, thinks_aloud=aloud)
            said = ["yes" if found else "no" for found in (tokens, choice)]
            answer = f"log-probabilities of what it writes: {said[0]}; with alternatives: {said[1]}"
        self._found("chat", answer, works=works)
        self.capabilities = replace(
            self.capabilities, chat=works, choice=choice, one_call_choice=choice, token_logprobs=tokens
        )

    async def _probe_scoring(self) -> None:
        if self._said.tokenizer and self._tokenizer is None:
            self._tokenizer = await anyio.to_thread.run_sync(open_tokenizer, self._said.tokenizer)
        client, hasty = self._client, self._client.hasty()
        for name in self._service.scoring_dialects():
            dialect, weights = DIALECTS[name](self._name, self._tokenizer), self._weights
            try:
                with reading():
                    if name == "sglang":
                        weights = await sglang_weights(hasty)
                    request = await dialect.tokenizer.encode(hasty, ASKED, REPLIED)
                    reply, fingerprint = await dialect.score(hasty, request, probing=True)
            except AttemptError as failure:
                _require_affordable(failure)
                self._found(f"scoring as {name}", failure.message, works=False)
                continue
            answer = f"{len(reply.logprobs)} values, {dialect.tokenizer.layout} layout"
            self._found(f"scoring as {name}", answer, works=True)
            self._dialect, self._weights = dialect, weights
            self._fingerprint = self._fingerprint or fingerprint
            if client.calling.concurrency is None and dialect.most_at_once is not None:
                client.limiter.maximum = min(client.limiter.maximum, dialect.most_at_once)
            break
        self.capabilities = replace(self.capabilities, scoring=self._dialect is not None)

    async def _scoring_dialect(self) -> Dialect:
        if self._dialect is None:
            await self._once(self._connect)
            await self._once(self._probe_scoring)
        if self._dialect is None:
            probed = [f"  {finding.ability}: {finding.answer}" for finding in self.findings if not finding.works]
            raise CapabilityError(
                f"{self._client.base_url} returns no log-probabilities of a given text for {self._name}. It was "
                "probed:\n" + "\n".join(probed) + "\n"
                "Scorers that can: embedded, gguf:…, hf:…, or a vLLM or SGLang server (http://host:port/v1#MODEL)"
            )
        return self._dialect

    def _require_known_model(self) -> None:
        """Raise if the server is not ready, or the name is not listed, or nothing is, and the server rejects it."""
        can, names = self.capabilities, tuple(self._listed)
        if self._unlisted is not None and not can.scoring and (not can.chat or self._rejection is not None):
            raise _not_ready(self._unlisted)
        if can.chat or can.scoring or self._name in names:
            return
        if names:
            answers = "; ".join(finding.answer for finding in self.findings[:1])
            raise ModelSpecError(
                f"{self._client.base_url} has no model {self._name!r}{nearest(self._name, names)} ({answers})\n"
                f"It has: {', '.join(names[:20])}"
            )
        if not self._service.listed and self._rejection is not None:
            raise ModelSpecError(f"{self._service.name}:{self._name} cannot be used: {self._rejection.message}")

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        dialect = await self._scoring_dialect()
        with self._as_call_error():
            # the server's tokenizer would honour special tokens in the target
            return await dialect.tokenizer.encode(self._client, messages, without_turn_signs(target))

    async def pieces(self, request: ScoreRequest) -> tuple[str, ...] | None:
        tokenizer, target = (await self._scoring_dialect()).tokenizer, request.target
        if isinstance(target, str):
            return None
        words = tokenizer.without_end(target)
        with self._as_call_error():
            texts = await tokenizer.texts(self._client, words)
        return texts if texts is None or words == target else (*texts, "")

    @contextmanager
    def _as_call_error(self) -> Iterator[None]:
        try:
            with reading():
                yield
        except AttemptError as failure:
            raise CallError(self._record(failure)) from None

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests, those with a common context next to each other; deliver each reply as it arrives."""
        dialect, longest = await self._scoring_dialect(), self.context_length

        async def score_one(request: ScoreRequest) -> ScoreReply:
            if not request.target:
                return TokenLogprobs(())  # a sum over nothing
            if longest is not None and not isinstance(request.context, str) and request.tokens > longest:
                too_long = f"{request.tokens} tokens do not fit {self._name}, which accepts {longest}"
                return CallFailure("too_long", too_long)
            try:
                with reading():
                    return (await dialect.score(self._client, request))[0]
            except AttemptError as failure:
                return self._record(failure)

        async def send(index: int) -> None:
            deliver({index: await score_one(requests[index])})

        contexts: dict[object, list[int]] = {}
        for index, request in enumerate(requests):
            contexts.setdefault(request.context, []).append(index)
        # requests that arrive together under a new beginning would each compute it
        firsts = [indices.pop(0) for indices in contexts.values()] if dialect.shares_contexts else []
        others = [index for indices in contexts.values() for index in indices]
        for wave in (firsts[:1], firsts[1:], others):
            await side_by_side(send, wave, self._client.limiter.maximum)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        return self._format.body(self._service, self._name, request, self._wording)

    async def _ask(self, request: ChatRequest, *, reserved: bool = True) -> Any:
        """The server's reply, by the parameters it accepts; ``reserved``: whether something is set aside for it."""
        route = self._format.route.format(model=quote(self._name.removeprefix("models/"), safe=""))
        usage = None if reserved else self._format.usage
        wording = self._wording
        while True:
            most = most_usage(request, wording.thinking_tokens)
            body = self._format.body(self._service, self._name, request, wording)
            try:
                data = await self._client.post(route, body, most, usage=usage)
            except AttemptError as failure:
                other = wording.after(failure)
                if other is None:
                    raise
                if reserved and self._client.purse is not None and other.thinking_tokens > wording.thinking_tokens:
                    self._wording = other
                    self._identify()
                    raise MoreToReserveError from None
                wording = other
            else:
                if wording != self._wording:
                    self._wording = wording
                    self._identify()
                return data

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply, or why there is none.

        With ``choices``, ``text`` is the chosen answer: the written one if there is exactly one, otherwise the most
        probable one. If neither is known, it is as the model wrote it. ``formats`` describes how that is read.
        Raises MoreToReserveError if something was set aside for the call, and not enough for how it must be sent.
        """
        if not self._name:
            await self._once(self._connect)
        try:
            return self._reply(await self._ask(request), request)
        except AttemptError as failure:
            return self._record(failure)

    def _reply(self, data: Any, request: ChatRequest) -> ChatReply | CallFailure:
        """Contents of a reply, with written tokens and the choice, if requested and available, and without the key."""
        usage, withhold = self._format.usage(data), self._client.key.withhold
        try:
            with reading():
                written = self._format.read(data).without_thoughts(aloud=self._wording.thinks_aloud)
                answer, logprobs = chosen(written, request.choices) if request.choices else (None, None)
        except AttemptError as failure:
            if failure.charged is not None:
                failure.charged = (usage.input_tokens, usage.output_tokens)
            return self._record(failure)
        if written.text and not usage.output_tokens:
            usage = Usage()  # a server that charges nothing for a text does not count what it writes
        tokens = tuple((step.token, step.logprob) for step in written.steps) if request.logprobs else ()
        said = "".join(token for token, _ in tokens)
        if answer is None and logprobs is not None:
            answer = max(logprobs, key=logprobs.__getitem__)
        return ChatReply(
            text=withhold(written.text) if answer is None else answer,
            finish="choice" if answer is not None else "length" if written.cut else "stop",
            token_logprobs=tokens if tokens and withhold(said) == said else None,
            choice_logprobs=logprobs,
            usage=usage,
        )

    def _record(self, failure: AttemptError) -> CallFailure:
        message = self._client.key.redact(failure.message)
        if failure.bad_key:
            message += f". Check {self._said.key_variable}"
        return CallFailure(failure.kind, message, failure.attempts, failure.charged)

    async def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the messages in the server's chat layout, which only vLLM can tell; CallError if it is down."""
        if self._server_tokenizer is None:
            return None
        try:
            return len(await self._server_tokenizer.chat_ids(self._client, tuple(messages)))
        except AttemptError as failure:
            if not failure.is_answer:
                raise CallError(self._record(failure)) from None
            self._server_tokenizer = None  # it does not know chats
            return None


def _require_affordable(failure: AttemptError) -> None:
    if failure.kind == "budget":
        raise BudgetError("the budget does not allow the short calls that test what the model can do. Raise --budget")


def _not_ready(failure: AttemptError) -> PrerequisiteError:
    return PrerequisiteError(f"{failure.message}\nThe server is there but not ready. Try again later")


# --- batches: many calls at once, at half the price, answered within a day --------------------------------------------

MOST_RESULT_BYTES = 2_000_000_000  # of the results of one batch, which may have tens of thousands of calls
_BOUNDARY = "goldless-batch-8f1d2c7b"
_PERHAPS_SENT = frozenset({"timeout", "connection", "server_error", "bad_reply"})
_OPEN_REASONS: Mapping[str, FailureKind] = {
    "token_limit_exceeded": "waiting",
    "billing_hard_limit_reached": "rate_limited",
    "insufficient_quota": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
}
"""Codes with which OpenAI fails a whole batch that it would take later; ``waiting``: its queue is full."""
_ANTHROPIC_STATUSES = {"invalid_request_error": 400, "request_too_large": 413, "rate_limit_error": 429}


class BatchingModel(HttpModel):
    """A model of a provider with a batch API, which takes many calls at once, to be answered later.

    At OpenAI: a file of calls, a batch made of it, and files of results and errors.
    """

    batch_route = "/v1/batches"
    most_batch_calls = 50_000
    most_batch_bytes = 190_000_000

    def batch_line(self, key: str, request: ChatRequest) -> bytes:
        """A call as a part of a batch, found again by its key."""
        call = {"custom_id": key, "method": "POST", "url": self._format.route, "body": self._body(request)}
        return orjson.dumps(call)

    async def _upload(self, lines: Sequence[bytes]) -> bytes:
        head = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="goldless.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + b"\n".join(lines) + f"\r\n--{_BOUNDARY}--\r\n".encode()
        form = f"multipart/form-data; boundary={_BOUNDARY}"
        file = (await self._client.send("POST", "/v1/files", body, content_type=form))["id"]
        return orjson.dumps({"input_file_id": file, "endpoint": self._format.route, "completion_window": "24h"})

    async def _rows(self, batch: Mapping[str, Any]) -> list[Any] | None:
        """The rows of results of a batch; None: it has not ended."""
        status = batch["status"]
        if status not in {"completed", "expired", "cancelled", "failed"}:
            return None
        files = [batch[name] for name in ("output_file_id", "error_file_id") if batch.get(name)]
        rows = [row for file in files for row in await self._lines(f"/v1/files/{file}/content")]
        if not rows and status == "failed":
            errors = orjson.dumps(batch.get("errors")).decode()
            kinds: list[FailureKind] = [kind for code, kind in _OPEN_REASONS.items() if code in errors]
            raise AttemptError(kinds[0] if kinds else "rejected", f"the batch failed: {errors[:300]}")
        return rows

    def _result(self, row: Any) -> tuple[int, Any]:
        """The status and the JSON of the reply in a row; 0: the batch did not get to this call."""
        status, body = (part_of(row, "response", one) for one in ("status_code", "body"))
        if isinstance(status, int):
            return status, body
        reached = part_of(row, "error", "code") not in {"batch_expired", "batch_cancelled"}
        return 500 * reached, {"error": part_of(row, "error")}

    async def send_batch(self, lines: Sequence[bytes]) -> str:
        """The provider's name for a batch. Raises NotSentError if it was not taken, CallError if that is not known."""
        sending = False
        try:
            with reading():
                body = await self._upload(lines)
                sending = True
                return str((await self._client.attempt("POST", self.batch_route, body))["id"])
        except AttemptError as failure:
            record = self._record(failure)
            if sending and failure.kind in _PERHAPS_SENT:
                raise CallError(record) from None
            refusal = QueueFullError if failure.kind == "rate_limited" else NotSentError
            raise refusal(f"the batch of {self.identity.short} was not accepted: {record.message}") from None

    async def batch_replies(
        self, batch: str, requests: Mapping[str, ChatRequest]
    ) -> Mapping[str, ChatReply | CallFailure] | None:
        """The replies of a batch that has ended, without calls it did not get to; None if it has not.

        Raises UserError if the provider no longer has it, QueueFullError if it was too large for the provider's queue,
        CallError if the provider does not respond.
        """
        try:
            with reading():
                rows = await self._rows(await self._client.send("GET", f"{self.batch_route}/{batch}"))
        except AttemptError as failure:
            if failure.status in {404, 410}:
                raise UserError(
                    f"the batch {batch} of {self.identity.short} is gone: {failure.message}. Its {len(requests):,} "
                    "calls have no replies. To send and pay for them again: "
                    f"goldless journal clear --batch {batch}"
                ) from None
            if failure.kind == "waiting":
                raise QueueFullError(failure.message) from None
            if failure.kind in {"rejected", "rate_limited"} and not failure.status:
                return dict.fromkeys(requests, self._record(failure))
            raise CallError(self._record(failure)) from None
        found: dict[str, ChatReply | CallFailure] = {}
        for row in rows or ():
            key, (status, body) = part_of(row, "custom_id"), self._result(row)
            if key in requests and status == 200:
                found[key] = self._reply(body, requests[key])
            elif key in requests and status:
                # as it would have been without a batch; batches charge for replies only
                failed = status_failure(status, orjson.dumps(body), {}, url="the batch", key=self._client.key)
                failed.charged = None
                found[key] = self._record(failed)
        return None if rows is None else found

    async def _lines(self, route: str) -> list[Any]:
        content = await self._client.send("GET", route, raw=True, most_bytes=MOST_RESULT_BYTES)
        try:
            return [orjson.loads(line) for line in content.splitlines() if line.strip()]
        except orjson.JSONDecodeError:
            raise bad_reply("the results of the batch are not JSON lines") from None


class AnthropicModel(BatchingModel):
    """At Anthropic: the calls themselves create a batch, and the results are one file."""

    batch_route = "/v1/messages/batches"
    most_batch_calls = 100_000
    most_batch_bytes = 240_000_000

    def batch_line(self, key: str, request: ChatRequest) -> bytes:
        return orjson.dumps({"custom_id": key, "params": self._body(request)})

    async def _upload(self, lines: Sequence[bytes]) -> bytes:
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def _rows(self, batch: Mapping[str, Any]) -> list[Any] | None:
        if batch["processing_status"] != "ended":
            return None
        return await self._lines(f"{self.batch_route}/{batch['id']}/results")

    def _result(self, row: Any) -> tuple[int, Any]:
        kind, error = part_of(row, "result", "type"), part_of(row, "result", "error")
        if kind == "succeeded":
            return 200, part_of(row, "result", "message") or {}
        inner = part_of(error, "error") or error
        reached = kind not in {"expired", "canceled"}
        return reached * _ANTHROPIC_STATUSES.get(str(part_of(inner, "type")), 500), {"error": inner}
