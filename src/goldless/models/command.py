"""``command:PROGRAM ARGUMENTS``: a program that reads a request as JSON and writes the reply, as a chat model.

One process per request: standard input is ``{"messages": [{"role", "content"}, …], "max_tokens", "temperature",
"seed"}`` and its end, standard output the reply as text. Agents of any kind take part in this way.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import anyio

from goldless.child_process import Finished, await_child, file_hash, how_it_ended
from goldless.errors import CapabilityError, ModelSpecError
from goldless.models.interface import Capabilities, ChatReply, ChatRequest, ModelIdentity, content_hash
from goldless.records import CallFailure

TIMEOUT_SECONDS = 1800.0
"""Default time limit of a request."""
AT_ONCE = 4
"""Processes at a time by default."""
MOST_OUTPUT = 2**20
"""Bytes of a reply; a program that writes more is killed."""
LONGEST_PATH = 4096
SHOWN = 300
"""Characters of standard error in messages."""


def refuse_scoring() -> None:
    """Raise: a program only writes text."""
    raise CapabilityError("command: models return no log-probabilities of a given text. Choose another --scorer")


class CommandModel:
    """A program as a chat model."""

    def __init__(self, command: str) -> None:
        """Find the program; nothing is run."""
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ModelSpecError(f"command:{command}: cannot be split into words ({error})") from error
        if not self._words or any("\0" in word for word in self._words):
            raise ModelSpecError("command: needs a program. Write 'command:PROGRAM ARGUMENTS'")
        if shutil.which(self._words[0]) is None:
            raise ModelSpecError(f"command:{command}: program {self._words[0]!r} not found or not executable")
        files = [Path(word) for word in self._words if len(word) < LONGEST_PATH and Path(word).is_file()]
        self._revision = content_hash([file_hash(file) for file in files]) if files else ""
        self._timeout_seconds = TIMEOUT_SECONDS
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    @property
    def identity(self) -> ModelIdentity:
        """The command; the revision is a hash of the files among its words."""
        return ModelIdentity("command", shlex.join(self._words), self._revision)

    @property
    def capabilities(self) -> Capabilities:
        """It writes text."""
        return Capabilities(chat=True)

    def limit_calls(self, timeout_seconds: float | None, max_retries: int | None, max_in_flight: int | None) -> None:
        """Set the time limit of a request and the number of processes; a program is never started twice for one."""
        del max_retries
        self._timeout_seconds = timeout_seconds or self._timeout_seconds
        self._limiter = anyio.CapacityLimiter(max_in_flight or AT_ONCE)

    async def prepare(self) -> None:
        """Nothing to do."""

    async def aclose(self) -> None:
        """Nothing to do."""

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """What the program writes; a failure if it does not end well, which another run tries again."""
        asked = {
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        line = json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        async with self._limiter:
            finished = await await_child(
                self._words, [line], timeout_seconds=self._timeout_seconds, most_output=MOST_OUTPUT
            )
        if isinstance(finished, OSError):
            return CallFailure("connection", f"cannot start the program ({finished})")
        if finished.ending != "exited" or finished.status != 0:
            return self._failure(finished)
        try:
            return ChatReply(finished.output.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            return CallFailure("bad_reply", f"byte at offset {error.start:,} of the program's output is not UTF-8")

    def _failure(self, finished: Finished) -> CallFailure:
        said = " ".join(finished.error_tail.decode("utf-8", "replace").split())[-SHOWN:]
        ended = how_it_ended(finished, "the program", self._timeout_seconds, MOST_OUTPUT)
        message = f"{ended}; {f'standard error ends with: {said}' if said else 'standard error is empty'}"
        if finished.ending == "too much output":
            return CallFailure("bad_reply", message)
        return CallFailure("timeout" if finished.ending == "timed out" else "server_error", message)
