"""Generation: the synopsis of a task that has none, for GEM-S to condition on, and rewrites of responses.

Rewrites are plain points, to remove the effect of style (GEM, C.1).
"""

from __future__ import annotations

from goldless.models.interface import ChatRequest, Message, Writer, usable
from goldless.records import CallFailure, Response, Task
from goldless.templates import Template

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
    messages = (Message("system", PROMPTS[name]), Message("user", task.prompt))
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
