"""``command:PROGRAM ARGUMENTS``: a program that reads a request as JSON and writes the reply, as a chat model.

``command:PROGRAM ARGUMENTS '?timeout=60&concurrency=2'`` limits a request's seconds and the processes at a time.

One process per request: standard input is ``{"messages": [{"role", "content"}, …], "max_tokens", "temperature",
"seed"}`` and its end, standard output the reply as text. Agents of any kind take part in this way.
"""

from __future__ import annotations

import json
import shlex
from urllib.parse import parse_qsl

import anyio

from goldless.child_process import file_hash, program_files, program_words, run_program
from goldless.errors import CapabilityError, ModelSpecError
from goldless.models.http_api.specs import take_limits
from goldless.models.interface import Capabilities, ChatReply, ChatRequest, ModelIdentity, content_hash
from goldless.records import CallFailure, FailureKind

TIMEOUT_SECONDS = 1800.0  # default time limit of a request
AT_ONCE = 4  # processes at a time by default
MOST_OUTPUT = 2**20  # bytes of a reply; a program that writes more is killed
SHOWN = 300  # characters of standard error in messages


def refuse_scoring() -> None:
    """Raise: a program only writes text."""
    raise CapabilityError("command: models return no log-probabilities of a given text. Choose another --scorer")


class CommandModel:
    """A program as a chat model."""

    def __init__(self, command: str) -> None:
        self._words = program_words(command, ModelSpecError)
        options = dict(parse_qsl(self._words.pop()[1:])) if self._words[-1].startswith("?") else {}
        limits = take_limits(options)
        if options or limits.keys() - {"timeout_seconds", "concurrency"}:
            raise ModelSpecError(f"command:{command}: the options of a command must be timeout, concurrency and price")
        files = program_files(self._words)
        revision = content_hash([file_hash(file) for file in files]) if files else ""
        self.identity = ModelIdentity("command", shlex.join(self._words), revision)
        """The command; the revision is a hash of the files among its words."""
        self.capabilities = Capabilities(chat=True)
        self._timeout_seconds = limits.get("timeout_seconds", TIMEOUT_SECONDS)
        self._limiter = anyio.CapacityLimiter(limits.get("concurrency", AT_ONCE))

    async def prepare(self) -> None: ...
    async def aclose(self) -> None: ...

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The output of the program; a failure if it does not end well, which another run tries again."""
        asked = {
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
        }
        line = json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            async with self._limiter:
                ended = await run_program(
                    self._words, [line], timeout_seconds=self._timeout_seconds, most_output=MOST_OUTPUT
                )
            if ended.ending == "well":
                return ChatReply(ended.output.decode("utf-8-sig"))
        except OSError as error:
            return CallFailure("connection", f"cannot start the program ({error})")
        except UnicodeDecodeError as error:
            return CallFailure("bad_reply", f"byte at offset {error.start:,} of the program's output is not UTF-8")
        said = " ".join(ended.errors.split())[-SHOWN:]
        kinds: dict[str, FailureKind] = {"too much output": "bad_reply", "timeout": "timeout"}
        return CallFailure(
            kinds.get(ended.ending, "server_error"),
            f"the program {ended.how}; standard error {f'ends with: {said}' if said else 'is empty'}",
        )
