"""Replies of toy reviewers: a verdict in the form that the question asks for."""

from __future__ import annotations

import re

from goldless.models.interface import ChatRequest


def verdict_reply(request: ChatRequest, verdict: str, reason: str = "") -> str:
    """Return the verdict alone, or behind its reason on the line that the question marks."""
    return marked_reply(request.messages[-1].content, verdict, reason)


def marked_reply(question: str, verdict: str, reason: str = "") -> str:
    """Return the same for the text of a question."""
    marks = re.findall(r"Verdict-([a-z]{8}):", question)
    line = f"Verdict-{marks[-1]}: {verdict}" if marks else verdict
    return f"{reason}\n\n{line}" if reason else line
