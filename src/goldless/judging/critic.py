"""The critic stage: from questions about two responses to a verdict between 0 and 1 on each.

A verdict is the mean over the labels' probabilities where the model gives them: any value in [0, 1] still bounds the
total variation distance from below, and the mean varies less than one hard label. Otherwise it is the value of the
label that the critic wrote. A reply without a verdict is asked about once more, then missing; it is never a value.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import anyio
import numpy as np

from goldless.errors import CallError, CapabilityError, GoldlessError, UserError
from goldless.evidence import VerdictEvidence
from goldless.judging.critic_prompts import SAME_SOURCE, CriticPrompt
from goldless.judging.shuffling import CriticQuestion
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    Message,
    ModelIdentity,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
)
from goldless.records import CallFailure

Verdicts = Literal["auto", "probabilities", "labels"]
"""``probabilities``: the mean over the labels' probabilities. ``labels``: the label the critic wrote.
``auto``: probabilities where the model gives them."""
Reading = Literal["probabilities-scored", "probabilities-chosen", "labels"]
"""How verdicts are read: each label scored as the reply; its probability where the reply begins; the written label."""
Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent; a failure stands for a text that is missing."""

CHOICE_TOKENS = 1024
"""Room for a choice: a model that thinks first needs it, and others are held to the length of the labels."""
QUOTED = 80
"""Characters of an unparsable reply that are quoted."""


@runtime_checkable
class ScoringCritic(Protocol):
    """What this stage needs of a model that scores labels."""

    @property
    def identity(self) -> ModelIdentity:
        """Who judges."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    def context_length(self) -> int | None:
        """Most tokens of context and target together; None where unknown."""

    async def encode(self, messages: Sequence[Message], target: str) -> ScoreRequest:
        """The request for log p(target as the assistant's turn | messages)."""

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        """Score all requests; deliver every reply once."""


@runtime_checkable
class ChatCritic(Protocol):
    """What this stage needs of a model that writes its verdicts."""

    @property
    def identity(self) -> ModelIdentity:
        """Who judges."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """The reply."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the critic said."""

    value: float
    label: str
    read_from: Literal["probabilities", "label"]


def reads_by_scoring(capabilities: Capabilities, verdicts: Verdicts) -> bool:
    """Whether verdicts are read by scoring the labels, so that the stage is to be given a scorer."""
    return verdicts != "labels" and capabilities.scoring


@dataclass(frozen=True, slots=True)
class CriticStage:
    """How questions are put to a critic. The model must be prepared; one that cannot do it is refused here."""

    model: ScoringCritic | ChatCritic
    prompt: CriticPrompt = SAME_SOURCE
    verdicts: Verdicts = "auto"

    def __post_init__(self) -> None:
        """Raise where the model cannot give verdicts in this way."""
        if self.verdicts not in {"auto", "probabilities", "labels"}:
            raise UserError(f"verdicts are read by auto, probabilities or labels, not by {self.verdicts!r}")
        _ = self.reading

    @property
    def reading(self) -> Reading:
        """How verdicts are read, for the signature."""
        model, can = self.model, self.model.capabilities
        if reads_by_scoring(can, self.verdicts) and isinstance(model, ScoringCritic):
            return "probabilities-scored"
        writes = can.chat and isinstance(model, ChatCritic)
        if self.verdicts != "labels" and writes and can.choice:
            return "probabilities-chosen"
        if self.verdicts != "probabilities" and writes:
            return "labels"
        raise CapabilityError(_cannot(model.identity.short, self.verdicts))

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
            first = _text(texts, question.task, question.first)
            second = _text(texts, question.second_task, question.second)
            for text in (second, first):
                if isinstance(text, CallFailure):
                    found[i] = text
            if isinstance(first, str) and isinstance(second, str):
                asked[i] = first, second
        if isinstance(self.model, ScoringCritic) and self.reading == "probabilities-scored":
            found |= await _scored(self.model, self.prompt, asked, at_once)
        elif isinstance(self.model, ChatCritic):
            found |= await _written(self.model, self.prompt, asked, at_once, choose=self.reading != "labels")
        return [self._evidence(question, found[i]) for i, question in enumerate(questions)]

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


def _text(texts: Texts, task: str, agent: str) -> str | CallFailure:
    if (task, agent) not in texts:
        raise UserError(
            f"a critic was asked about the response of {agent} to task {task}, but there is no such text: "
            "ask only about responses that were given, or name the failure in the text's place"
        )
    return texts[task, agent]


def _cannot(model: str, verdicts: Verdicts) -> str:
    if verdicts == "probabilities":
        return (
            f"{model} gives no probabilities of its verdicts. Critics that do: embedded, gguf:PATH, hf:NAME_OR_PATH, "
            "and servers that list log-probabilities of what they write (openai:NAME, http://HOST:PORT/v1#MODEL). "
            "With verdicts read by labels any chat model will do."
        )
    need = "writes no text" if verdicts == "labels" else "neither scores nor writes text"
    return f"{model} {need}, so it cannot be a critic. Name a chat model or a scorer."


# --- verdicts as probabilities of the labels -----------------------------------------------------------------------


async def _scored(
    model: ScoringCritic, prompt: CriticPrompt, asked: Mapping[int, tuple[str, str]], at_once: int
) -> dict[int, Verdict | CallFailure]:
    """Verdicts from log p of every label as the critic's reply, all in one batch."""
    encoded: dict[int, list[ScoreRequest] | CallFailure] = {}

    async def encode(i: int) -> None:
        encoded[i] = await _requests(model, prompt, *asked[i])

    await _side_by_side(encode, list(asked), at_once)
    ready = [(i, requests) for i in asked if not isinstance(requests := encoded[i], CallFailure)]
    replies: dict[int, ScoreReply] = {}
    await model.score([request for _, requests in ready for request in requests], replies.update)
    found: dict[int, Verdict | CallFailure] = {i: bad for i, bad in encoded.items() if isinstance(bad, CallFailure)}
    for place, (i, _) in enumerate(ready):
        begin = place * len(prompt.labels)
        found[i] = _from_scores(prompt, [replies[begin + j] for j in range(len(prompt.labels))])
    return found


async def _requests(
    model: ScoringCritic, prompt: CriticPrompt, first: str, second: str
) -> list[ScoreRequest] | CallFailure:
    """One request a label, or why there is none; a text that does not fit is never cut."""
    messages = prompt.messages(first, second)
    try:
        requests = [await model.encode(messages, prompt.spoken(label)) for label in prompt.labels]
    except CallError as error:
        return error.failure
    tokens, longest = max(request.tokens for request in requests), model.context_length
    if longest is not None and tokens > longest:
        return CallFailure("too_long", f"{tokens} tokens, but the context is {longest}", attempts=0)
    return requests


def _from_scores(prompt: CriticPrompt, replies: Sequence[ScoreReply]) -> Verdict | CallFailure:
    sums = []
    for reply in replies:
        if not isinstance(reply, TokenLogprobs):
            return reply
        sums.append(reply.total)
    return _mean(prompt, dict(zip(prompt.labels, sums, strict=True)))


def _mean(prompt: CriticPrompt, logprobs: Mapping[str, float]) -> Verdict | CallFailure:
    """The mean value over the labels' probabilities, normalised over the labels."""
    nats = np.array([logprobs[label] for label in prompt.labels])
    if np.isnan(nats).any() or not math.isfinite(nats.max()):
        return CallFailure("bad_reply", f"log-probabilities of the labels are no numbers: {nats.tolist()}")
    shares = np.exp(nats - nats.max())
    value = float(shares @ np.array(list(prompt.labels.values())) / shares.sum())
    return Verdict(min(1.0, max(0.0, value)), list(prompt.labels)[int(nats.argmax())], "probabilities")


# --- verdicts as text ----------------------------------------------------------------------------------------------


async def _written(
    model: ChatCritic, prompt: CriticPrompt, asked: Mapping[int, tuple[str, str]], at_once: int, *, choose: bool
) -> dict[int, Verdict | CallFailure]:
    """Verdicts from what the critic writes; ``choose``: the labels' probabilities where its replies have them."""
    found: dict[int, Verdict | CallFailure] = {}

    async def ask(i: int) -> None:
        messages = prompt.messages(*asked[i], explained=not choose)
        found[i] = await _ask(model, prompt, messages, choices=tuple(prompt.labels) if choose else ())

    await _side_by_side(ask, list(asked), at_once)
    return found


async def _ask(
    model: ChatCritic, prompt: CriticPrompt, messages: tuple[Message, ...], *, choices: tuple[str, ...]
) -> Verdict | CallFailure:
    """The verdict; a reply without one is answered once by the allowed labels."""
    most = CHOICE_TOKENS if choices else prompt.most_tokens
    reply = await model.chat(ChatRequest(messages, max_tokens=most, choices=choices))
    verdict = _from_reply(prompt, reply)
    if verdict is None and isinstance(reply, ChatReply):
        again = _asked_again(prompt, messages, reply)
        reply = await model.chat(ChatRequest(again, max_tokens=most, choices=choices))
        verdict = _from_reply(prompt, reply)
    if verdict is not None:
        return verdict
    if isinstance(reply, CallFailure):
        return reply
    quoted = repr(reply.text.strip()[:QUOTED])
    if reply.finish == "length":
        return CallFailure("truncated", f"the reply was cut before a verdict, twice; at last: {quoted}", attempts=2)
    allowed = ", ".join(map(prompt.spoken, prompt.labels))
    return CallFailure("unparsable", f"the critic gave none of {allowed}, twice; at last: {quoted}", attempts=2)


def _asked_again(prompt: CriticPrompt, messages: tuple[Message, ...], reply: ChatReply) -> tuple[Message, ...]:
    if reply.text.strip():
        return (*messages, Message("assistant", reply.text), Message("user", prompt.restated()))
    # servers refuse an empty turn, and templates refuse two turns of one side in a row
    return (*messages[:-1], Message("user", f"{messages[-1].content}\n\n{prompt.restated()}"))


def _from_reply(prompt: CriticPrompt, reply: ChatReply | CallFailure) -> Verdict | CallFailure | None:
    """The verdict, the failure of the call, or None where the reply holds no verdict."""
    if isinstance(reply, CallFailure):
        return reply
    if reply.choice_logprobs is not None and all(label in reply.choice_logprobs for label in prompt.labels):
        return _mean(prompt, reply.choice_logprobs)
    label = reply.text if reply.text in prompt.labels else prompt.read(reply.text)
    return None if label is None else Verdict(prompt.labels[label], label, "label")


async def _side_by_side(work: Callable[[int], Awaitable[None]], jobs: Sequence[int], at_once: int) -> None:
    """Do all jobs, so many at once."""
    queue = iter(jobs)

    async def worker() -> None:
        for job in queue:
            await work(job)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(at_once, len(jobs))):
                tasks.start_soon(worker)
    except BaseExceptionGroup as group:
        # jobs side by side may all have met the same error: one is enough
        ours, others = group.split(GoldlessError)
        if ours is None or others is not None:
            raise
        error: BaseException = ours
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
