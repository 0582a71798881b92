"""Scoring: from texts to log-probability evidence, task by task."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import CallError, TextTooLongError
from goldless.evidence import LogprobEvidence
from goldless.models.interface import Message, Scorer, ScoreReply, ScoreRequest, content_hash
from goldless.records import CallFailure, Task
from goldless.templates import Template


@dataclass(frozen=True, slots=True)
class Question:
    """One log-probability to be known."""

    target: str
    given: str | None


def questions(
    agents: Sequence[str],
    *,
    peers: Collection[str] | None = None,
    both_directions: bool = True,
    marginals: bool = True,
) -> Iterator[Question]:
    """The log-probabilities to be known of the agents that answered a task; nothing where there are no peers.

    Every ordered pair of an agent and a peer: the peer's response given the agent's, and in both directions also the
    agent's given the peer's; and the marginal of every response predicted. ``peers``: the agents that serve as
    peers; all where none are named.
    """
    for target in agents:
        given = [
            other
            for other in agents
            if other != target and (peers is None or target in peers or (both_directions and other in peers))
        ]
        if given and marginals:
            yield Question(target, None)
        yield from (Question(target, other) for other in given)


def paired_questions(
    peers_of: Mapping[str, Sequence[str]], *, both_directions: bool = True, marginals: bool = True
) -> Iterator[Question]:
    """The log-probabilities to be known of some agents and the peers named for each, every one once."""
    pairs = [(agent, peer) for agent, peers in peers_of.items() for peer in peers]
    asked = [(peer, agent) for agent, peer in pairs]
    if both_directions:
        asked += pairs
    given: dict[str, dict[str, None]] = {}
    for target, other in asked:
        given.setdefault(target, {})[other] = None
    for target, others in given.items():
        if marginals:
            yield Question(target, None)
        yield from (Question(target, other) for other in others)


Texts = Mapping[str, str | CallFailure]
"""By agent; an agent whose text is missing has its failure for a text."""


@dataclass(frozen=True, slots=True)
class ScoringStage:
    """One way to put texts to a scorer."""

    scorer: Scorer
    template: Template
    rewriter: str | None = None
    """Whose rewrites the texts are; None: responses as they are."""
    synopsis: str | None = None
    """Name of the synopsis that is shown; None: none."""

    async def score_task(
        self, task: Task, texts: Texts, asked: Sequence[Question] | None = None
    ) -> list[LogprobEvidence]:
        """Evidence for the questions, or for every marginal and ordered pair of a task's texts.

        Every question about a missing text is missing too.
        """
        (evidence,) = await score_together([ScoringJob(self, task, texts, _all(texts) if asked is None else asked)])
        return evidence

    async def measure(self, task: Task, texts: Texts, asked: Sequence[Question] | None = None) -> list[LogprobEvidence]:
        """The questions of a task whose texts do not fit, found without asking the scorer anything."""
        measured = [
            (question, await self.request(task, question, texts))
            for question in (_all(texts) if asked is None else asked)
        ]
        return [self.evidence(task, q, r) for q, r in measured if isinstance(r, CallFailure) and r.kind == "too_long"]

    async def request(self, task: Task, question: Question, texts: Texts) -> ScoreRequest | CallFailure:
        """What the scorer is asked, or why it cannot be."""
        target = texts[question.target]
        given = None if question.given is None else texts[question.given]
        for text in (target, given):
            if isinstance(text, CallFailure):
                return text
        synopsis = None if self.synopsis is None else task.synopses.get(self.synopsis)
        if self.synopsis is not None and synopsis is None:
            return CallFailure("no_synopsis", f"task {task.task} has no synopsis {self.synopsis!r}", attempts=0)
        messages = (
            Message("system", self.template.predict),
            Message("user", self.template.question(synopsis, given if isinstance(given, str) else None)),
        )
        try:
            request = await self.scorer.encode(messages, str(target))
        except CallError as error:
            return error.failure
        longest = self.scorer.context_length
        if longest is not None and request.tokens > longest:
            return CallFailure("too_long", f"{request.tokens} tokens, but the context is {longest}", attempts=0)
        return request

    def texts_hash(self, task: Task, question: Question, texts: Texts) -> str | None:
        """What tells apart two questions of the same names about other texts; None where a text is missing."""
        given = "" if question.given is None else texts[question.given]
        synopsis = "" if self.synopsis is None else task.synopses.get(self.synopsis, "")
        target = texts[question.target]
        if isinstance(given, CallFailure) or isinstance(target, CallFailure):
            return None
        return content_hash(synopsis, given, target)[:16]

    def evidence(self, task: Task, question: Question, reply: ScoreReply, texts: str | None = None) -> LogprobEvidence:
        """The reply with everything needed to trust it; ``texts``: the hash of what it is about."""
        failure = reply if isinstance(reply, CallFailure) else None
        return LogprobEvidence(
            scorer=self.scorer.identity.short,
            template=self.template.name,
            rewriter=self.rewriter,
            task=task.task,
            target=question.target,
            given=question.given,
            synopsis=self.synopsis,
            # eight bytes a token: a large study has hundreds of millions of them
            logprobs_nats=None if isinstance(reply, CallFailure) else array("d", reply.logprobs),
            failure=failure,
            texts=texts,
        )


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """Questions about the texts of one task, put in one way."""

    stage: ScoringStage
    task: Task
    texts: Texts
    questions: Sequence[Question]


def _all(texts: Texts) -> list[Question]:
    return list(questions(list(texts)))


async def score_together(jobs: Sequence[ScoringJob]) -> list[list[LogprobEvidence]]:
    """The evidence of each job, all of them asked at once of one scorer, so that what they share is computed once."""
    replies: list[list[ScoreReply | None]] = [[None] * len(job.questions) for job in jobs]
    requests: list[ScoreRequest] = []
    places: list[tuple[int, int]] = []
    for i, job in enumerate(jobs):
        for k, question in enumerate(job.questions):
            request = await job.stage.request(job.task, question, job.texts)
            if isinstance(request, CallFailure):
                replies[i][k] = request
            else:
                requests.append(request)
                places.append((i, k))

    def deliver(found: Mapping[int, ScoreReply]) -> None:
        for number, reply in found.items():
            i, k = places[number]
            replies[i][k] = reply

    if requests:
        await jobs[0].stage.scorer.score(requests, deliver)
    return [
        [
            job.stage.evidence(job.task, question, _there(reply), job.stage.texts_hash(job.task, question, job.texts))
            for question, reply in zip(job.questions, got, strict=True)
        ]
        for job, got in zip(jobs, replies, strict=True)
    ]


def _there(reply: ScoreReply | None) -> ScoreReply:
    return CallFailure("bad_reply", "the scorer delivered nothing for this question") if reply is None else reply


def refuse_too_long(evidence: Sequence[LogprobEvidence], limit: int = 20) -> None:
    """Raise one error that names every task and agent whose texts do not fit; texts are never cut."""
    bad = [row for row in evidence if row.failure is not None and row.failure.kind == "too_long"]
    if not bad:
        return
    lines = [
        f"  task {row.task}: {row.target}{f' given {row.given}' if row.given else ''}: {row.failure.message}"
        for row in bad[:limit]
        if row.failure is not None
    ]
    if len(bad) > limit:
        lines.append(f"  … and {len(bad) - limit} more")
    raise TextTooLongError(
        "\n".join(
            [
                f"{len(bad)} log-probabilities cannot be computed: the texts do not fit the scorer's context:",
                *lines,
                "Use a scorer with a longer context, or --on-too-long skip to count them as missing.",
            ]
        )
    )
