"""The review stage: from questions about one response or two to the judgements of a reviewer, or of a critic.

A judgement is how likely the first is the better one, or the mean rating, if the model returns the labels'
probabilities; otherwise it is the verdict that the model wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import Reading, Texts, VerdictQuestion, VerdictReply, Verdicts, find_reading, find_verdicts
from goldless.judging.scales import Scale
from goldless.models.interface import Model
from goldless.records import CallFailure

Prompts = Mapping[str, str | None]
"""The agents' prompts, by task; None, or no such task: not shown."""


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """A question about one response, or two in this order."""

    task: str
    first: str
    second: str | None = None
    second_task: str | None = None
    """The task of the second response, if a critic is asked; None: the same."""


@dataclass(frozen=True, slots=True)
class ReviewStage:
    """Asks a model questions on a scale. The model must be prepared; one that cannot do it is refused here."""

    model: Model
    scale: Scale
    _: KW_ONLY
    reviewer: str | None = None
    """Its name in the evidence; None: the model's short name."""
    task_description: str = ""
    """A description of what is judged and what counts; empty: the scale's neutral description."""
    verdicts: Verdicts = "auto"

    def __post_init__(self) -> None:
        _ = self.reading  # raises where the model cannot give verdicts in this way

    @property
    def name(self) -> str:
        return self.reviewer or self.model.identity.short

    @property
    def reading(self) -> Reading:
        """The way verdicts are read, for the signature."""
        verdicts = self.verdicts
        if not self.scale.labels:
            if verdicts == "probabilities":
                raise UserError(
                    f"the scale {self.scale.name} has too many verdicts to read the probability of each. "
                    "Read them by labels or auto"
                )
            verdicts = "labels" if verdicts == "auto" else verdicts
        return find_reading(self.model, verdicts, role=self.scale.role)

    async def review(
        self,
        questions: Sequence[ReviewQuestion],
        texts: Texts,
        prompts: Prompts,
        *,
        at_once: int = 1,
        answered: Callable[[JudgementEvidence], None] = lambda _: None,
    ) -> list[JudgementEvidence]:
        """One judgement per question, in their order; a missing one has its cause.

        ``at_once``: concurrent requests, if they are not scored as one batch. ``answered`` is called with each
        judgement as soon as it is there.
        """
        asked = [self.question(one, texts, prompts) for one in questions]
        found = await find_verdicts(
            self.model, self.reading, asked, at_once, lambda i, verdict: answered(self.evidence(questions[i], verdict))
        )
        return [self.evidence(one, verdict) for one, verdict in zip(questions, found, strict=True)]

    def question(self, asked: ReviewQuestion, texts: Texts, prompts: Prompts) -> VerdictQuestion | CallFailure:
        """The question with its texts, or why one is missing."""
        first = texts[asked.task, asked.first]
        second = None if asked.second is None else texts[asked.second_task or asked.task, asked.second]
        if isinstance(first, CallFailure):
            return first
        if isinstance(second, CallFailure):
            return second
        critic = self.scale.role == "critic"
        return VerdictQuestion(
            scale=self.scale,
            first=first,
            second=second,
            prompt=prompts.get(asked.task),
            description=self.task_description,
            task=asked.task,
            begins_with=first if critic else "",
            soft_only=critic and self.verdicts == "probabilities",
        )

    def evidence(self, asked: ReviewQuestion, verdict: VerdictReply) -> JudgementEvidence:
        """The judgement, or why it is missing."""
        return JudgementEvidence(
            reviewer=self.name,
            scale=self.scale.name,
            task=asked.task,
            first=asked.first,
            second=asked.second,
            second_task=asked.second_task,
            output=verdict.label if verdict.text is None else verdict.text,
            value=verdict.value,
            label=verdict.label,
            read_from=verdict.read_from,
            label_logprobs=verdict.label_logprobs,
            failure=verdict.failure,
        )
