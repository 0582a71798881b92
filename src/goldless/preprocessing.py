"""Preprocessing: a chat model rewrites responses into plain points, to remove the effect of style (GEM, C.1)."""

from __future__ import annotations

from dataclasses import dataclass

from goldless.models.interface import ChatRequest, Message, Writer, usable
from goldless.records import CallFailure, Response
from goldless.templates import Template

MOST_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class RewritingStage:
    """The form in which responses are sent to a rewriter."""

    rewriter: Writer
    template: Template
    most_tokens: int = MOST_TOKENS
    """Maximum tokens of a rewrite; a longer one is cut and counts as missing."""

    async def rewrite(self, response: Response) -> str | CallFailure:
        """The rewrite, or why it is missing: the call failed, or it is empty or was cut."""
        request = ChatRequest(
            (Message("system", self.template.rewrite), Message("user", response.text)), max_tokens=self.most_tokens
        )
        reply = await self.rewriter.chat(request)
        return usable(reply, "rewrite", self.most_tokens)
