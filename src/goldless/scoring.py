"""Scoring: from texts to log-probabilities, task by task."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from goldless.errors import CallError, TextTooLongError
from goldless.evidence import LOGPROBS, Schema, failure_cells, rows_frame
from goldless.models.interface import (
    Message,
    Scorer,
    ScoreReply,
    ScoreRequest,
    WrappedModel,
    check_score_reply,
    content_hash,
)
from goldless.records import CallFailure, Task
from goldless.templates import Template


@dataclass(frozen=True, slots=True)
class Question:
    """One log-probability to compute."""

    target: str
    given: str | None
    target_task: str | None = None
    """The task that the target's response answers; None: the one that is asked about."""

    @property
    def target_key(self) -> str | tuple[str, str]:
        """The place of the target's text in ``Texts``."""
        return self.target if self.target_task is None else (self.target_task, self.target)


SCORED: Schema = {**LOGPROBS, "target_task": pl.String}
"""Log-probabilities as they are scored: those of other tasks' responses among them."""


def questions(
    agents: Sequence[str],
    peers_of: Mapping[str, Collection[str]] | None = None,
    *,
    peers_given_agent: bool = True,
    both_directions: bool = True,
    marginals: bool = True,
) -> Iterator[Question]:
    """The log-probabilities to compute for the agents with a response to a task; none if there are no peers.

    Every ordered pair of an agent and a peer: the peer's response given the agent's, unless ``peers_given_agent`` is
    false, and in both directions also the agent's given the peer's; and the marginal of every predicted response.
    ``peers_of``: the peers of each agent (default: all others).
    """
    partners = {agent: [other for other in agents if other != agent] for agent in agents}
    if peers_of is not None:
        directions = {"peers_given_agent": peers_given_agent, "both_directions": both_directions}
        partners = _partners(agents, peers_of, **directions)
    for target, given in partners.items():
        if given and marginals:
            yield Question(target, None)
        yield from (Question(target, other) for other in given)


def _partners(
    agents: Sequence[str],
    peers_of: Mapping[str, Collection[str]],
    *,
    peers_given_agent: bool,
    both_directions: bool,
) -> dict[str, list[str]]:
    """For each agent the others whose responses it is predicted from, in their order."""
    place = {agent: number for number, agent in enumerate(agents)}
    partners: dict[str, set[str]] = {agent: set() for agent in agents}
    for agent in agents:
        for peer in peers_of.get(agent, ()):
            if peer == agent or peer not in place:
                continue
            if peers_given_agent:
                partners[peer].add(agent)
            if both_directions:
                partners[agent].add(peer)
    return {agent: sorted(others, key=place.__getitem__) for agent, others in partners.items()}


MOST_NAMED = 20
"""Texts that an error names."""
Asked = tuple[tuple[Message, ...], str]
"""The messages that the scorer is shown, and the text it predicts."""
QUESTIONS_TOGETHER = 2048
"""Questions per batch for a scorer that is faster with many; a larger batch would lose more when a run is stopped."""
Texts = Mapping[Any, str | CallFailure]
"""Texts by agent, those of other tasks by task and agent; if a text is missing, its failure instead."""


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """Another task with an answer of the agent that is predicted."""

    task: Task
    agent: str
    """Whose response is shown: another sample than the one that is predicted, where there are two."""


@dataclass(frozen=True, slots=True)
class ScoringStage:
    """One way to present texts to a scorer."""

    scorer: Scorer
    template: Template
    rewriter: str | None = None
    """The model whose rewrites the texts are; None: the original responses."""
    synopsis: str | None = None
    """Name of the synopsis shown; None: none."""
    examples: Mapping[str, Sequence[WorkedExample]] = field(default_factory=dict)
    """Worked examples shown first, by the agent that is predicted."""

    async def request(self, task: Task, question: Question, texts: Texts) -> ScoreRequest | CallFailure:
        """The request to the scorer, or why it cannot be made."""
        return await self.encoded(self.asked(task, question, texts))

    def asked(self, task: Task, question: Question, texts: Texts) -> Asked | CallFailure:
        """The messages and the text that the scorer is shown, or why it cannot be."""
        target = texts[question.target_key]
        given = None if question.given is None else texts[question.given]
        for text in (target, given):
            if isinstance(text, CallFailure):
                return text
        synopsis = None if self.synopsis is None else task.synopsis(self.synopsis)
        if self.synopsis is not None and synopsis is None:
            return CallFailure("no_synopsis", f"task {task.task} has no synopsis {self.synopsis!r}", attempts=0)
        messages = [Message("system", self.template.predict)]
        for example in self.examples.get(question.target, ()):
            asked, answer = self._worked(example, question.given, texts)
            messages += [Message("user", asked), Message("assistant", answer)]
        messages.append(Message("user", self.template.question(synopsis, given if isinstance(given, str) else None)))
        return tuple(messages), str(target)

    def _worked(self, example: WorkedExample, given: str | None, texts: Texts) -> tuple[str, str]:
        """The question and the answer of a worked example; an informant without a response to it says nothing."""
        task = example.task
        informant = None if given is None else texts.get((task.task, given))
        synopsis = None if self.synopsis is None else task.synopsis(self.synopsis)
        shown = self.template.question(synopsis, informant if isinstance(informant, str) else None)
        return shown, str(texts[task.task, example.agent])

    async def encoded(self, asked: Asked | CallFailure) -> ScoreRequest | CallFailure:
        """The same as the scorer's request, if it fits."""
        if isinstance(asked, CallFailure):
            return asked
        try:
            request = await self.scorer.encode(*asked)
        except CallError as error:
            return error.failure
        longest = self.scorer.context_length
        if longest is not None and request.tokens > longest:
            return CallFailure("too_long", f"{request.tokens} tokens do not fit the context of {longest}", attempts=0)
        return request

    def texts_hash(self, task: Task, question: Question, texts: Texts) -> str | None:
        """A hash that distinguishes questions with the same names about different texts; None if a text is missing."""
        given = "" if question.given is None else texts[question.given]
        synopsis = (task.synopsis(self.synopsis) or "") if self.synopsis is not None else ""
        target = texts[question.target_key]
        if isinstance(given, CallFailure) or isinstance(target, CallFailure):
            return None
        examples = [self._worked(one, question.given, texts) for one in self.examples.get(question.target, ())]
        return content_hash(synopsis, given, target, *itertools.chain(*examples))[:16]


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """Questions about the texts of one task, presented in one way."""

    stage: ScoringStage
    task: Task
    texts: Texts
    questions: Sequence[Question]

    def key(self, question: Question) -> tuple[str | None, ...]:
        """The identity of the log-probability: the way, the names, and a hash of the texts."""
        stage, texts = self.stage, self.stage.texts_hash(self.task, question, self.texts)
        way, names = (stage.template.name, stage.rewriter, stage.synopsis), (question.target, question.given)
        return (*way, self.task.task, *names, texts, question.target_task)

    def without(self, known: Collection[tuple[str | None, ...]]) -> ScoringJob:
        """The job without the questions of these keys."""
        return replace(self, questions=[question for question in self.questions if self.key(question) not in known])


async def unfit(jobs: Sequence[ScoringJob]) -> list[tuple[str, CallFailure]]:
    """The questions whose texts do not fit, each described with its cause, found without calling the scorer."""
    found = []
    for job in jobs:
        if _surely_fits(job):
            continue
        for question in job.questions:
            request = await job.stage.request(job.task, question, job.texts)
            if isinstance(request, CallFailure) and request.kind == "too_long":
                found.append((_named(job.task.task, question.target, question.given, question.target_task), request))
    return found


def _surely_fits(job: ScoringJob) -> bool:
    """True if no question of the job can be too long, without tokenising: a token has at least one byte of text."""
    longest = job.stage.scorer.context_length
    if longest is None:
        return True
    if job.stage.examples:
        return False
    texts = [len(text.encode()) for text in job.texts.values() if isinstance(text, str)]
    synopsis = "" if job.stage.synopsis is None else job.task.synopsis(job.stage.synopsis) or ""
    words = job.stage.template.predict + job.stage.template.question(synopsis or None, "")
    return len(words.encode()) + MARKS_BYTES + 2 * max(texts, default=0) <= longest


async def score_together(
    jobs: Sequence[ScoringJob], turn: AbstractAsyncContextManager[Any] | None = None
) -> pl.DataFrame:
    """The log-probabilities of all jobs, with per-token values, in the order of jobs and questions.

    All go to one scorer in one batch, so that shared parts are computed once. ``turn``: where several batches are in
    progress, held until this one is tokenised and its calls are begun.
    """
    asked = [(job, question) for job in jobs for question in job.questions]
    async with turn or nullcontext():
        # every text is tokenised once
        shown = [job.stage.asked(job.task, question, job.texts) for job, question in asked]
        there = [one for one in shown if not isinstance(one, CallFailure)]
        if there:
            scorer = WrappedModel(jobs[0].stage.scorer)
            await scorer.read([messages for messages, _ in there], [target for _, target in there])
        made = [await job.stage.encoded(one) for (job, _), one in zip(asked, shown, strict=True)]
    replies: list[ScoreReply] = [NOTHING if isinstance(request, ScoreRequest) else request for request in made]
    places = [place for place, request in enumerate(made) if isinstance(request, ScoreRequest)]
    requests = [request for request in made if isinstance(request, ScoreRequest)]

    def deliver(found: Mapping[int, ScoreReply]) -> None:
        for number, reply in found.items():
            replies[places[number]] = check_score_reply(requests[number], reply)

    if places:
        await jobs[0].stage.scorer.score(requests, deliver)
    return rows_frame([_row(job, q, reply) for (job, q), reply in zip(asked, replies, strict=True)], SCORED)


def task_groups(questions: Sequence[int], least: int) -> Iterator[range]:
    """Groups of consecutive tasks to ask about in one call, by their numbers of questions.

    A group ends at ``least`` questions, so with 1 every task with questions is its own group.
    """
    first = asked = 0
    for place, count in enumerate(questions):
        asked += count
        if asked >= least:
            yield range(first, place + 1)
            first, asked = place + 1, 0
    if first < len(questions):
        yield range(first, len(questions))


async def score_by_task(
    jobs_by_task: Sequence[Sequence[ScoringJob]], done: Callable[[int], None] = lambda _: None
) -> pl.DataFrame:
    """The log-probabilities of the jobs of each task, in their order; ``done`` receives the number of finished tasks.

    A scorer that is faster with many questions gets many tasks in one call.
    """
    first = next((job for jobs in jobs_by_task for job in jobs), None)
    least = QUESTIONS_TOGETHER if first is not None and first.stage.scorer.capabilities.together else 1
    scored = [pl.DataFrame(schema=LOGPROBS)]
    for places in task_groups([sum(len(job.questions) for job in jobs) for jobs in jobs_by_task], least):
        together = [job for place in places for job in jobs_by_task[place]]
        scored.append((await score_together(together)).select(*LOGPROBS))
        done(places.stop)
    return pl.concat(scored)


NOTHING = CallFailure("bad_reply", "the scorer returned no reply for this question")
MARKS_BYTES = 1024
"""More than a chat template writes around the messages."""


def _row(job: ScoringJob, question: Question, reply: ScoreReply) -> tuple[object, ...]:
    """The reply as a row of evidence, with everything needed to trust it."""
    stage = job.stage
    failure = reply if isinstance(reply, CallFailure) else None
    values = None if isinstance(reply, CallFailure) else list(reply.logprobs)
    total = None if values is None else sum(values)
    return (
        *(stage.scorer.identity.short, stage.template.name, stage.rewriter),
        *(job.task.task, question.target, question.given, stage.synopsis),
        total,
        None if total is None or not values else total / len(values),
        None if values is None else len(values),
        stage.texts_hash(job.task, question, job.texts),
        values,
        *failure_cells(failure),
        question.target_task,
    )


def refuse_too_long(bad: Sequence[tuple[str, CallFailure]]) -> None:
    """Raise one error that names every task and agent whose texts do not fit; texts are never cut."""
    if not bad:
        return
    lines = [f"  {what}: {failure.message}" for what, failure in bad[:MOST_NAMED]]
    if len(bad) > MOST_NAMED:
        lines.append(f"  … and {len(bad) - MOST_NAMED} more")
    said = f"{len(bad)} log-probabilities cannot be computed because their texts do not fit the scorer's context:"
    advice = "Use a scorer with a longer context, or --on-too-long skip to count them as missing."
    raise TextTooLongError("\n".join([said, *lines, advice]))


def too_long(logprobs: pl.DataFrame) -> list[tuple[str, CallFailure]]:
    """The log-probabilities missing because their texts do not fit, each described with its cause."""
    names = [name for name in ("task", "target", "given", "target_task") if name in logprobs.columns]
    bad = logprobs.filter(pl.col("failure") == "too_long").select(*names, "failure_message")
    return [(_named(*row[:-1]), CallFailure("too_long", row[-1])) for row in bad.rows()]


def _named(task: str, target: str, given: str | None, target_task: str | None = None) -> str:
    elsewhere = f" (response to {target_task})" if target_task else ""
    return f"task {task}: {target}{elsewhere}{f' given {given}' if given else ''}"
