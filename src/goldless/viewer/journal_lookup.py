"""Replies in the journal: what a model wrote to a question, and which attempts failed before it did."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.judging.asking import asked_again
from goldless.models.interface import ChatRequest, Message, ModelIdentity
from goldless.models.journalled import chat_key
from goldless.viewer.asked import Asked

LONGEST_WAIT_SECONDS = 1.0
MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A call that gave nothing and was tried again."""

    kind: str
    message: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One call: what came of it."""

    messages: tuple[Message, ...]
    reply: str | None
    """None: the journal has none."""
    finish: str | None
    logprobs: Mapping[str, float]
    """log p of each choice, where the model told it."""
    failed: tuple[FailedAttempt, ...]


class JournalLookup:
    """A journal opened for reading only; every question is answered with nothing where there is no journal."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exchange(self, model: str | None, asked: Asked) -> tuple[Turn, ...]:
        """The calls behind a question to a model, known by its short name: the first, and the one that asked again."""
        if not asked.requests or model is None or not self._path.is_file():
            return ()
        try:
            with closing(self._open()) as journal:
                for identity in _identities(journal, model):
                    for request in asked.requests:
                        found = _turns(journal, identity, request, asked.restated)
                        if found:
                            return found
        except sqlite3.Error:
            return ()
        return ()

    def _open(self) -> sqlite3.Connection:
        address = f"{self._path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, timeout=LONGEST_WAIT_SECONDS)


def _identities(journal: sqlite3.Connection, short: str) -> list[ModelIdentity]:
    """The models of that short name that the journal knows."""
    found = []
    for (text,) in journal.execute("select identity from models"):
        try:
            identity = ModelIdentity(**json.loads(text))
        except (ValueError, TypeError):
            continue
        if identity.short == short:
            found.append(identity)
    return found


def _turns(
    journal: sqlite3.Connection, identity: ModelIdentity, request: ChatRequest, restated: str
) -> tuple[Turn, ...]:
    first = _turn(journal, identity, request)
    if first is None:
        return ()
    if first.reply is None or not restated:
        return (first,)
    again = dataclasses.replace(request, messages=asked_again(request.messages, first.reply, restated))
    second = _turn(journal, identity, again)
    return (first,) if second is None else (first, second)


def _turn(journal: sqlite3.Connection, identity: ModelIdentity, request: ChatRequest) -> Turn | None:
    key = chat_key(identity, request)
    row = journal.execute("select reply from calls where key = ?", (key,)).fetchone()
    failed = journal.execute(
        "select kind, message, attempts from failures where key = ? order by created_at limit ?", (key, MOST_FAILURES)
    ).fetchall()
    if row is None and not failed:
        return None
    reply: Mapping[str, Any] = {} if row is None else json.loads(row[0])
    return Turn(
        messages=request.messages,
        reply=reply.get("text"),
        finish=reply.get("finish"),
        logprobs=reply.get("choice_logprobs") or {},
        failed=tuple(FailedAttempt(*one) for one in failed),
    )
