"""The review stage: from questions about one response or two to a reviewer's judgements.

A judgement is read from the labels' probabilities if the model returns them: how likely the first is the better one, or
the mean rating. Otherwise it is the verdict that the reviewer wrote. After a reply without one the reviewer is asked
once more; then the judgement is missing, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal, Protocol

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
    label_shares,
)
from goldless.judging.scales import Scale
from goldless.models.interface import ChatReply, Message, Model
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


class Stage(Protocol):
    """A way to ask a reviewer questions: alone, or in a debate."""

    @property
    def scale(self) -> Scale:
        """The scale of its judgements."""

    @property
    def name(self) -> str:
        """Its name in the evidence."""

    async def review(
        self,
        questions: Sequence[ReviewQuestion],
        texts: Texts,
        prompts: Prompts,
        *,
        at_once: int = 1,
        answered: Callable[[JudgementEvidence], None] = lambda _: None,
    ) -> list[JudgementEvidence]:
        """One judgement per question, in their order."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A reviewer's judgement."""

    value: float
    output: str
    """The model's text, or its likeliest label."""
    read_from: Literal["probabilities", "label"]
    label_logprobs: Mapping[str, float] | None = None


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
        """Raise where the model cannot give verdicts in this way."""
        _ = self.reading

    @property
    def name(self) -> str:
        """The name of this reviewer in the evidence."""
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
        reading = self.reading
        asked = {i: self._question(question, texts, prompts, reading) for i, question in enumerate(questions)}

        def tell(i: int, reply: VerdictReply[Judgement]) -> None:
            answered(evidence_of(questions[i], reply, self.name, self.scale.name))

        found = await find_verdicts(self.model, reading, asked, at_once, tell)
        return [evidence_of(question, found[i], self.name, self.scale.name) for i, question in enumerate(questions)]

    def _question(
        self, question: ReviewQuestion, texts: Texts, prompts: Prompts, reading: Reading
    ) -> VerdictQuestion[Judgement] | CallFailure:
        scale, choose = self.scale, reading != "labels"
        material = find_material(question, scale, texts, prompts)
        if isinstance(material, CallFailure):
            return material
        return VerdictQuestion(
            role=ROLE,
            messages=partial(self._messages, material),
            read=lambda reply: read_judgement(scale, reply, material.texts, choose=choose),
            restated=scale.restated(),
            allowed=scale.allowed,
            most_tokens=scale.most_tokens,
            choices=scale.labels if choose else (),
            labels=[scale.spoken(label) for label in scale.labels],
            mean=partial(mean_judgement, scale),
            task=question.task,
        )

    def _messages(self, material: Material, explained: bool) -> tuple[Message, ...]:  # noqa: FBT001 - called by place
        return self.scale.messages(
            material.first,
            material.second,
            prompt=material.prompt,
            task_description=self.task_description,
            explained=explained,
        )


# --- what a question is about ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Material:
    """The texts of one question."""

    first: str
    second: str | None
    prompt: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, including the prompt."""
        return tuple(text for text in (self.first, self.second, self.prompt) if text is not None)


def find_material(question: ReviewQuestion, scale: Scale, texts: Texts, prompts: Prompts) -> Material | CallFailure:
    """The texts of a question, or why one is missing."""
    scale.refuse_other_count(question.second)
    first = texts[question.task, question.first]
    second = None if question.second is None else texts[question.task, question.second]
    if isinstance(first, CallFailure):
        return first
    if isinstance(second, CallFailure):
        return second
    return Material(first, second, prompts.get(question.task))


# --- how a judgement is read -----------------------------------------------------------------------------------------


def mean_judgement(scale: Scale, nats: Sequence[float], written: str | None = None) -> Judgement | CallFailure:
    """The mean value over the labels' probabilities: how likely the first is better, or the expected rating.

    ``written``: what the model wrote; None: its likeliest label is used.
    """
    shares = label_shares(nats)
    if isinstance(shares, CallFailure):
        return shares
    value = sum(share * worth for share, worth in zip(shares, scale.values, strict=True))
    value = min(scale.highest, max(scale.lowest, value))
    likeliest = scale.labels[shares.index(max(shares))]
    # a share of 0 has no logarithm, but its label had a log-probability
    top = max(nats)
    total = top + math.log(sum(math.exp(nat - top) for nat in nats))
    logprobs = {label: nat - total for label, nat in zip(scale.labels, nats, strict=True)}
    return Judgement(value, likeliest if written is None else written, "probabilities", logprobs)


def read_judgement(
    scale: Scale, reply: ChatReply, texts: Sequence[str], *, choose: bool = False
) -> Judgement | CallFailure | None:
    """The judgement in a reply about these texts, why it cannot be used, or None if the reply has none."""
    probabilities = reply.choice_logprobs
    if choose and probabilities is not None and all(label in probabilities for label in scale.labels):
        return mean_judgement(scale, [probabilities[label] for label in scale.labels], reply.text)
    if choose and reply.text in scale.labels:
        return Judgement(scale.values[scale.labels.index(reply.text)], reply.text, "label")
    value = scale.read_apart(reply.text, texts)
    return None if value is None else Judgement(value, reply.text, "label")


def evidence_of(
    question: ReviewQuestion, reply: VerdictReply[Judgement], reviewer: str, scale: str
) -> JudgementEvidence:
    """A judgement, or why it is missing, as evidence."""
    said = reply.verdict
    return JudgementEvidence(
        reviewer=reviewer,
        scale=scale,
        task=question.task,
        first=question.first,
        second=question.second,
        output=reply.text if said is None else said.output,
        value=None if said is None else said.value,
        read_from=None if said is None else said.read_from,
        label_logprobs=None if said is None else said.label_logprobs,
        failure=reply.failure,
    )
