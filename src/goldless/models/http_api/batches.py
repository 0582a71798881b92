"""Batch APIs of OpenAI and Anthropic: many calls handed over at once, at half the price, and answered within a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from goldless.errors import CallError, UserError
from goldless.models.http_api.client import ApiKey, AttemptError, bad_reply, part_of, reading, status_failure
from goldless.models.http_api.model import HttpModel
from goldless.models.interface import ChatReply, ChatRequest, NotSentError
from goldless.records import CallFailure

MOST_RESULT_BYTES = 2_000_000_000  # of the results of one batch, which may have tens of thousands of calls
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
        """The body that creates a batch of these calls; nothing is paid for yet."""
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
            raise AttemptError("rejected", f"the batch failed: {orjson.dumps(batch.get('errors')).decode()[:300]}")
        return rows

    def _result(self, row: Any) -> Any:
        """The reply's JSON in a row; None: the batch did not get to this call. Raises AttemptError if it failed."""
        error, status, body = row.get("error"), *(part_of(row, "response", one) for one in ("status_code", "body"))
        if status == 200:
            return body
        if isinstance(status, int):
            raise _failed(status, body)
        if part_of(error, "code") in {"batch_expired", "batch_cancelled"}:
            return None
        raise AttemptError("server_error", str(part_of(error, "message") or row)[:300])

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
            raise NotSentError(f"the batch of {self.identity.short} was not accepted: {record.message}") from None

    async def batch_replies(
        self, batch: str, requests: Mapping[str, ChatRequest]
    ) -> Mapping[str, ChatReply | CallFailure] | None:
        """The replies of a batch that has ended, without calls it did not get to; None if it has not.

        Raises UserError if the provider no longer has it, CallError if the provider does not respond.
        """
        try:
            with reading():
                rows = await self._rows(await self._client.send("GET", f"{self.batch_route}/{batch}"))
        except AttemptError as failure:
            if failure.status in {404, 410}:
                raise UserError(
                    f"the batch {batch} of {self.identity.short} is gone: {failure.message}. Its {len(requests):,} "
                    "calls have no replies. To send and pay for them again: "
                    f"goldless journal batches --forget {batch}"
                ) from None
            if failure.kind == "rejected" and not failure.status:
                return dict.fromkeys(requests, self._record(failure))
            raise CallError(self._record(failure)) from None
        found: dict[str, ChatReply | CallFailure] = {}
        for row in rows or ():
            key = part_of(row, "custom_id")
            try:
                if key in requests and (data := self._result(row)) is not None:
                    found[key] = self._reply(data, requests[key])
            except AttemptError as failure:
                found[key] = self._record(failure)
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

    def _result(self, row: Any) -> Any:
        kind, error = part_of(row, "result", "type"), part_of(row, "result", "error")
        if kind == "succeeded":
            return part_of(row, "result", "message") or {}
        if kind in {"expired", "canceled"}:
            return None
        inner = part_of(error, "error") or error
        raise _failed(_ANTHROPIC_STATUSES.get(str(part_of(inner, "type")), 500), {"error": inner})


def _failed(status: int, body: Any) -> AttemptError:
    """The failure of one call, as it would have been without a batch; batches charge for replies only."""
    failure = status_failure(status, orjson.dumps(body), {}, url="the batch", key=ApiKey())
    failure.charged = None
    return failure
