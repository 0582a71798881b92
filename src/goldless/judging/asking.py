"""Asking a model a question on a scale, and the stage that makes judgements of the answers of a reviewer or a critic.

Verdicts are read from the labels' probabilities if the model returns them, or from what it writes: a reply that is
nothing but a verdict, or its line with the mark of the question. After a reply with neither, the model is asked once
more for a marked verdict; then the verdict is missing, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Literal

import anyio

from goldless.concurrency import side_by_side
from goldless.errors import CallError, CapabilityError, UserError
from goldless.evidence import JudgementEvidence, VerdictReply
from goldless.judging.scales import Scale, fence
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
    content_hash,
)
from goldless.models.marks import process_mark
from goldless.records import CallFailure

Verdicts = Literal["auto", "probabilities", "labels"]
"""``probabilities``: the mean over the labels' probabilities. ``labels``: the label the model wrote.
``auto``: probabilities if the model returns them."""
Reading = Literal["probabilities-scored", "probabilities-chosen", "labels"]
"""Ways to read verdicts: each label scored as the reply; its probability where the reply begins, or scored where the
reply does not show it and the model can score; the written label."""
Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent; a failure in place of a missing text."""

Prompts = Mapping[str, str | None]
"""The agents' prompts, by task; None, or no such task: not shown."""

CHOICE_TOKENS = 1024
"""Token limit for a choice, with room for a model that thinks first; others are limited to the length of the labels."""
MARKED_TOKENS = 256
"""Token limit for a marked verdict, with room for a model that gives reasons first."""
QUOTED = 80
"""Characters of an unparsable reply that are quoted."""


def reads_by_scoring(capabilities: Capabilities, verdicts: Verdicts) -> bool:
    """True if verdicts are read by scoring the labels."""
    return verdicts != "labels" and capabilities.scoring and not capabilities.one_call_choice


def find_reading(model: Model, verdicts: Verdicts, *, role: str) -> Reading:
    """The way the model's verdicts are read; raises if the model cannot do it."""
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


# --- questions and verdicts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictQuestion:
    """A question on a scale."""

    scale: Scale
    first: str
    second: str | None = None
    prompt: str | None = None
    description: str = ""
    task: str = ""
    begins_with: str = ""
    """The material that comes first, which other questions may share."""
    soft_only: bool = False
    """True if a label without its probability is not a verdict."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that the question shows."""
        return tuple(text for text in (self.first, self.second, self.prompt) if text is not None)

    def fence(self, *more_texts: str, mark: str = "") -> str:
        """A line that none of the texts contains, nor more of them."""
        return fence(*self.texts, *more_texts, mark=mark)

    @property
    def marked_by(self) -> str:
        """The text the mark is made from: questions with one beginning share it, so that servers keep the beginning."""
        return content_hash(self.scale.name, self.description, self.prompt, self.first)

    def messages(self, *, explained: bool, mark: str = "") -> tuple[Message, ...]:
        return self.scale.messages(
            self.first,
            self.second,
            prompt=self.prompt,
            task_description=self.description,
            explained=explained,
            mark=mark,
        )

    def asks_for_mark(self, *, explained: bool) -> bool:
        """Return True if even the first question asks for a marked verdict."""
        return self.scale.asks_for_mark(explained=explained)

    def read(self, reply: ChatReply, mark: str = "") -> VerdictReply | None:
        """Return the verdict in a reply to the question with this mark, or None if the reply has none."""
        scale, given = self.scale, reply.choice_logprobs
        if scale.labels and given is not None and all(label in given for label in scale.labels):
            return mean_verdict(scale, [given[label] for label in scale.labels], reply.text)
        if self.soft_only:
            said = "the reply has no probabilities of the labels, although they were requested"
            return VerdictReply(text=reply.text, failure=CallFailure("bad_reply", said), unclear=given is None)
        value = scale.labels.get(reply.text)
        if value is None and reply.finish != "length":  # a number at the end of a cut reply may be half of one
            value = scale.read(reply.text, mark)
        if value is None:
            return None
        label = next((label for label, worth in scale.labels.items() if worth == value), None)
        return VerdictReply(
            value=value,
            label=label,
            text=reply.text,
            mark=mark or None,
            read_from="label",
            unclear=given is None,
        )


Answered = Callable[[int, VerdictReply], None]
"""Called with the number of a question and its outcome."""


def mean_verdict(scale: Scale, nats: Sequence[float], text: str | None = None) -> VerdictReply:
    """The mean value over the labels' probabilities, from log p of each label, normalised over the labels.

    ``text``: what the model wrote; None: nothing.
    """
    top = max(nats)
    if any(map(math.isnan, nats)) or not math.isfinite(top):
        said = f"log-probabilities of the labels must be numbers, got {list(nats)}"
        return VerdictReply(text=text, failure=CallFailure("bad_reply", said))
    weights = [math.exp(nat - top) for nat in nats]
    shares = [weight / sum(weights) for weight in weights]
    value = sum(share * worth for share, worth in zip(shares, scale.labels.values(), strict=True))
    total = top + math.log(sum(weights))
    return VerdictReply(
        value=min(scale.highest, max(scale.lowest, value)),
        label=list(scale.labels)[shares.index(max(shares))],
        text=text,
        read_from="probabilities",
        label_logprobs={label: nat - total for label, nat in zip(scale.labels, nats, strict=True)},
    )


async def find_verdicts(
    model: Model,
    reading: Reading,
    asked: Sequence[VerdictQuestion | CallFailure],
    at_once: int,
    answered: Answered = lambda *_: None,
) -> list[VerdictReply]:
    """The outcome of each question; a failure in place of one, whose text is missing, is its outcome.

    ``at_once``: concurrent requests, if they are not scored as one batch. ``answered`` is called for every question as
    soon as it has an outcome.
    """
    found: dict[int, VerdictReply] = {}
    questions = {i: one for i, one in enumerate(asked) if isinstance(one, VerdictQuestion)}

    def end(i: int, verdict: VerdictReply) -> None:
        found[i] = verdict
        answered(i, verdict)

    for i, one in enumerate(asked):
        if isinstance(one, CallFailure):
            end(i, VerdictReply(failure=one))
    if reading == "probabilities-scored":
        await _score_labels(model, questions, at_once, end)
    else:
        await _ask_all(model, reading, questions, at_once, end)
    if reading == "probabilities-chosen" and model.capabilities.scoring:
        unclear = {i: one for i, one in questions.items() if found[i].unclear}

        def mend(i: int, verdict: VerdictReply) -> None:
            if verdict.failure is None or found[i].value is None:
                found[i] = verdict

        await _score_labels(model, unclear, at_once, mend)
    return [found[i] for i in range(len(asked))]


async def _score_labels(model: Model, questions: Mapping[int, VerdictQuestion], at_once: int, end: Answered) -> None:
    """Verdicts from log p of every label as the reply to every question, all in one batch."""
    encoded: dict[int, list[ScoreRequest]] = {}

    async def encode(i: int) -> None:
        """One request per label; a text that does not fit is never cut."""
        scale, messages = questions[i].scale, questions[i].messages(explained=False)
        try:
            requests = [await model.encode(messages, scale.spoken(label)) for label in scale.labels]
        except CallError as error:
            end(i, VerdictReply(failure=error.failure))
            return
        tokens, longest = max(request.tokens for request in requests), model.context_length
        if longest is not None and tokens > longest:
            said = f"{tokens} tokens do not fit the context of {longest}"
            end(i, VerdictReply(failure=CallFailure("too_long", said, attempts=0)))
        else:
            encoded[i] = requests

    await side_by_side(encode, list(questions), at_once)
    batch = [(i, request) for i in questions for request in encoded.get(i, ())]
    replies: dict[int, list[ScoreReply | None]] = {i: [None] * len(requests) for i, requests in encoded.items()}
    begins = {i: place for place, (i, _) in reversed(list(enumerate(batch)))}

    def deliver(some: Mapping[int, ScoreReply]) -> None:
        for place, reply in some.items():
            i = batch[place][0]
            replies[i][place - begins[i]] = reply
            if None not in replies[i]:
                sums = [reply.total for reply in replies[i] if isinstance(reply, TokenLogprobs)]
                lost = next((reply for reply in replies[i] if isinstance(reply, CallFailure)), None)
                end(i, VerdictReply(failure=lost) if lost else mean_verdict(questions[i].scale, sums))

    if batch:
        await model.score([request for _, request in batch], deliver)


async def _ask_all(
    model: Model,
    reading: Reading,
    questions: Mapping[int, VerdictQuestion],
    at_once: int,
    end: Answered,
) -> None:
    """Verdicts from replies, one question of each beginning before its others.

    So a server that keeps prefixes has computed a beginning when the others come, and still has it. There, a question
    is not sent before the first with the same beginning is answered, and that not before the first of all, which
    begins with the instructions.
    """
    chosen = reading == "probabilities-chosen"
    again = not (chosen and model.capabilities.scoring)
    by_beginning: dict[tuple[str, str], list[int]] = {}
    for i, question in questions.items():
        by_beginning.setdefault((question.task, question.begins_with or str(i)), []).append(i)
    groups, order = list(by_beginning.values()), []
    for start in range(0, len(groups), max(1, at_once)):
        some = groups[start : start + at_once]
        order += [same[0] for same in some] + [i for same in some for i in same[1:]]
    sent: dict[int, anyio.Event] = {}
    awaited: dict[int, anyio.Event] = {}
    if model.capabilities.keeps_prefixes:
        sent = {same[0]: anyio.Event() for same in groups}
        awaited = {i: sent[order[0] if i == same[0] else same[0]] for same in groups for i in same if i != order[0]}

    async def one_by_one(i: int) -> None:
        if i in awaited:
            await awaited[i].wait()
        end(i, await ask(model, questions[i], chosen=chosen, again=again))
        if i in sent:
            sent[i].set()

    await side_by_side(one_by_one, order, at_once)


async def ask(model: Writer, asked: VerdictQuestion, *, chosen: bool = False, again: bool = True) -> VerdictReply:
    """The verdict in the model's reply.

    ``chosen``: the labels are given as a choice, and no explanation is requested. ``again``: after a reply without a
    verdict, it is asked once more for a marked one.
    """
    question, scale, earlier = asked, asked.scale, None
    mark_of: Callable[[str], str] = getattr(model, "mark", process_mark)
    at_once = question.asks_for_mark(explained=not chosen)
    mark = mark_of(question.marked_by) if at_once else ""
    reply, verdict = await _verdict_of(model, question, first_request(question, chosen=chosen, mark=mark))
    if verdict is None and again and not isinstance(reply, CallFailure):
        earlier = reply.text
        request = second_request(question, earlier, chosen=chosen, mark=mark or mark_of(question.marked_by))
        reply, verdict = await _verdict_of(model, question, request)
    if isinstance(reply, CallFailure):
        return VerdictReply(text=earlier, failure=reply)
    if verdict is not None:
        return verdict
    twice, quoted = ", twice" * again, repr(reply.text.strip()[:QUOTED])
    cut = reply.finish == "length"
    allowed = ", ".join(map(scale.spoken, scale.labels)) if scale.role == "critic" else scale.allowed
    said = "the reply was cut off before a verdict" if cut else f"the {scale.role} gave none of {allowed}"
    failure = CallFailure(
        "truncated" if cut else "unparsable", f"{said}{twice}. Last reply: {quoted}", attempts=1 + again
    )
    return VerdictReply(text=reply.text, failure=failure, unclear=reply.choice_logprobs is None)


async def _verdict_of(
    model: Writer, question: VerdictQuestion, request: ChatRequest
) -> tuple[ChatReply | CallFailure, VerdictReply | None]:
    """Return the reply to a request, and the verdict in it, if any."""
    reply = await model.chat(request)
    if isinstance(reply, CallFailure):
        return reply, None
    # a reply from a journal with another secret has another mark than the request
    return reply, question.read(reply, reply.mark or request.mark)


def first_request(question: VerdictQuestion, *, chosen: bool, mark: str = "") -> ChatRequest:
    """Return the request for a verdict. ``mark``: of a question that asks for a marked verdict at once."""
    messages = question.messages(explained=not chosen, mark=mark)
    if chosen:
        return ChatRequest(messages, max_tokens=CHOICE_TOKENS, choices=tuple(question.scale.labels), mark=mark)
    return ChatRequest(messages, max_tokens=question.scale.most_tokens, mark=mark)


def second_request(question: VerdictQuestion, reply: str, *, chosen: bool, mark: str) -> ChatRequest:
    """Return the request for a marked verdict after a reply without one."""
    messages = question.messages(explained=not chosen, mark=mark)
    conversation = asked_again(messages, reply, question.scale.restated(mark))
    most_tokens = max(MARKED_TOKENS, question.scale.most_tokens)
    return ChatRequest(conversation, max_tokens=most_tokens, mark=mark)


def asked_again(messages: tuple[Message, ...], reply: str, restated: str) -> tuple[Message, ...]:
    """Return the conversation up to the message that asks for a marked verdict."""
    if reply.strip():
        return (*messages, Message("assistant", reply), Message("user", restated))
    # servers refuse an empty turn, and templates refuse two turns of one side in a row
    return (*messages[:-1], Message("user", f"{messages[-1].content}\n\n{restated}"))


# --- judgements ------------------------------------------------------------------------------------------------------


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

    @property
    def calls_each(self) -> int:
        """Calls for one question, if the first reply has a verdict."""
        return len(self.scale.labels) if self.reading == "probabilities-scored" else 1

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
        found = await self.verdicts_of(
            asked, at_once, lambda i, verdict: answered(self.evidence(questions[i], verdict))
        )
        return [self.evidence(one, verdict) for one, verdict in zip(questions, found, strict=True)]

    async def verdicts_of(
        self, asked: Sequence[VerdictQuestion | CallFailure], at_once: int, answered: Answered
    ) -> list[VerdictReply]:
        """The outcome of each question, in their order."""
        return await find_verdicts(self.model, self.reading, asked, at_once, answered)

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
        said = {one.name: getattr(verdict, one.name) for one in fields(verdict)}
        about = asked.task, asked.first, asked.second, asked.second_task
        return JudgementEvidence(self.name, self.scale.name, *about, **said)
