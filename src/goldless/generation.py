"""Generation: the synopsis of a task that has none, for GEM-S to condition on, and rewrites of responses.

Rewrites are plain points, to remove the effect of style (GEM, C.1).
"""

from __future__ import annotations

from goldless.models.interface import ChatRequest, Message, Writer, usable
from goldless.records import CallFailure, Response, Task
from goldless.templates import SYNOPSIS_PROMPTS, Template

# --- synopses --------------------------------------------------------------------------------------------------------

SYNOPSIS_TOKENS = 1024


async def write_synopsis(writer: Writer, task: Task, name: str) -> str | CallFailure:
    """The synopsis of that name, or why it is missing.

    ``assw`` is the abstract followed by the author-stated strengths and weaknesses, as in the paper.
    """
    if name != "assw":
        return await _written(writer, task, name)
    abstract = task.synopses.get("abstract") or await _written(writer, task, "abstract")
    if isinstance(abstract, CallFailure):
        return abstract
    summary = await _written(writer, task, name)
    return summary if isinstance(summary, CallFailure) else f"{abstract}\n\n{summary}"


async def _written(writer: Writer, task: Task, name: str) -> str | CallFailure:
    if not task.prompt:
        return CallFailure("no_synopsis", f"task {task.task} has no prompt to write a synopsis from", attempts=0)
    messages = (Message("system", SYNOPSIS_PROMPTS[name]), Message("user", task.prompt))
    reply = await writer.chat(ChatRequest(messages, max_tokens=SYNOPSIS_TOKENS))
    return usable(reply, "synopsis", SYNOPSIS_TOKENS)


# --- rewrites --------------------------------------------------------------------------------------------------------

REWRITE_TOKENS = 1024


async def rewrite(
    rewriter: Writer, template: Template, response: Response, most_tokens: int = REWRITE_TOKENS
) -> str | CallFailure:
    """The rewrite, or why it is missing: the call failed, or it is empty or was cut at ``most_tokens``."""
    messages = (Message("system", template.rewrite), Message("user", response.text))
    reply = await rewriter.chat(ChatRequest(messages, max_tokens=most_tokens))
    return usable(reply, "rewrite", most_tokens)
