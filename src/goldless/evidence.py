"""Evidence: what models were asked and what they said, with everything needed to trust it."""

from __future__ import annotations

from dataclasses import dataclass

from goldless.records import CallFailure


@dataclass(frozen=True, slots=True)
class LogprobEvidence:
    """log p of one response (the target), given another one, or nothing: the marginal."""

    scorer: str
    """Who computed it, in short."""
    template: str
    """Name of the prompt."""
    rewriter: str | None
    """Whose rewrites were scored; None: the responses as they are."""
    task: str
    target: str
    """Agent whose response was predicted (y)."""
    given: str | None
    """Agent whose response was known (x); None: the marginal."""
    synopsis: str | None
    """Name of the synopsis that was known; None: none."""
    logprobs_nats: tuple[float, ...] | None = None
    """One value a token of the target; None: missing, and ``failure`` says why."""
    failure: CallFailure | None = None

    @property
    def sum_nats(self) -> float | None:
        """Log p of the whole target, never divided by its length."""
        return None if self.logprobs_nats is None else sum(self.logprobs_nats)


@dataclass(frozen=True, slots=True)
class RewriteEvidence:
    """A response after preprocessing."""

    rewriter: str
    task: str
    agent: str
    text: str | None = None
    """None: missing, and ``failure`` says why. Never an empty string."""
    failure: CallFailure | None = None
