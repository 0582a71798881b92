"""Collecting: the stages that ask models, run over a study, only for what is not there yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goldless.errors import TextTooLongError
from goldless.evidence import LogprobEvidence, RewriteEvidence, SynopsisEvidence, VerdictEvidence
from goldless.judging.asking import side_by_side
from goldless.judging.critic import CriticStage
from goldless.judging.shuffling import CriticQuestion
from goldless.preprocessing import RewritingStage
from goldless.records import CallFailure, Response, Task
from goldless.runs.opening import OpenModel
from goldless.runs.options import Options, Progress
from goldless.runs.recorded import recorded_logprobs
from goldless.runs.wordings import Need, Preprocessor, RewritesByResponse, Wording
from goldless.scoring import (
    Question,
    ScoringJob,
    ScoringStage,
    paired_questions,
    questions,
    refuse_too_long,
    score_together,
)
from goldless.studies import Study
from goldless.synopses import PROMPTS, SynopsisStage
from goldless.templates import Template

TASKS_AT_ONCE = 32
"""Tasks in flight with a server; on this machine one after the other."""
CALLS_AT_ONCE = 256
QUESTIONS_TOGETHER = 2048
"""Tasks are put together to a scorer that is faster with many, until there are so many questions: more would be lost
where the run is stopped."""
QUESTIONS_AT_ONCE = 128
"""A critic's questions are put in batches of about so many: what a batch computes is kept together or not at all."""

Asked = tuple[str, str | None, str | None, str, str, str | None, str | None]
"""Template, rewriter, synopsis, task, target, given, and the hash of the texts."""
WrittenSynopses = Mapping[tuple[str, str], SynopsisEvidence]
"""By task and name."""


def with_peers(study: Study) -> Iterator[tuple[Task, tuple[Response, ...]]]:
    """The tasks that at least two agents answered, with their responses."""
    return ((task, responses) for task, responses in study if len(responses) > 1)


@dataclass(frozen=True, slots=True)
class Collector:
    """A study, and how its evidence is to be collected."""

    study: Study
    options: Options

    async def write_synopses(self, writer: OpenModel, names: Sequence[str]) -> dict[tuple[str, str], SynopsisEvidence]:
        """The synopses of these names that the study lacks and a model can write."""
        stage = SynopsisStage(writer.chat)
        wanted = [
            (task, name)
            for task, _ in with_peers(self.study)
            for name in names
            if name in PROMPTS and name not in task.synopses
        ]
        done: dict[tuple[str, str], SynopsisEvidence] = {}
        finished = 0

        async def one(task: Task, name: str) -> None:
            nonlocal finished
            for row in await stage.write(task, name):
                done[row.task, row.synopsis] = row
            finished += 1
            self._report("writing synopses", finished, len(wanted), writer)

        await at_once(1 if writer.local else CALLS_AT_ONCE, [_later(one, *job) for job in wanted])
        return {(task.task, name): done[task.task, name] for task, name in wanted}

    async def rewrite(self, rewriter: OpenModel, template: Template, known: RewritesByResponse) -> Preprocessor:
        """Rewrites of all responses that have peers: those that are known, and the others made now."""
        stage = RewritingStage(rewriter.chat, template, self.options.rewrite_max_tokens)
        wanted = [r for _, rs in with_peers(self.study) for r in rs if (r.task, r.agent) not in known]
        done: dict[tuple[str, str], RewriteEvidence] = dict(known)
        finished = 0

        async def one(response: Response) -> None:
            nonlocal finished
            done[response.task, response.agent] = await stage.rewrite(response)
            finished += 1
            self._report("rewriting", finished, len(wanted), rewriter)

        await at_once(1 if rewriter.local else CALLS_AT_ONCE, [_later(one, r) for r in wanted])
        order = [(r.task, r.agent) for _, rs in self.study for r in rs]
        return Preprocessor(template.name, {key: done[key] for key in order if key in done})

    def jobs(
        self,
        scorer: Any,
        wanted: Mapping[Wording, Need],
        peers: Sequence[str] | None,
        written: WrittenSynopses,
    ) -> Iterator[list[ScoringJob]]:
        """What is to be scored, task by task, in all ways of asking."""
        by_task: dict[str, dict[str, str]] = {}
        for (of, name), row in written.items():
            if row.text:
                by_task.setdefault(of, {})[name] = row.text
        for task, responses in with_peers(self.study):
            synopses = by_task.get(task.task, {})
            known = replace(task, synopses={**task.synopses, **synopses}) if synopses else task
            yield [
                ScoringJob(
                    ScoringStage(scorer, need.template, wording.rewriter, wording.synopsis),
                    known,
                    _texts(responses, None if need.preprocessor is None else need.preprocessor.rewrites),
                    self._asked(task.task, [r.agent for r in responses], need, peers),
                )
                for wording, need in wanted.items()
            ]

    def _asked(self, task: str, agents: Sequence[str], need: Need, peers: Sequence[str] | None) -> list[Question]:
        pairing = self.options.pairing
        if pairing is None:
            return list(questions(agents, peers=peers, both_directions=need.both_directions, marginals=need.marginals))
        there = set(agents)
        peers_of = {a: [peer for peer in pairing.get((task, a), ()) if peer in there] for a in agents}
        return list(paired_questions(peers_of, both_directions=need.both_directions, marginals=need.marginals))

    async def score(
        self,
        scorer: OpenModel,
        wanted: Mapping[Wording, Need],
        peers: Sequence[str] | None,
        written: WrittenSynopses,
    ) -> list[LogprobEvidence]:
        """Evidence for every question, all ways of asking about one task put to the scorer together."""
        known = self._recorded(scorer)
        by_task = list(self.jobs(scorer.scorer, wanted, peers, written))
        if self.options.on_too_long == "error" and scorer.local:
            unfit = [
                row
                for jobs in by_task
                for job in jobs
                for row in await job.stage.measure(job.task, job.texts, job.questions)
            ]
            refuse_too_long(unfit)
        total = sum(len(job.questions) for jobs in by_task for job in jobs)
        found: dict[int, list[list[LogprobEvidence]]] = {}
        finished = 0

        async def some(places: range) -> None:
            nonlocal finished
            rows = iter(await _score_unknown([job for place in places for job in by_task[place]], known))
            for place in places:
                found[place] = [next(rows) for _ in by_task[place]]
                finished += sum(map(len, found[place]))
            self._report("scoring", finished, total, scorer)

        together = QUESTIONS_TOGETHER if scorer.scorer.capabilities.together else 1
        groups = task_groups([sum(len(job.questions) for job in jobs) for jobs in by_task], together)
        await at_once(1 if scorer.local else TASKS_AT_ONCE, [_later(some, places) for places in groups])
        evidence = [row for w in range(len(wanted)) for place in range(len(by_task)) for row in found[place][w]]
        taken = sum(_evidence_key(row) in known for row in evidence)
        if taken:
            self.options.say(f"{taken} of {len(evidence)} log-probabilities are the study's own, taken as they are")
        if self.options.on_too_long == "error":
            refuse_too_long(evidence)
        return evidence

    def _recorded(self, scorer: OpenModel) -> dict[Asked, LogprobEvidence]:
        """Log-probabilities of this very scorer that the study carries, with the hash of the texts they are about."""
        rows = recorded_logprobs(self.study) if "logprobs" in self.study.recorded else []
        return {
            _evidence_key(row): row
            for row in rows
            if row.scorer == scorer.identity.short and row.sum_nats is not None and row.texts is not None
        }

    async def judge(
        self, critic: OpenModel, stage: CriticStage, asked: Sequence[CriticQuestion]
    ) -> list[VerdictEvidence]:
        """The critic's verdicts on all questions."""
        texts: dict[tuple[str, str], str | CallFailure] = {
            (r.task, r.agent): r.text for _, responses in self.study for r in responses
        }
        found: list[VerdictEvidence] = []
        flight = 1 if critic.local else CALLS_AT_ONCE
        for batch in critic_batches(asked, local=critic.local):
            found += await stage.judge(batch, texts, at_once=flight)
            self._report("judging", len(found), len(asked), critic)
        if self.options.on_too_long == "error":
            _refuse_too_long(found)
        return found

    def _report(self, stage: str, done: int, total: int, model: OpenModel) -> None:
        usage, price = model.ledger.usage, model.ledger.price
        cost = None if price is None else model.ledger.spent_usd
        self.options.progress(Progress(stage, done, total, usage.input_tokens + usage.output_tokens, cost))


async def _score_unknown(
    jobs: Sequence[ScoringJob], known: Mapping[Asked, LogprobEvidence]
) -> list[list[LogprobEvidence]]:
    """The evidence of each job; what is known is taken as it is, only the rest is asked for."""
    keys = [[_key(job, question) for question in job.questions] for job in jobs]
    rest = [
        replace(job, questions=[q for q, key in zip(job.questions, mine, strict=True) if key not in known])
        for job, mine in zip(jobs, keys, strict=True)
    ]
    asked = [iter(rows) for rows in await score_together(rest)]
    return [
        [known[key] if key in known else next(rows) for key in mine] for mine, rows in zip(keys, asked, strict=True)
    ]


def task_groups(questions: Sequence[int], least: int) -> Iterator[range]:
    """Consecutive tasks that are asked about in one call, by their numbers of questions.

    A group ends where it has ``least`` questions, so with 1 every task that asks something is its own.
    """
    first = asked = 0
    for place, count in enumerate(questions):
        asked += count
        if asked >= least:
            yield range(first, place + 1)
            first, asked = place + 1, 0
    if first < len(questions):
        yield range(first, len(questions))


def _evidence_key(row: LogprobEvidence) -> Asked:
    return row.template, row.rewriter, row.synopsis, row.task, row.target, row.given, row.texts


def _key(job: ScoringJob, question: Question) -> Asked:
    stage = job.stage
    texts = stage.texts_hash(job.task, question, job.texts)
    return stage.template.name, stage.rewriter, stage.synopsis, job.task.task, question.target, question.given, texts


def _refuse_too_long(verdicts: Sequence[VerdictEvidence]) -> None:
    bad = [(row, row.failure) for row in verdicts if row.failure is not None and row.failure.kind == "too_long"]
    if bad:
        row, failure = bad[0]
        raise TextTooLongError(
            f"{len(bad)} of {len(verdicts)} questions do not fit the critic's context, the first about {row.first} and "
            f"{row.second} on {row.task}: {failure.message}. Use a critic with a longer context, or --on-too-long skip "
            "to count them as missing."
        )


def _texts(responses: Sequence[Response], rewrites: RewritesByResponse | None) -> dict[str, str | CallFailure]:
    """What is scored, by agent."""
    if rewrites is None:
        return {response.agent: response.text for response in responses}
    absent = CallFailure("not_recorded", "the study carries no rewrite of it", attempts=0)
    rows = [rewrites.get((response.task, response.agent)) for response in responses]
    return {
        response.agent: absent if row is None else row.text or row.failure or absent
        for response, row in zip(responses, rows, strict=True)
    }


def critic_batches(asked: Sequence[CriticQuestion], *, local: bool) -> Iterator[list[CriticQuestion]]:
    """Questions in order, in batches to be put together; those about one first response stay together."""
    size = QUESTIONS_AT_ONCE if local else CALLS_AT_ONCE * 4
    batch: list[CriticQuestion] = []
    for question in asked:
        new = not batch or (question.task, question.first) != (batch[-1].task, batch[-1].first)
        if new and len(batch) >= size:
            yield batch
            batch = []
        batch.append(question)
    if batch:
        yield batch


def _later(work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: work(*arguments)


async def at_once(limit: int, jobs: Sequence[Callable[[], Any]]) -> None:
    """Run all jobs, at most ``limit`` at a time."""
    await side_by_side(lambda place: jobs[place](), range(len(jobs)), limit)
