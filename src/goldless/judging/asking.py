"""Asking a model a question that has a few allowed verdicts.

Verdicts are read from the labels' probabilities if the model returns them, or from what it writes. After a reply
without a verdict the model is asked once more with the allowed verdicts restated; then the verdict is missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import anyio
import numpy as np

from goldless.concurrency import side_by_side
from goldless.errors import CallError, CapabilityError, UserError
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Message,
    Model,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Writer,
)
from goldless.records import CallFailure

Verdicts = Literal["auto", "probabilities", "labels"]
"""``probabilities``: the mean over the labels' probabilities. ``labels``: the label the model wrote.
``auto``: probabilities if the model returns them."""
Reading = Literal["probabilities-scored", "probabilities-chosen", "labels"]
"""Ways to read verdicts: each label scored as the reply; its probability where the reply begins, or scored where the
reply does not show it and the model can score; the written label."""
Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent; a failure in place of a missing text."""

CHOICE_TOKENS = 1024
"""Token limit for a choice, with room for a model that thinks first; others are limited to the length of the labels."""
QUOTED = 80
"""Characters of an unparsable reply that are quoted."""

SHORTEST_FENCE = 12
"""Characters of a fence; it is longer if a text contains as many in a row."""

NO_LABELS = CallFailure("bad_reply", "the question has no labels to score")
Found = TypeVar("Found")


# --- what can be asked of whom ---------------------------------------------------------------------------------------


def reads_by_scoring(capabilities: Capabilities, verdicts: Verdicts) -> bool:
    """True if verdicts are read by scoring the labels."""
    return verdicts != "labels" and capabilities.scoring and not capabilities.one_call_choice


def find_reading(model: Model, verdicts: Verdicts, *, role: str) -> Reading:
    """The way the model's verdicts are read; raises if the model cannot do it."""
    if verdicts not in {"auto", "probabilities", "labels"}:
        raise UserError(f"verdicts must be auto, probabilities or labels, got {verdicts!r}")
    can = model.capabilities
    if reads_by_scoring(can, verdicts):
        return "probabilities-scored"
    if verdicts != "labels" and can.chat and can.choice:
        return "probabilities-chosen"
    if verdicts != "probabilities" and can.chat:
        return "labels"
    name = model.identity.short
    if verdicts == "probabilities":
        raise CapabilityError(
            f"{name} does not return probabilities of its verdicts. {role.capitalize()}s that do: embedded, "
            "gguf:PATH, hf:NAME_OR_PATH, and servers that return log-probabilities of what they write (openai:NAME, "
            "http://HOST:PORT/v1#MODEL). With verdicts read by labels, any chat model works"
        )
    need = "writes no text" if verdicts == "labels" else "neither scores nor writes text"
    raise CapabilityError(f"{name} {need}, so it cannot be a {role}. Name a chat model or a scorer")


def fence(*texts: str) -> str:
    """A line that none of the texts contains; the same for the same texts, and for nearly all texts."""
    longest = max((len(run) for text in texts for run in re.findall("#+", text)), default=0)
    return "#" * max(SHORTEST_FENCE, longest + 1)


def fenced(heading: str, text: str, line: str) -> str:
    """A text as material, below its heading and between two lines of the fence."""
    return f"{heading}\n{line}\n{text}\n{line}"


# --- verdicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerdictReply(Generic[Found]):
    """The outcome of one question."""

    verdict: Found | None
    """None: missing, ``failure`` says why."""
    text: str | None = None
    """The model's last reply, if any."""
    failure: CallFailure | None = None
    without_probabilities: bool = False
    """True if there was a reply, but without the labels' probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictQuestion(Generic[Found]):
    """A question with a few allowed verdicts, how it is put and how the verdict is read."""

    role: str
    """The role of the model, for messages."""
    messages: Callable[[bool], tuple[Message, ...]]
    """The messages; True: with an explanation before the verdict."""
    read: Callable[[ChatReply], Found | CallFailure | None]
    """The verdict in a reply, why it cannot be used, or None if there is none."""
    restated: str
    """The message to a model whose reply had no verdict."""
    allowed: str
    """The allowed verdicts, for the failure's message."""
    most_tokens: int
    choices: tuple[str, ...] = ()
    labels: Sequence[str] = ()
    """The labels as the model should write them, to be scored."""
    mean: Callable[[Sequence[float]], Found | CallFailure] = lambda _: NO_LABELS
    """The verdict from log p of each label, in nats."""
    task: str = ""
    """The task that it is about."""
    begins_with: str = ""
    """The material that comes first, which other questions may share."""


async def find_verdicts(
    model: Model,
    reading: Reading,
    asked: Mapping[int, VerdictQuestion[Found] | CallFailure],
    at_once: int,
    answered: Callable[[int, VerdictReply[Found]], None] = lambda *_: None,
) -> dict[int, VerdictReply[Found]]:
    """The outcome of each question; a failure in place of one, whose text is missing, is its outcome.

    ``at_once``: concurrent requests, if they are not scored as one batch. ``answered`` is called for every question as
    soon as it has an outcome.
    """
    found: dict[int, VerdictReply[Found]] = {}
    for i, one in asked.items():
        if isinstance(one, CallFailure):
            found[i] = VerdictReply(None, None, one)
            answered(i, found[i])
    questions = {i: one for i, one in asked.items() if isinstance(one, VerdictQuestion)}
    if reading == "probabilities-scored":
        return found | await _scored(model, questions, at_once, answered)
    scores = reading == "probabilities-chosen" and model.capabilities.scoring
    order = _beginnings_first(questions, at_once)
    awaited = _awaited(questions, order) if model.capabilities.keeps_prefixes else {}
    sent = {i: anyio.Event() for i in set(awaited.values())}

    async def one_by_one(i: int) -> None:
        if i in awaited:
            await sent[awaited[i]].wait()
        found[i] = await ask(model, questions[i], explained=reading == "labels", again=not scores)
        answered(i, found[i])
        if i in sent:
            sent[i].set()

    await side_by_side(one_by_one, order, at_once)
    unclear = {i: one for i, one in questions.items() if scores and found[i].without_probabilities}
    scored = await _scored(model, unclear, at_once) if unclear else {}
    return found | {i: reply for i, reply in scored.items() if reply.failure is None or found[i].verdict is None}


def _beginnings_first(questions: Mapping[int, VerdictQuestion[Found]], at_once: int) -> list[int]:
    """The questions by what they begin with, one of each beginning before its others.

    So a server that keeps prefixes has computed a beginning when the others come, and still has it.
    """
    by_beginning: dict[tuple[str, str], list[int]] = {}
    for i, question in questions.items():
        by_beginning.setdefault(_beginning(i, question), []).append(i)
    groups, order = list(by_beginning.values()), []
    for start in range(0, len(groups), max(1, at_once)):
        some = groups[start : start + at_once]
        order += [same[0] for same in some] + [i for same in some for i in same[1:]]
    return order


def _awaited(questions: Mapping[int, VerdictQuestion[Found]], order: Sequence[int]) -> dict[int, int]:
    """The question that must be answered before another is sent, so that what they have in common is computed once.

    That is the first with the same beginning, and for these the first of all, which begins with the instructions.
    """
    first: dict[tuple[str, str], int] = {}
    found = {i: first.setdefault(_beginning(i, questions[i]), i) for i in order}
    return {i: order[0] if i == other else other for i, other in found.items() if i != order[0]}


def _beginning(i: int, question: VerdictQuestion[Found]) -> tuple[str, str]:
    return question.task, question.begins_with or str(i)


# --- verdicts as probabilities of the labels -----------------------------------------------------------------------


async def _scored(
    model: Model,
    questions: Mapping[int, VerdictQuestion[Found]],
    at_once: int,
    answered: Callable[[int, VerdictReply[Found]], None] = lambda *_: None,
) -> dict[int, VerdictReply[Found]]:
    """Verdicts from log p of every label as the reply to every question, all in one batch."""
    encoded: dict[int, list[ScoreRequest] | CallFailure] = {}
    found: dict[int, VerdictReply[Found]] = {}

    async def encode(i: int) -> None:
        encoded[i] = await _requests(model, questions[i].messages(False), questions[i].labels)

    await side_by_side(encode, list(questions), at_once)
    batch = [(i, request) for i in questions if isinstance(sent := encoded[i], list) for request in sent]
    places: dict[int, list[int]] = {}
    for place, (i, _) in enumerate(batch):
        places.setdefault(i, []).append(place)
    replies: dict[int, ScoreReply] = {}

    def end(i: int, nats: tuple[float, ...] | CallFailure) -> None:
        verdict = nats if isinstance(nats, CallFailure) else questions[i].mean(nats)
        found[i] = VerdictReply(None, None, verdict) if isinstance(verdict, CallFailure) else VerdictReply(verdict)
        answered(i, found[i])

    def deliver(some: Mapping[int, ScoreReply]) -> None:
        replies.update(some)
        for i in dict.fromkeys(batch[place][0] for place in some):
            if i not in found and all(place in replies for place in places[i]):
                end(i, _sums([replies[place] for place in places[i]]))

    for i, sent in encoded.items():
        if isinstance(sent, CallFailure):
            end(i, sent)
    await model.score([request for _, request in batch], deliver)
    return found


async def _requests(
    model: Model, messages: tuple[Message, ...], labels: Sequence[str]
) -> list[ScoreRequest] | CallFailure:
    """One request per label, or why there is none; a text that does not fit is never cut."""
    try:
        requests = [await model.encode(messages, label) for label in labels]
    except CallError as error:
        return error.failure
    tokens, longest = max(request.tokens for request in requests), model.context_length
    if longest is not None and tokens > longest:
        return CallFailure("too_long", f"{tokens} tokens do not fit the context of {longest}", attempts=0)
    return requests


def _sums(replies: Sequence[ScoreReply]) -> tuple[float, ...] | CallFailure:
    sums = []
    for reply in replies:
        if not isinstance(reply, TokenLogprobs):
            return reply
        sums.append(reply.total)
    return tuple(sums)


def label_shares(nats: Sequence[float]) -> tuple[float, ...] | CallFailure:
    """Probabilities of the labels, normalised over the labels."""
    values = np.array(nats, dtype=float)
    if np.isnan(values).any() or not math.isfinite(values.max()):
        return CallFailure("bad_reply", f"log-probabilities of the labels must be numbers, got {values.tolist()}")
    shares = np.exp(values - values.max())
    return tuple((shares / shares.sum()).tolist())


# --- verdicts as text ----------------------------------------------------------------------------------------------


async def ask(
    model: Writer, asked: VerdictQuestion[Found], *, explained: bool = False, again: bool = True
) -> VerdictReply[Found]:
    """The verdict; after a reply without one, the allowed verdicts are restated once, unless ``again`` is False."""
    messages = asked.messages(explained)
    most = CHOICE_TOKENS if asked.choices else asked.most_tokens
    reply = await model.chat(ChatRequest(messages, max_tokens=most, choices=asked.choices))
    if isinstance(reply, CallFailure):
        return VerdictReply(None, None, reply)
    verdict = asked.read(reply)
    if verdict is None and again:
        restated = asked_again(messages, reply.text, asked.restated)
        earlier = reply.text
        reply = await model.chat(ChatRequest(restated, max_tokens=most, choices=asked.choices))
        if isinstance(reply, CallFailure):
            return VerdictReply(None, earlier, reply)
        verdict = asked.read(reply)
    unclear = reply.choice_logprobs is None
    if isinstance(verdict, CallFailure):
        return VerdictReply(None, reply.text, verdict, unclear)
    if verdict is not None:
        return VerdictReply(verdict, reply.text, without_probabilities=unclear)
    quoted, times = repr(reply.text.strip()[:QUOTED]), 1 + again
    if reply.finish == "length":
        message = f"the reply was cut off before a verdict{', twice' * again}. Last reply: {quoted}"
        return VerdictReply(None, reply.text, CallFailure("truncated", message, attempts=times), unclear)
    message = f"the {asked.role} gave none of {asked.allowed}{', twice' * again}. Last reply: {quoted}"
    return VerdictReply(None, reply.text, CallFailure("unparsable", message, attempts=times), unclear)


def asked_again(messages: tuple[Message, ...], reply: str, restated: str) -> tuple[Message, ...]:
    """The conversation up to the message that restates the allowed verdicts."""
    if reply.strip():
        return (*messages, Message("assistant", reply), Message("user", restated))
    # servers refuse an empty turn, and templates refuse two turns of one side in a row
    return (*messages[:-1], Message("user", f"{messages[-1].content}\n\n{restated}"))
