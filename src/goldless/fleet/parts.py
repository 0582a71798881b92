"""Finished work items as Parquet parts, each named by the hash of its item, until the journal has the replies.

A driver that is killed finds them when the same command is run again. Replies travel in the same form.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from goldless.evidence import Schema
from goldless.files import POLARS_FAILED, write_whole
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity, ScoreRequest, TokenLogprobs, Usage
from goldless.models.interface import content_hash as hash_of
from goldless.models.journal import model_hash
from goldless.models.journalled import as_json, chat_as_json, context_hash, read_chat, request_data
from goldless.records import CallFailure

Request = ScoreRequest | ChatRequest
Reply = TokenLogprobs | ChatReply | CallFailure
SCHEMA: Schema = {
    "logprobs": pl.List(pl.Float64),
    "chat": pl.String,
    "failure": pl.String,
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "retries": pl.String,
}
"""One row per request; of the first three columns one has a value."""
KEPT_SECONDS = 30 * 24 * 3600
"""Parts that no run came back for are removed after this time."""
CHATS_KEPT = 1_000
"""A reply to a chat is in the journal only after it was returned, so the last parts stay a little longer."""


def item_name(identity: ModelIdentity, requests: Sequence[Request]) -> str:
    """The hash of a work item: the model and what it is asked."""
    return hash_of(model_hash(identity), [_data(request) for request in requests])


def _data(request: Request) -> object:
    if isinstance(request, ChatRequest):
        return request_data(request)
    return context_hash(request.context), request.target


def as_part(replies: Sequence[Reply]) -> bytes:
    """Replies as a Parquet file."""
    data = BytesIO()
    pl.DataFrame([_row(reply) for reply in replies], schema=SCHEMA, orient="row").write_parquet(data)
    return data.getvalue()


def _row(reply: Reply) -> tuple[object, ...]:
    if isinstance(reply, CallFailure):
        return None, None, as_json(asdict(reply)), 0, 0, "[]"
    logprobs = list(reply.logprobs) if isinstance(reply, TokenLogprobs) else None
    chat = chat_as_json(reply) if isinstance(reply, ChatReply) else None
    tokens = reply.usage.input_tokens, reply.usage.output_tokens
    return logprobs, chat, None, *tokens, as_json([asdict(failure) for failure in reply.retries])


def from_part(data: bytes, requests: int) -> list[Reply]:
    """The replies in a Parquet file. Raises ValueError if it is not one, or not of this many requests."""
    try:
        rows = pl.read_parquet(BytesIO(data)).select(*SCHEMA).rows()
    except (*POLARS_FAILED, OSError) as error:
        raise ValueError(str(error)) from error
    if len(rows) != requests:
        raise ValueError(f"{len(rows)} replies to {requests} requests")
    return [
        _reply(logprobs, chat, failure, Usage(read, written), retries)
        for logprobs, chat, failure, read, written, retries in rows
    ]


def _reply(logprobs: list[float] | None, chat: str | None, failure: str | None, usage: Usage, retries: str) -> Reply:
    if failure is not None:
        return _failure(json.loads(failure))
    before = tuple(map(_failure, json.loads(retries)))
    if chat is not None:
        return replace(read_chat(chat), usage=usage, retries=before)
    return TokenLogprobs(tuple(logprobs or ()), usage, before)


def _failure(data: dict[str, Any]) -> CallFailure:
    charged = data.pop("charged")
    return CallFailure(**data, charged=None if charged is None else tuple(charged))


class Parts:
    """The folder of the parts, as the driver sees it."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, which only its owner may read; parts that no run came back for are removed."""
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = {path.stem: path.stat().st_mtime for path in folder.glob("*.parquet")}
        self._left = {name for name, written_at in found.items() if time.time() - written_at < KEPT_SECONDS}
        """Items that an earlier run left. Each answers once: asked again, it is another call."""
        self._chats: list[str] = []
        for name in found.keys() - self._left:
            self.remove(name)

    def left(self, name: str, requests: int) -> list[Reply] | None:
        """The replies of an item that an earlier run left."""
        if name not in self._left:
            return None
        self._left.remove(name)
        data = self.data(name, requests)
        return None if data is None else from_part(data, requests)

    def data(self, name: str, requests: int) -> bytes | None:
        """The part of a finished item; None if there is none that can be read."""
        try:
            data = part_path(self.folder, name).read_bytes()
            from_part(data, requests)
        except (OSError, ValueError):
            return None
        return data

    def remove(self, name: str) -> None:
        """Remove the part of an item whose replies are in the journal."""
        part_path(self.folder, name).unlink(missing_ok=True)

    def remove_later(self, name: str) -> None:
        """The same for a chat."""
        self._chats.append(name)
        if len(self._chats) > 2 * CHATS_KEPT:
            self._remove_chats(CHATS_KEPT)

    def close(self) -> None:
        """Remove what is left of this run, and the folder if nothing else is in it."""
        self._remove_chats(0)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _remove_chats(self, keep: int) -> None:
        old, self._chats = self._chats[: len(self._chats) - keep], self._chats[len(self._chats) - keep :]
        for name in old:
            self.remove(name)


def part_path(folder: Path, name: str) -> Path:
    """Where the part of an item is."""
    return folder / f"{name}.parquet"


def write_part(folder: Path, name: str, data: bytes) -> None:
    """Write a part, completely or not at all."""
    write_whole(part_path(folder, name), lambda path: path.write_bytes(data))
