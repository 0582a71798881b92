"""The review stage: from questions about one response or two to a reviewer's judgements.

A judgement is how likely the first is the better one, or the mean rating, if the model returns the labels'
probabilities; otherwise it is the verdict that the reviewer wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from goldless.errors import UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import (
    Reading,
    Texts,
    VerdictQuestion,
    VerdictReply,
    Verdicts,
    find_reading,
    find_verdicts,
    question_about,
)
from goldless.judging.scales import Scale
from goldless.models.interface import Model
from goldless.records import CallFailure

ROLE = "reviewer"

Prompts = Mapping[str, str | None]
"""The agents' prompts, by task; None, or no such task: not shown."""


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """A question to a reviewer: about one response, or two in this order."""

    task: str
    first: str
    second: str | None = None

    def on(self, scale: Scale, texts: Texts, prompts: Prompts, description: str) -> VerdictQuestion | CallFailure:
        """The question with its texts, or why one is missing."""
        second = None if self.second is None else (self.task, self.second)
        told = {"prompt": prompts.get(self.task), "description": description}
        return question_about(scale, texts, (self.task, self.first), second, **told)

    def answered(self, verdict: VerdictReply, reviewer: str, scale: str) -> JudgementEvidence:
        """The judgement, or why it is missing, as evidence."""
        return JudgementEvidence(
            reviewer=reviewer,
            scale=scale,
            task=self.task,
            first=self.first,
            second=self.second,
            output=verdict.label if verdict.text is None else verdict.text,
            value=verdict.value,
            read_from=verdict.read_from,
            label_logprobs=verdict.label_logprobs,
            failure=verdict.failure,
        )


@dataclass(frozen=True, slots=True)
class ReviewStage:
    """Asks a reviewer questions. The model must be prepared; one that cannot do it is refused here."""

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
        return find_reading(self.model, verdicts, role=ROLE)

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

        def row(i: int, verdict: VerdictReply) -> JudgementEvidence:
            return questions[i].answered(verdict, self.name, self.scale.name)

        asked = [question.on(self.scale, texts, prompts, self.task_description) for question in questions]
        found = await find_verdicts(self.model, self.reading, asked, at_once, lambda i, v: answered(row(i, v)))
        return [row(i, verdict) for i, verdict in enumerate(found)]
