"""Generation: a chat model writes responses to a study's tasks under a system prompt; failures are recorded."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from goldless.errors import CallError
from goldless.evidence import GenerationEvidence
from goldless.models.interface import ChatRequest, Message, Usage, Writer, unusable
from goldless.models.tokens import RequestLength, context_limit, request_length
from goldless.records import CallFailure, Task

MOST_TOKENS = 4096
ESTIMATE_MARGIN = 0.05
"""Share of a context left free when material is cut by estimated tokens."""

Cut = Literal["missing", "keep"]
"""The treatment of a reply that reached its limit: ``missing``, or kept up to the limit."""


@dataclass(frozen=True, slots=True)
class GenerationStage:
    """The way tasks are sent to a writer: the system prompt, then the task's unchanged prompt."""

    writer: Writer
    system: str
    _: KW_ONLY
    what: str = "text"
    """A name for what is written, for messages."""
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
        name = self.writer.identity.short
        fitted: str | CallFailure = CallFailure("not_recorded", f"task {task.task} has no prompt", attempts=0)
        if task.prompt:
            try:
                fitted = await self._fitted(task.prompt)
            except CallError as error:
                fitted = error.failure
        if isinstance(fitted, CallFailure):
            return GenerationEvidence(name, task.task, failure=fitted)
        reply = await self.writer.chat(
            ChatRequest(
                self._messages(fitted), max_tokens=self.max_tokens, temperature=self.temperature, seed=self.seed
            )
        )
        failure = unusable(reply, self.what, self.max_tokens)
        cut = len(task.prompt or "") - len(fitted)
        if isinstance(reply, CallFailure):
            return GenerationEvidence(name, task.task, failure=failure, characters_cut=cut)
        if self.cut == "keep" and reply.finish == "length" and reply.text.strip():
            failure = None
        usage = reply.earlier_usage or reply.usage
        known = usage != Usage()
        return GenerationEvidence(
            writer=name,
            task=task.task,
            reply=reply.text,
            failure=failure,
            finish=reply.finish,
            input_tokens=usage.input_tokens if known else None,
            output_tokens=usage.output_tokens if known else None,
            characters_cut=cut,
        )

    def _messages(self, material: str) -> tuple[Message, ...]:
        return Message("system", self.system), Message("user", material)

    async def _fitted(self, material: str) -> str | CallFailure:
        """The material that fits; if it does not fit and may not be cut, why it is missing."""
        limit = self.limit
        whole = await request_length(self.writer, self._messages(material)) if limit is not None else None
        if limit is None or whole is None or whole.tokens + self.max_tokens <= limit:
            return material
        message = f"{whole} and {self.max_tokens:,} for the {self.what} do not fit the context of {limit:,}"
        if not self.truncate:
            return CallFailure("too_long", message, attempts=0)
        room = limit - self.max_tokens - (0 if whole.exact else math.ceil(limit * ESTIMATE_MARGIN))
        fits, does_not = 0, len(material)  # leading characters
        while does_not - fits > 1:
            middle = (fits + does_not) // 2
            if (await request_length(self.writer, self._messages(material[:middle]))).tokens <= room:
                fits = middle
            else:
                does_not = middle
        if not material[:fits].strip():
            return CallFailure("too_long", f"{message}, even with all of it cut", attempts=0)
        return material[:fits]
