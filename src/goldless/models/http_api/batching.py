"""A model whose provider also takes its calls as batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goldless.errors import CallError, UserError
from goldless.models.http_api.batches import BatchFormat
from goldless.models.http_api.client import AttemptError
from goldless.models.http_api.model import HttpModel
from goldless.models.http_api.reading import reading
from goldless.models.interface import ChatReply, ChatRequest, NotSentError
from goldless.records import CallFailure

_PERHAPS_SENT = frozenset({"timeout", "connection", "server_error", "bad_reply"})


class BatchingHttpModel(HttpModel):
    """A model of a provider with a batch API."""

    def __init__(self, batches: BatchFormat, **options: Any) -> None:
        """``options``: those of an HttpModel."""
        super().__init__(**options)
        self._batches = batches

    @property
    def most_batch_calls(self) -> int:
        """The most calls in one batch."""
        return self._batches.most_calls

    @property
    def most_batch_bytes(self) -> int:
        """The most bytes of all lines of one batch."""
        return self._batches.most_bytes

    def batch_line(self, key: str, request: ChatRequest) -> bytes:
        """A call as a part of a batch, found again by its key."""
        return self._batches.line(key, self._format.body(request, model=self._name, wording=self._wording))

    async def send_batch(self, lines: Sequence[bytes]) -> str:
        """Send a batch; returns the provider's name for it.

        Raises NotSentError if it certainly was not accepted, CallError if that is not known.
        """
        try:
            with reading():
                uploaded = await self._calls.patiently(lambda: self._batches.upload(self._client, lines))
        except AttemptError as failure:
            raise NotSentError(self._not_sent(failure)) from None
        try:
            with reading():
                return await self._batches.create(self._client, self._name, uploaded)
        except AttemptError as failure:
            if failure.kind in _PERHAPS_SENT:
                raise CallError(self._record(failure)) from None
            raise NotSentError(self._not_sent(failure)) from None

    def _not_sent(self, failure: AttemptError) -> str:
        return f"the batch of {self._provider}:{self._name} was not accepted: {self._record(failure).message}"

    async def batch_replies(
        self, batch: str, requests: Mapping[str, ChatRequest]
    ) -> Mapping[str, ChatReply | CallFailure] | None:
        """The replies of a batch that has ended, without calls it did not get to; None if it has not.

        Raises UserError if the provider no longer has it, CallError if the provider does not respond.
        """
        try:
            with reading():
                look = await self._calls.patiently(lambda: self._batches.look(self._client, batch))
                if not look.ended:
                    return None
                rows = await self._calls.patiently(lambda: self._batches.rows(self._client, look))
        except AttemptError as failure:
            if failure.status in {404, 410}:
                raise UserError(
                    f"the batch {batch} of {self._provider}:{self._name} is gone: {failure.message}. Its "
                    f"{len(requests):,} calls have no replies. To send and pay for them again: "
                    f"goldless batches --forget {batch}"
                ) from None
            if failure.kind == "rejected" and not failure.status:
                return dict.fromkeys(requests, self._record(failure))
            raise CallError(self._record(failure)) from None
        return self._replies(rows, requests)

    def _replies(self, rows: Sequence[Any], requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply | CallFailure]:
        found: dict[str, ChatReply | CallFailure] = {}
        for row in rows:
            try:
                with reading():
                    result = self._batches.result(row)
            except AttemptError:  # a row that names no call answers none
                continue
            if result is None or result[0] not in requests:
                continue
            key, data = result
            failed = isinstance(data, AttemptError)
            found[key] = self._record(data) if failed else self._reply(data, requests[key])
        return found
