"""Scoring: from texts to log-probability evidence, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import CallError, TextTooLongError
from goldless.evidence import LogprobEvidence
from goldless.models.interface import Message, Scorer, ScoreReply, ScoreRequest
from goldless.records import CallFailure, Task
from goldless.templates import Template


@dataclass(frozen=True, slots=True)
class Question:
    """One log-probability to be known."""

    target: str
    given: str | None


def questions(agents: Sequence[str]) -> Iterator[Question]:
    """Every marginal and every ordered pair of the agents that answered a task; nothing where there are no peers."""
    if len(agents) < 2:
        return
    for target in agents:
        yield Question(target, None)
        yield from (Question(target, given) for given in agents if given != target)


@dataclass(frozen=True, slots=True)
class ScoringStage:
    """How texts are put to a scorer."""

    scorer: Scorer
    template: Template
    rewriter: str | None = None
    """Whose rewrites the texts are; None: responses as they are."""
    synopsis: str | None = None

    async def score_task(self, task: Task, texts: Mapping[str, str | CallFailure]) -> list[LogprobEvidence]:
        """Evidence for every marginal and ordered pair of a task's texts, by agent.

        An agent whose text is missing has its failure for a text; every question about it is then missing too.
        """
        asked = list(questions(list(texts)))
        failed: dict[int, CallFailure] = {}
        requests: dict[int, ScoreRequest] = {}
        for i, question in enumerate(asked):
            request = await self._request(task, question, texts)
            if isinstance(request, CallFailure):
                failed[i] = request
            else:
                requests[i] = request
        replies: dict[int, ScoreReply] = {}
        await self.scorer.score(list(requests.values()), replies.update)
        by_question = {i: replies[j] for j, i in enumerate(requests)} | failed
        return [self._evidence(task, question, by_question[i]) for i, question in enumerate(asked)]

    async def measure(self, task: Task, texts: Mapping[str, str | CallFailure]) -> list[LogprobEvidence]:
        """The questions of a task whose texts do not fit, found without asking the scorer anything."""
        measured = [(question, await self._request(task, question, texts)) for question in questions(list(texts))]
        return [self._evidence(task, q, r) for q, r in measured if isinstance(r, CallFailure) and r.kind == "too_long"]

    async def _request(
        self, task: Task, question: Question, texts: Mapping[str, str | CallFailure]
    ) -> ScoreRequest | CallFailure:
        target = texts[question.target]
        given = None if question.given is None else texts[question.given]
        for text in (target, given):
            if isinstance(text, CallFailure):
                return text
        synopsis = None if self.synopsis is None else task.synopses.get(self.synopsis)
        if self.synopsis is not None and synopsis is None:
            return CallFailure("rejected", f"task {task.task} has no synopsis {self.synopsis!r}", attempts=0)
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

    def _evidence(self, task: Task, question: Question, reply: ScoreReply) -> LogprobEvidence:
        failure = reply if isinstance(reply, CallFailure) else None
        return LogprobEvidence(
            scorer=self.scorer.identity.short,
            template=self.template.name,
            rewriter=self.rewriter,
            task=task.task,
            target=question.target,
            given=question.given,
            synopsis=self.synopsis,
            logprobs_nats=None if isinstance(reply, CallFailure) else reply.logprobs,
            failure=failure,
        )


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
