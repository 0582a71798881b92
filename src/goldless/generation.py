"""Generation: a chat model writes responses to a study's tasks under a system prompt; failures are recorded."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from goldless.errors import CallError
from goldless.evidence import GenerationEvidence
from goldless.models.interface import ChatReply, ChatRequest, Message, Usage, Writer, unusable
from goldless.models.tokens import RequestLength, context_limit, request_length
from goldless.records import CallFailure, Task

MOST_TOKENS = 4096
ESTIMATE_MARGIN = 0.05
"""Share of a context left free when material is cut by estimated tokens."""

Cut = Literal["missing", "keep"]
"""What happens to a reply that reached its limit: ``missing``, or kept up to the limit."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Material as sent to the writer."""

    material: str
    characters_cut: int = 0


@dataclass(frozen=True, slots=True)
class GenerationStage:
    """How tasks are sent to a writer: the system prompt, then the task's unchanged prompt."""

    writer: Writer
    system: str
    _: KW_ONLY
    what: str = "text"
    """What is written, for messages."""
    max_tokens: int = MOST_TOKENS
    temperature: float = 0.0
    seed: int | None = None
    context_length: int | None = None
    """Maximum tokens of request and reply, if the model does not report it or a lower limit is wanted."""
    truncate: bool = False
    """Cut the end of a prompt that does not fit; otherwise it is missing as ``too_long``."""
    cut: Cut = "missing"

    @property
    def limit(self) -> int | None:
        """Maximum tokens of request and reply; None: unknown, the server decides."""
        return context_limit(self.writer, self.context_length)

    async def least_length(self) -> RequestLength:
        """Length of a request without any material."""
        return await request_length(self.writer, self._messages(""))

    async def write(self, task: Task) -> GenerationEvidence:
        """Write a response to the task; missing if it does not fit, the call failed, or the text is unusable.

        The whole reply must fit after the request: a model that runs out of context would cut it.
        """
        if not task.prompt:
            return self._missing(task, CallFailure("not_recorded", f"task {task.task} has no prompt", attempts=0))
        try:
            fitted = await self._fitted(task.prompt)
        except CallError as error:
            return self._missing(task, error.failure)
        if isinstance(fitted, CallFailure):
            return self._missing(task, fitted)
        reply = await self.writer.chat(
            ChatRequest(
                self._messages(fitted.material),
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                seed=self.seed,
            )
        )
        return self._evidence(task, fitted, reply)

    def _messages(self, material: str) -> tuple[Message, ...]:
        return Message("system", self.system), Message("user", material)

    def _missing(self, task: Task, failure: CallFailure) -> GenerationEvidence:
        return GenerationEvidence(self.writer.identity.short, task.task, failure=failure)

    def _evidence(self, task: Task, fitted: _Fitted, reply: ChatReply | CallFailure) -> GenerationEvidence:
        failure = unusable(reply, self.what, self.max_tokens)
        came = reply if isinstance(reply, ChatReply) else None
        if self.cut == "keep" and came is not None and came.finish == "length" and came.text.strip():
            failure = None
        usage = None if came is None else came.earlier_usage or came.usage
        known = usage if usage != Usage() else None
        return GenerationEvidence(
            writer=self.writer.identity.short,
            task=task.task,
            reply=None if came is None else came.text,
            failure=failure,
            finish=None if came is None else came.finish,
            input_tokens=None if known is None else known.input_tokens,
            output_tokens=None if known is None else known.output_tokens,
            characters_cut=fitted.characters_cut,
        )

    async def _fitted(self, material: str) -> _Fitted | CallFailure:
        """The material that fits; if it does not fit and may not be cut, why it is missing."""
        limit = self.limit
        if limit is None:
            return _Fitted(material)
        whole = await request_length(self.writer, self._messages(material))
        if whole.tokens + self.max_tokens <= limit:
            return _Fitted(material)
        message = f"{whole} and {self.max_tokens:,} for the {self.what} do not fit the context of {limit:,}"
        if not self.truncate:
            return CallFailure("too_long", message, attempts=0)
        room = limit - self.max_tokens - (0 if whole.exact else math.ceil(limit * ESTIMATE_MARGIN))

        async def tokens(characters: int) -> int:
            return (await request_length(self.writer, self._messages(material[:characters]))).tokens

        kept = await _longest(len(material), tokens, room)
        if not material[:kept].strip():
            return CallFailure("too_long", f"{message}, even with all of it cut", attempts=0)
        return _Fitted(material[:kept], len(material) - kept)


async def _longest(whole: int, tokens: Callable[[int], Awaitable[int]], room: int) -> int:
    """The largest number of leading characters that fits; 0 if none does."""
    fits, does_not = 0, whole
    while does_not - fits > 1:
        middle = (fits + does_not) // 2
        if await tokens(middle) <= room:
            fits = middle
        else:
            does_not = middle
    return fits
