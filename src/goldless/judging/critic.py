"""The critic stage: from questions about two responses to a verdict between 0 and 1 on each.

A verdict is the mean over the labels' probabilities where the model gives them: any value in [0, 1] still bounds the
total variation distance from below, and the mean varies less than one hard label. Otherwise it is the value of the
label that the critic wrote. A reply without a verdict is asked about once more, then missing; it is never a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goldless.errors import UserError
from goldless.evidence import VerdictEvidence
from goldless.judging.asking import (
    Asking,
    ChatJudge,
    Reading,
    ScoringJudge,
    Texts,
    Verdicts,
    ask,
    find_reading,
    find_text,
    label_shares,
    reads_by_scoring,
    score_labels,
    side_by_side,
)
from goldless.judging.critic_prompts import SAME_SOURCE, CriticPrompt
from goldless.judging.shuffling import CriticQuestion
from goldless.models.interface import ChatReply
from goldless.records import CallFailure

__all__ = ["CriticStage", "Verdict", "Verdicts", "reads_by_scoring"]

ROLE = "critic"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the critic said."""

    value: float
    label: str
    read_from: Literal["probabilities", "label"]


@dataclass(frozen=True, slots=True)
class CriticStage:
    """How questions are put to a critic. The model must be prepared; one that cannot do it is refused here."""

    model: ScoringJudge | ChatJudge
    prompt: CriticPrompt = SAME_SOURCE
    verdicts: Verdicts = "auto"

    def __post_init__(self) -> None:
        """Raise where the model cannot give verdicts in this way."""
        _ = self.reading

    @property
    def reading(self) -> Reading:
        """How verdicts are read, for the signature."""
        return find_reading(self.model, self.verdicts, role=ROLE)

    async def judge(
        self, questions: Sequence[CriticQuestion], texts: Texts, *, at_once: int = 1
    ) -> list[VerdictEvidence]:
        """One verdict a question, in their order, missing with its cause where there is none.

        ``at_once``: requests in flight, where they are not scored as one batch.
        """
        if at_once < 1:
            raise UserError(f"at least 1 request is sent at once, not {at_once}")
        found: dict[int, Verdict | CallFailure] = {}
        asked: dict[int, tuple[str, str]] = {}
        for i, question in enumerate(questions):
            first = find_text(texts, question.task, question.first, role=ROLE)
            second = find_text(texts, question.second_task, question.second, role=ROLE)
            for text in (second, first):
                if isinstance(text, CallFailure):
                    found[i] = text
            if isinstance(first, str) and isinstance(second, str):
                asked[i] = first, second
        if isinstance(self.model, ScoringJudge) and self.reading == "probabilities-scored":
            found |= await _scored(self.model, self.prompt, asked, at_once)
        elif isinstance(self.model, ChatJudge):
            found |= await self._written(self.model, asked, at_once)
        return [self._evidence(question, found[i]) for i, question in enumerate(questions)]

    async def _written(
        self, model: ChatJudge, asked: Mapping[int, tuple[str, str]], at_once: int
    ) -> dict[int, Verdict | CallFailure]:
        """Verdicts from what the critic writes, by the labels' probabilities where its replies have them."""
        found: dict[int, Verdict | CallFailure] = {}
        prompt, choose = self.prompt, self.reading != "labels"
        asking = Asking(
            role=ROLE,
            read=lambda reply: _from_reply(prompt, reply, soft_only=self.verdicts == "probabilities"),
            restated=prompt.restated(),
            allowed=", ".join(map(prompt.spoken, prompt.labels)),
            most_tokens=prompt.most_tokens,
            choices=tuple(prompt.labels) if choose else (),
        )

        async def one(i: int) -> None:
            answer = await ask(model, prompt.messages(*asked[i], explained=not choose), asking)
            missing = answer.failure or CallFailure("unparsable", "the critic gave no verdict")
            found[i] = missing if answer.verdict is None else answer.verdict

        await side_by_side(one, list(asked), at_once)
        return found

    def _evidence(self, question: CriticQuestion, outcome: Verdict | CallFailure) -> VerdictEvidence:
        verdict, failure = (None, outcome) if isinstance(outcome, CallFailure) else (outcome, None)
        return VerdictEvidence(
            critic=self.model.identity.short,
            prompt=self.prompt.name,
            task=question.task,
            first=question.first,
            second=question.second,
            second_task=question.second_task,
            value=None if verdict is None else verdict.value,
            label=None if verdict is None else verdict.label,
            read_from=None if verdict is None else verdict.read_from,
            failure=failure,
        )


async def _scored(
    model: ScoringJudge, prompt: CriticPrompt, asked: Mapping[int, tuple[str, str]], at_once: int
) -> dict[int, Verdict | CallFailure]:
    """Verdicts from log p of every label as the critic's reply, all in one batch."""
    messages = {i: prompt.messages(*pair) for i, pair in asked.items()}
    found = await score_labels(model, messages, [prompt.spoken(label) for label in prompt.labels], at_once)
    return {i: nats if isinstance(nats, CallFailure) else _mean(prompt, nats) for i, nats in found.items()}


def _mean(prompt: CriticPrompt, nats: Sequence[float]) -> Verdict | CallFailure:
    """The mean value over the labels' probabilities, normalised over the labels."""
    shares = label_shares(nats)
    if isinstance(shares, CallFailure):
        return shares
    value = sum(share * worth for share, worth in zip(shares, prompt.labels.values(), strict=True))
    return Verdict(min(1.0, max(0.0, value)), list(prompt.labels)[shares.index(max(shares))], "probabilities")


def _from_reply(prompt: CriticPrompt, reply: ChatReply, *, soft_only: bool) -> Verdict | CallFailure | None:
    """The verdict, why it cannot be used, or None where the reply holds no verdict.

    ``soft_only``: a label without its probability is no verdict.
    """
    if reply.choice_logprobs is not None and all(label in reply.choice_logprobs for label in prompt.labels):
        return _mean(prompt, [reply.choice_logprobs[label] for label in prompt.labels])
    if soft_only:
        return CallFailure("bad_reply", "the reply came without the probabilities of the labels, which were asked for")
    if reply.finish == "length" and prompt.explain:
        return None  # its verdict comes last: what is there may be a quotation
    label = reply.text if reply.text in prompt.labels else prompt.read(reply.text)
    return None if label is None else Verdict(prompt.labels[label], label, "label")
