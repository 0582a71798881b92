"""Generation: the texts that a chat model writes, or why one is missing.

Responses to a study's tasks under a system prompt; the synopsis of a task that has none, for GEM-S to condition on;
rewrites of responses into plain points, to remove the effect of style (GEM, C.1).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from goldless.errors import CallError
from goldless.evidence import GenerationEvidence
from goldless.models.interface import ChatRequest, Message, Usage, Writer, unusable, usable
from goldless.models.tokens import RequestLength, context_limit, request_length
from goldless.records import CallFailure, Response, Task
from goldless.templates import Template

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


# --- synopses --------------------------------------------------------------------------------------------------------

SYNOPSIS_TOKENS = 1024

ABSTRACT = (
    "You are given the material of a task. Write a short abstract of it: what it is about and what it sets out to do, "
    "in one paragraph of at most 150 words. Report only what the material says. Do not judge it. Output the abstract "
    "and nothing else."
)
"""Our wording: the GEM paper has abstracts generated for its peer-grading study (section 4.1) but prints no prompt."""

ASSW = (
    "You are given a paper submission for a top-tier Machine Learning conference. Your goal is to identify and list "
    "the strengths and weaknesses that the paper claims about itself. This task requires careful reading of the "
    "paper.\n"
    "Please follow these steps to complete the task:\n"
    "1. Carefully read the entire paper submission. As you read, identify instances where the authors mention "
    "strengths or positive aspects of their research, methodology, results, or contributions. These are the strengths "
    "claimed by the paper. Also, identify instances where the authors mention limitations, weaknesses, or areas for "
    "future improvement in their work. These are the weaknesses claimed by the paper.\n"
    "2. Compile your findings into two separate lists: one for strengths and one for weaknesses.\n"
    "3. For each list, write each point on a separate line, keeping it concise. Add an extra blank line between each "
    "point for clarity.\n"
    "4. Format your output as follows:\n"
    "<strengths_claimed_by_the_paper>\n"
    "[List each strength claimed by the paper in separate lines, with an extra blank line between each point]\n"
    "</strengths_claimed_by_the_paper>\n"
    "<weaknesses_claimed_by_the_paper>\n"
    "[List each weakness claimed by the paper in separate lines, with an extra blank line between each point]\n"
    "</weaknesses_claimed_by_the_paper>\n"
    "Important: Focus only on the strengths and weaknesses that the paper claims about itself. Do not include your own "
    "evaluation or opinion of the paper's merits or shortcomings. Do not include the strengths and weaknesses of the "
    "baseline. Your task is to report what the authors themselves have stated about their work's strengths and "
    "limitations."
)
"""GEM paper, prompt C.4."""

PROMPTS = {"abstract": ABSTRACT, "assw": ASSW}
"""Synopses that can be generated, by name; any other must be in the study."""


@dataclass(frozen=True, slots=True)
class SynopsisStage:
    """The form in which tasks are sent to a writer."""

    writer: Writer

    async def write(self, task: Task, name: str) -> str | CallFailure:
        """The synopsis of that name, or why it is missing.

        ``assw`` is the abstract followed by the author-stated strengths and weaknesses, as in the paper.
        """
        if name != "assw":
            return await self._one(task, name)
        abstract = task.synopses.get("abstract") or await self._one(task, "abstract")
        if isinstance(abstract, CallFailure):
            return abstract
        summary = await self._one(task, name)
        return summary if isinstance(summary, CallFailure) else f"{abstract}\n\n{summary}"

    async def _one(self, task: Task, name: str) -> str | CallFailure:
        if not task.prompt:
            return CallFailure("no_synopsis", f"task {task.task} has no prompt to write a synopsis from", attempts=0)
        messages = (Message("system", PROMPTS[name]), Message("user", task.prompt))
        reply = await self.writer.chat(ChatRequest(messages, max_tokens=SYNOPSIS_TOKENS))
        return usable(reply, "synopsis", SYNOPSIS_TOKENS)


# --- rewrites --------------------------------------------------------------------------------------------------------

REWRITE_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class RewritingStage:
    """The form in which responses are sent to a rewriter."""

    rewriter: Writer
    template: Template
    most_tokens: int = REWRITE_TOKENS
    """Maximum tokens of a rewrite; a longer one is cut and counts as missing."""

    async def rewrite(self, response: Response) -> str | CallFailure:
        """The rewrite, or why it is missing: the call failed, or it is empty or was cut."""
        request = ChatRequest(
            (Message("system", self.template.rewrite), Message("user", response.text)), max_tokens=self.most_tokens
        )
        reply = await self.rewriter.chat(request)
        return usable(reply, "rewrite", self.most_tokens)
