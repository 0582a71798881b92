"""Preprocessing: a chat model rewrites responses into plain points, to remove the effect of style (GEM, C.1)."""

from __future__ import annotations

from dataclasses import dataclass

from goldless.evidence import RewriteEvidence
from goldless.models.interface import ChatReply, ChatRequest, Message, Writer, unusable
from goldless.records import Response
from goldless.templates import Template

MOST_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class RewritingStage:
    """How responses are sent to a rewriter."""

    rewriter: Writer
    template: Template
    most_tokens: int = MOST_TOKENS
    """Maximum tokens of a rewrite; a longer one is cut and counts as missing."""

    async def rewrite(self, response: Response) -> RewriteEvidence:
        """Rewrite the response; missing if the call failed, or the rewrite is empty or was cut."""
        request = ChatRequest(
            (Message("system", self.template.rewrite), Message("user", response.text)), max_tokens=self.most_tokens
        )
        reply = await self.rewriter.chat(request)
        failure = unusable(reply, "rewrite", self.most_tokens)
        return RewriteEvidence(
            rewriter=self.rewriter.identity.short,
            task=response.task,
            agent=response.agent,
            text=reply.text.strip() if isinstance(reply, ChatReply) and failure is None else None,
            failure=failure,
            template=self.template.name,
        )
