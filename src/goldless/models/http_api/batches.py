"""Batch APIs: many calls handed over at once, at half the price, and answered within a day.

A *batch format* is one object: a line per call, how a batch is sent, how it is asked after, and its results by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from goldless.models.http_api.client import ApiKey, AttemptError, bad_reply, part_of, status_failure

if TYPE_CHECKING:
    from goldless.models.http_api.client import Client

_MEGABYTE = 1_000_000
MOST_RESULT_BYTES = 2000 * _MEGABYTE
"""Of the results of one batch, which may have tens of thousands of calls."""
_BOUNDARY = "goldless-batch-8f1d2c7b"
Result = tuple[str, Any | AttemptError]
"""The key of a call, and the reply's JSON or why there is none."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a provider says about a batch."""

    ended: bool
    data: Any


class BatchFormat(Protocol):
    """How batches are sent and read."""

    most_calls: int
    most_bytes: int

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call."""

    async def upload(self, client: Client, lines: Sequence[bytes]) -> Any:
        """What is needed before a batch can be created, such as a file. Raises AttemptError; nothing is paid for."""

    async def create(self, client: Client, model: str, uploaded: Any) -> str:
        """Create the batch; its id. Raises AttemptError."""

    async def look(self, client: Client, batch: str) -> Look:
        """Whether it has ended. Raises AttemptError."""

    async def rows(self, client: Client, look: Look) -> list[Any]:
        """The rows of results of a batch that has ended. Raises AttemptError."""

    def result(self, row: Any) -> Result | None:
        """One row; None: a call that the batch did not get to. Raises AttemptError if it names no call."""


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


async def _file_lines(client: Client, file: Any) -> list[Any]:
    """The lines of a results file; none if there is no file."""
    if not isinstance(file, str) or not file:
        return []
    content, _, _ = await client.transfer("GET", f"/v1/files/{file}/content", most_bytes=MOST_RESULT_BYTES)
    return _json_lines(content)


def _json_lines(content: bytes) -> list[Any]:
    try:
        return [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        raise bad_reply("the results of the batch are not JSON lines") from None


class OpenAiBatches:
    """A file of calls, a batch made of it, and files of results and errors."""

    most_calls = 50_000
    most_bytes = 190 * _MEGABYTE
    ended = frozenset({"completed", "expired", "cancelled", "failed"})
    broken = "failed"
    route = "/v1/batches"
    files = ("output_file_id", "error_file_id")

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call."""
        return orjson.dumps({"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body})

    async def upload(self, client: Client, lines: Sequence[bytes]) -> Any:
        """The id of a file with the calls."""
        head = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="goldless.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + b"\n".join(lines) + f"\r\n--{_BOUNDARY}--\r\n".encode()
        content, _, _ = await client.transfer("POST", "/v1/files", body, f"multipart/form-data; boundary={_BOUNDARY}")
        return _text(_json_lines(content)[0] if content.strip() else None, "id")

    def creation(self, model: str, uploaded: Any) -> dict[str, Any]:  # noqa: ARG002 - the model is in the lines
        """The body that creates a batch."""
        return {"input_file_id": uploaded, "endpoint": "/v1/chat/completions", "completion_window": "24h"}

    async def create(self, client: Client, model: str, uploaded: Any) -> str:
        """Create the batch; its id."""
        data, _ = await client.send("POST", self.route, orjson.dumps(self.creation(model, uploaded)))
        return _text(data, "id")

    async def look(self, client: Client, batch: str) -> Look:
        """Whether it has ended."""
        data, _ = await client.send("GET", f"{self.route}/{batch}")
        return Look(_text(data, "status") in self.ended, data)

    async def rows(self, client: Client, look: Look) -> list[Any]:
        """The rows of results."""
        rows = [row for name in self.files for row in await _file_lines(client, look.data.get(name))]
        if not rows and look.data["status"] == self.broken:
            raise AttemptError("rejected", f"the batch failed: {orjson.dumps(look.data.get('errors')).decode()[:300]}")
        return rows

    def result(self, row: Any) -> Result | None:
        """One row."""
        key, code = _text(row, "custom_id"), part_of(row, "error", "code")
        if code in {"batch_expired", "batch_cancelled"}:
            return None
        status, body = part_of(row, "response", "status_code"), part_of(row, "response", "body")
        if status == 200:
            return key, body
        if isinstance(status, int):
            return key, _failed(status, body)
        return key, AttemptError("server_error", str(part_of(row, "error", "message") or row)[:300])


class MistralBatches(OpenAiBatches):
    """As OpenAI's, in other words; the model is the batch's."""

    most_calls = 100_000
    ended = frozenset({"SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"})
    broken = "FAILED"
    route = "/v1/batch/jobs"
    files = ("output_file", "error_file")

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call."""
        return orjson.dumps({"custom_id": key, "body": body})

    def creation(self, model: str, uploaded: Any) -> dict[str, Any]:
        """The body that creates a batch."""
        return {"input_files": [uploaded], "endpoint": "/v1/chat/completions", "model": model, "timeout_hours": 24}


class AnthropicBatches:
    """The calls themselves create a batch; the results are one file."""

    most_calls = 100_000
    most_bytes = 240 * _MEGABYTE
    route = "/v1/messages/batches"

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call."""
        return orjson.dumps({"custom_id": key, "params": body})

    async def upload(self, client: Client, lines: Sequence[bytes]) -> Any:  # noqa: ARG002 - nothing is uploaded
        """The body that creates the batch."""
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def create(self, client: Client, model: str, uploaded: Any) -> str:  # noqa: ARG002 - the model is in the lines
        """Create the batch; its id."""
        data, _ = await client.send("POST", self.route, uploaded)
        return _text(data, "id")

    async def look(self, client: Client, batch: str) -> Look:
        """Whether it has ended."""
        data, _ = await client.send("GET", f"{self.route}/{batch}")
        return Look(_text(data, "processing_status") == "ended", data)

    async def rows(self, client: Client, look: Look) -> list[Any]:
        """The rows of results."""
        route = f"{self.route}/{_text(look.data, 'id')}/results"
        content, _, _ = await client.transfer("GET", route, most_bytes=MOST_RESULT_BYTES)
        return _json_lines(content)

    def result(self, row: Any) -> Result | None:
        """One row."""
        key, kind = _text(row, "custom_id"), part_of(row, "result", "type")
        if kind in {"expired", "canceled"}:
            return None
        if kind == "succeeded":
            return key, part_of(row, "result", "message")
        error = part_of(row, "result", "error")
        inner = part_of(error, "error") or error
        return key, _failed(_ANTHROPIC_STATUSES.get(str(part_of(inner, "type")), 500), {"error": inner})


_ANTHROPIC_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


class GeminiBatches:
    """The calls themselves create a batch, an operation that holds the results when it has ended."""

    most_calls = 50_000
    most_bytes = 18 * _MEGABYTE

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One call."""
        return orjson.dumps({"request": body, "metadata": {"key": key}})

    async def upload(self, client: Client, lines: Sequence[bytes]) -> Any:  # noqa: ARG002 - nothing is uploaded
        """The body that creates the batch."""
        return (
            b'{"batch":{"displayName":"goldless","inputConfig":{"requests":{"requests":[' + b",".join(lines) + b"]}}}}"
        )

    async def create(self, client: Client, model: str, uploaded: Any) -> str:
        """Create the batch; its id."""
        name = model.removeprefix("models/")
        data, _ = await client.send("POST", f"/v1/models/{name}:batchGenerateContent", uploaded)
        return _text(data, "name")

    async def look(self, client: Client, batch: str) -> Look:
        """Whether it has ended."""
        data, _ = await client.send("GET", f"/v1/{batch}", most_bytes=MOST_RESULT_BYTES)
        state = str(part_of(data, "metadata", "state")).rpartition("STATE_")[2]
        return Look(state in {"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"}, data)

    async def rows(self, client: Client, look: Look) -> list[Any]:  # noqa: ARG002 - they are in the operation
        """The rows of results."""
        places = (("metadata", "output"), ("response",), ("response", "output"))
        lists = (part_of(look.data, *place, "inlinedResponses", "inlinedResponses") for place in places)
        rows: list[Any] = next((rows for rows in lists if rows), [])
        if not rows and str(part_of(look.data, "metadata", "state")).endswith("FAILED"):
            raise AttemptError("rejected", f"the batch failed: {orjson.dumps(look.data.get('error')).decode()[:300]}")
        return list(rows)

    def result(self, row: Any) -> Result | None:
        """One row."""
        key, error = _text(part_of(row, "metadata"), "key"), part_of(row, "error")
        if error is None:
            return key, part_of(row, "response")
        # a google.rpc.Status: 1 cancelled, 3 invalid argument, 4 deadline exceeded, 7 permission denied, 8 exhausted
        code = part_of(error, "code")
        return None if code in {1, 4} else (key, _failed({3: 400, 7: 403, 8: 429}.get(code, 500), {"error": error}))
