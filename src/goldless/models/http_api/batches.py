"""Batch APIs of OpenAI and Anthropic: many calls handed over at once, at half the price, and answered within a day."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import orjson

from goldless.errors import CallError, UserError
from goldless.models.http_api.calls import Calling
from goldless.models.http_api.client import ApiKey, AttemptError, Client, bad_reply, part_of, reading, status_failure
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.specs import Specification
from goldless.models.interface import ChatReply, ChatRequest, NotSentError
from goldless.models.provider import Use
from goldless.records import CallFailure

_MEGABYTE = 1_000_000
MOST_RESULT_BYTES = 2000 * _MEGABYTE
"""Of the results of one batch, which may have tens of thousands of calls."""
_BOUNDARY = "goldless-batch-8f1d2c7b"
_PERHAPS_SENT = frozenset({"timeout", "connection", "server_error", "bad_reply"})
_ANTHROPIC_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
Result = tuple[str, Any | AttemptError]
"""The key of a call, and the reply's JSON or why there is none."""
Done = TypeVar("Done")


class BatchFormat(ABC):
    """How a provider takes a batch and gives its results; every method may raise AttemptError."""

    most_calls: int
    most_bytes: int
    route: str

    @abstractmethod
    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call as a part of a batch."""

    @abstractmethod
    async def upload(self, client: Client, lines: Sequence[bytes]) -> bytes:
        """The body that creates the batch; nothing is paid for yet."""

    @abstractmethod
    async def rows(self, client: Client, batch: str) -> list[Any] | None:
        """The rows of results; None: the batch has not ended."""

    @abstractmethod
    def result(self, row: Any) -> Result | None:
        """One row; None: a call that the batch did not get to."""


class OpenAiBatches(BatchFormat):
    """A file of calls, a batch made of it, and files of results and errors."""

    most_calls = 50_000
    most_bytes = 190 * _MEGABYTE
    route = "/v1/batches"

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body})

    async def upload(self, client: Client, lines: Sequence[bytes]) -> bytes:
        head = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="goldless.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + b"\n".join(lines) + f"\r\n--{_BOUNDARY}--\r\n".encode()
        content, _, _ = await client.transfer("POST", "/v1/files", body, f"multipart/form-data; boundary={_BOUNDARY}")
        file = _text(_json_lines(content)[0] if content.strip() else None, "id")
        return orjson.dumps({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"})

    async def rows(self, client: Client, batch: str) -> list[Any] | None:
        data, _ = await client.send("GET", f"{self.route}/{batch}")
        status = _text(data, "status")
        if status not in {"completed", "expired", "cancelled", "failed"}:
            return None
        rows = []
        for name in ("output_file_id", "error_file_id"):
            if file := data.get(name):
                content, _, _ = await client.transfer("GET", f"/v1/files/{file}/content", most_bytes=MOST_RESULT_BYTES)
                rows += _json_lines(content)
        if not rows and status == "failed":
            raise AttemptError("rejected", f"the batch failed: {orjson.dumps(data.get('errors')).decode()[:300]}")
        return rows

    def result(self, row: Any) -> Result | None:
        key, code = _text(row, "custom_id"), part_of(row, "error", "code")
        if code in {"batch_expired", "batch_cancelled"}:
            return None
        status, body = part_of(row, "response", "status_code"), part_of(row, "response", "body")
        if status == 200:
            return key, body
        if isinstance(status, int):
            return key, _failed(status, body)
        return key, AttemptError("server_error", str(part_of(row, "error", "message") or row)[:300])


class AnthropicBatches(BatchFormat):
    """The calls themselves create a batch; the results are one file."""

    most_calls = 100_000
    most_bytes = 240 * _MEGABYTE
    route = "/v1/messages/batches"

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"custom_id": key, "params": body})

    async def upload(self, client: Client, lines: Sequence[bytes]) -> bytes:  # noqa: ARG002 - nothing is uploaded
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def rows(self, client: Client, batch: str) -> list[Any] | None:
        data, _ = await client.send("GET", f"{self.route}/{batch}")
        if _text(data, "processing_status") != "ended":
            return None
        content, _, _ = await client.transfer("GET", f"{self.route}/{batch}/results", most_bytes=MOST_RESULT_BYTES)
        return _json_lines(content)

    def result(self, row: Any) -> Result | None:
        key, kind = _text(row, "custom_id"), part_of(row, "result", "type")
        if kind in {"expired", "canceled"}:
            return None
        if kind == "succeeded":
            return key, part_of(row, "result", "message")
        error = part_of(row, "result", "error")
        inner = part_of(error, "error") or error
        return key, _failed(_ANTHROPIC_STATUSES.get(str(part_of(inner, "type")), 500), {"error": inner})


def _text(data: Any, field: str) -> str:
    value = part_of(data, field)
    if not isinstance(value, str) or not value:
        raise bad_reply(f"the reply has no {field}")
    return value


def _failed(status: int, body: Any) -> AttemptError:
    """The failure of one call, as it would have been without a batch; batches charge for replies only."""
    failure = status_failure(status, orjson.dumps(body), {}, url="the batch", key=ApiKey())
    failure.charged = None
    return failure


def _json_lines(content: bytes) -> list[Any]:
    try:
        return [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        raise bad_reply("the results of the batch are not JSON lines") from None


class BatchingHttpModel(HttpModel):
    """A model of a provider with a batch API, which takes many calls at once, to be answered later."""

    def __init__(self, said: Specification, *, use: Use = "both", calling: Calling | None = None) -> None:
        super().__init__(said, use=use, calling=calling)
        self._batches = OpenAiBatches() if said.service.format == "openai" else AnthropicBatches()
        self.most_batch_calls, self.most_batch_bytes = self._batches.most_calls, self._batches.most_bytes

    def batch_line(self, key: str, request: ChatRequest) -> bytes:
        """A call as a part of a batch, found again by its key."""
        return self._batches.line(key, self._format.body(request, model=self._name, wording=self._wording))

    async def _timed(self, work: Callable[[], Awaitable[Done]]) -> Done:
        """The result of a request, which must be there within the timeout. Raises AttemptError."""
        seconds = self._calls.calling.timeout_seconds
        try:
            with anyio.fail_after(seconds), reading():
                return await work()
        except TimeoutError:
            message = f"{self._client.base_url} timed out: no reply within {seconds:g} seconds"
            raise AttemptError("timeout", message, retryable=True) from None

    async def send_batch(self, lines: Sequence[bytes]) -> str:
        """Send a batch; returns the provider's name for it.

        Raises NotSentError if it certainly was not accepted, CallError if that is not known.
        """
        batches, client = self._batches, self._client
        sending = False
        try:
            body = (await self._calls.patiently(lambda: self._timed(lambda: batches.upload(client, lines)))).data
            sending = True
            data, _ = await self._timed(lambda: client.send("POST", batches.route, body))
            return _text(data, "id")
        except AttemptError as failure:
            record = self._record(failure)
            if sending and failure.kind in _PERHAPS_SENT:
                raise CallError(record) from None
            raise NotSentError(f"the batch of {self._called} was not accepted: {record.message}") from None

    async def batch_replies(
        self, batch: str, requests: Mapping[str, ChatRequest]
    ) -> Mapping[str, ChatReply | CallFailure] | None:
        """The replies of a batch that has ended, without calls it did not get to; None if it has not.

        Raises UserError if the provider no longer has it, CallError if the provider does not respond.
        """
        batches, client = self._batches, self._client
        try:
            rows = (await self._calls.patiently(lambda: self._timed(lambda: batches.rows(client, batch)))).data
        except AttemptError as failure:
            if failure.status in {404, 410}:
                raise UserError(
                    f"the batch {batch} of {self._called} is gone: {failure.message}. Its {len(requests):,} calls have "
                    f"no replies. To send and pay for them again: goldless journal batches --forget {batch}"
                ) from None
            if failure.kind == "rejected" and not failure.status:
                return dict.fromkeys(requests, self._record(failure))
            raise CallError(self._record(failure)) from None
        if rows is None:
            return None
        found: dict[str, ChatReply | CallFailure] = {}
        for row in rows:
            try:
                with reading():
                    key, data = batches.result(row) or ("", None)
            except AttemptError:  # a row that names no call answers none
                continue
            if key in requests:
                failed = self._record(data) if isinstance(data, AttemptError) else None
                found[key] = failed or self._reply(data, requests[key])
        return found

    @property
    def _called(self) -> str:
        return f"{self._said.service.name}:{self._name}"
