"""Evidence: what models were asked and what they said, with everything needed to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
    logprobs_nats: Sequence[float] | None = None
    """One value a token of the target; None: missing, and ``failure`` says why, or recorded as a sum or mean only."""
    failure: CallFailure | None = None
    recorded_sum_nats: float | None = None
    """The sum, where a study carries it without the values."""
    recorded_mean_nats: float | None = None
    """The mean over tokens, where a study carries it without the values."""
    texts: str | None = None
    """Hash of the texts it is about, by which it is known again; None: not known."""

    @property
    def sum_nats(self) -> float | None:
        """Log p of the whole target, never divided by its length."""
        return self.recorded_sum_nats if self.logprobs_nats is None else sum(self.logprobs_nats)

    @property
    def mean_nats(self) -> float | None:
        """Log p of the target per token."""
        if self.logprobs_nats is None:
            return self.recorded_mean_nats
        return sum(self.logprobs_nats) / len(self.logprobs_nats) if self.logprobs_nats else None


@dataclass(frozen=True, slots=True)
class RewriteEvidence:
    """A response after preprocessing."""

    rewriter: str
    task: str
    agent: str
    text: str | None = None
    """None: missing, and ``failure`` says why. Never an empty string."""
    failure: CallFailure | None = None
    template: str | None = None
    """Name of the prompt it was made with; None: not known."""


@dataclass(frozen=True, slots=True)
class VerdictEvidence:
    """What a critic said of two responses: whether knowing the first tells about the second."""

    critic: str
    """Who said it, in short."""
    prompt: str
    """Name of the critic's prompt."""
    task: str
    """Task of the first response."""
    first: str
    """Agent of the first response."""
    second: str
    """Agent of the second response."""
    second_task: str
    """Task of the second response; equal to ``task``: a matched pair; another: a shuffled one."""
    value: float | None = None
    """Between 0 and 1; None: missing, and ``failure`` says why."""
    label: str | None = None
    """The label the critic gave, or its likeliest one."""
    read_from: Literal["probabilities", "label"] | None = None
    """Whether the value is the mean over the labels' probabilities, or that of the one label."""
    failure: CallFailure | None = None

    @property
    def matched(self) -> bool:
        """Whether both responses answer the same task."""
        return self.task == self.second_task


@dataclass(frozen=True, slots=True)
class JudgementEvidence:
    """What a reviewer said of one response, or of two."""

    reviewer: str
    """Who said it."""
    scale: str
    """Name of the scale it was asked on, such as ``pairwise`` or ``5-level``."""
    task: str
    first: str
    """The agent that was rated, or the one shown first."""
    second: str | None = None
    """The agent shown second; None: one response was rated."""
    output: str | None = None
    """The reply as the model wrote it."""
    value: float | None = None
    """A rating; of two responses, how far the first is better: 1 it is, 0 the second is, 0.5 neither, and anything
    between where it was read from probabilities. None: missing, and ``failure`` says why."""
    read_from: Literal["probabilities", "label"] | None = None
    label_logprobs: Mapping[str, float] | None = None
    """log p of each label in nats, normalised over the labels, where the model gives them."""
    failure: CallFailure | None = None


@dataclass(frozen=True, slots=True)
class SynopsisEvidence:
    """A synopsis that a model wrote for a task."""

    writer: str
    task: str
    synopsis: str
    """Its name."""
    text: str | None = None
    """None: missing, and ``failure`` says why."""
    failure: CallFailure | None = None


@dataclass(frozen=True, slots=True)
class GenerationEvidence:
    """What a model wrote for a task."""

    writer: str
    """Who wrote, in short."""
    task: str
    reply: str | None = None
    """As the model wrote it, also where it cannot be used; None: nothing came."""
    failure: CallFailure | None = None
    """Why the text is missing."""
    finish: str | None = None
    """How the reply ended: ``stop``, or ``length`` where it was cut at its limit."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    """What the call was charged for, when it was made; None: nothing came, or nobody said."""
    characters_cut: int = 0
    """Of the task's material, at its end, so that it fits."""

    @property
    def text(self) -> str | None:
        """What can be used; None: missing, and ``failure`` says why."""
        return self.reply if self.failure is None else None
