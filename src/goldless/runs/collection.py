"""Collection: the stages that call models, run over a study, only for evidence that is not there yet.

Ways of asking: which templates and whose rewrites the metrics over log-probabilities are asked with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import polars as pl

from goldless.concurrency import side_by_side
from goldless.errors import TextTooLongError, UserError
from goldless.evidence import (
    CONTROL,
    LOGPROBS,
    TOKENS,
    VERDICTS,
    RewriteEvidence,
    SynopsisEvidence,
    VerdictEvidence,
    empty,
    is_open,
    open_rows,
    rewrites_frame,
    synopses_frame,
    verdicts_frame,
)
from goldless.files import EvidenceParts
from goldless.judging.critic import CriticStage
from goldless.judging.critic_questions import CriticQuestion
from goldless.metrics.likelihood import Wording
from goldless.metrics.metric import LogprobNeed, Metric
from goldless.preprocessing import RewritingStage
from goldless.records import CallFailure, Response, Task
from goldless.runs.batches import Batches
from goldless.runs.opening import OpenModel
from goldless.runs.options import Options
from goldless.runs.recorded import recorded_control, recorded_logprobs, recorded_tokens
from goldless.runs.worked_examples import WorkedExamples
from goldless.scoring import (
    SCORED,
    Question,
    ScoringJob,
    ScoringStage,
    paired_questions,
    questions,
    refuse_too_long,
    score_together,
    too_long,
    unfit,
)
from goldless.studies import Study
from goldless.synopses import PROMPTS, SynopsisStage
from goldless.templates import Template

Texts = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent."""
Control = Mapping[tuple[str, str], Sequence[str]]
"""Other tasks for each response that is predicted, by its task and agent."""
Arrived = Callable[[str, str, Callable[[], pl.DataFrame]], None]
"""Called when evidence has arrived: the name of its table and of a part of it, and what makes that part as it is now.

Log-probabilities come with those of responses to other tasks.
"""


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Rewrites of all responses, made by one rewriter with one template."""

    template: str | None
    """Name of the template; None: recorded, and valid for any."""
    table: pl.DataFrame
    """Columns of ``evidence.REWRITES``."""

    @property
    def name(self) -> str:
        """The rewriter."""
        return "+".join(sorted(self.table["rewriter"].unique()))

    def texts(self) -> dict[tuple[str, str], str | CallFailure]:
        """The rewrites, or why one is missing."""
        columns = ("task", "agent", "text", "failure", "failure_message")
        return {
            (task, agent): text or CallFailure(failure or "not_recorded", said or "")
            for task, agent, text, failure, said in self.table.select(columns).iter_rows()
        }


def preprocessors(rewrites: pl.DataFrame) -> list[Preprocessor]:
    """Recorded rewrites by rewriter and template; the last rewrite of a response is used."""
    groups = rewrites.partition_by("rewriter", "template", maintain_order=True) if len(rewrites) else []
    return [
        Preprocessor(rows["template"][0], rows.unique(("task", "agent"), keep="last", maintain_order=True))
        for rows in groups
    ]


@dataclass(slots=True)
class Need:
    """What all metrics together need in one way of asking."""

    template: Template
    preprocessor: Preprocessor | None
    both_directions: bool = False
    marginals: bool = False
    controlled: bool = False
    """Whether the same is asked of responses to other tasks, and below what of it."""
    controlled_both: bool = False
    controlled_marginals: bool = False
    examples: WorkedExamples | None = None
    """The worked examples that are shown first."""


def needs(
    metrics: Iterable[Metric], study: Study, options: Options, rewritten: Sequence[Preprocessor]
) -> dict[Wording, Need]:
    """What the metrics over log-probabilities need, each item once."""
    found: dict[Wording, Need] = {}
    for wanted in (metric.needs.logprobs for metric in metrics):
        if wanted is None:
            continue
        examples = None
        if wanted.worked_examples:
            examples = WorkedExamples(study, options.examples, options.seed, wanted.same)
        for template in options.chosen_templates():
            for preprocessor in _preprocessors(wanted, template, rewritten):
                rewriter = None if preprocessor is None else preprocessor.name
                words = template if examples is None else template.with_examples(options.examples, wanted.same)
                wording = Wording(words.name, rewriter, wanted.synopsis)
                need = found.setdefault(wording, Need(words, preprocessor, examples=examples))
                need.both_directions |= wanted.both_directions
                need.marginals |= wanted.marginals
                need.controlled |= wanted.control
                need.controlled_both |= wanted.control and wanted.both_directions
                need.controlled_marginals |= wanted.control and wanted.marginals
    return found


def _preprocessors(
    wanted: LogprobNeed, template: Template, rewritten: Sequence[Preprocessor]
) -> Sequence[Preprocessor | None]:
    if wanted.text == "responses" or (wanted.text == "rewrites if any" and not rewritten):
        return [None]
    # rewrites made with another prompt are used if there are none with this one
    return [p for p in rewritten if p.template in {None, template.name}] or list(rewritten)


def check_rewriters(names: Sequence[str]) -> None:
    """Reject two rewriters with the same name: their rewrites could not be distinguished."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"rewriters must have different names, got {twice[0]} twice")


TASKS_AT_ONCE = 32
"""Tasks in flight with a server; on this machine they run one after the other."""
CALLS_AT_ONCE = 256
QUESTIONS_TOGETHER = 2048
"""Questions per batch for a scorer that is faster with many; a larger batch would lose more when a run is stopped."""
BATCHES_TOGETHER = 2
"""Batches in flight with such a scorer: while one is computed, the next is made ready and the last one is stored."""
QUESTIONS_AT_ONCE = 128
"""Approximate number of questions per batch for a critic; a batch is stored as a whole."""
NO_REWRITE = CallFailure("not_recorded", "the study has no rewrite of it", attempts=0)
ASKED = ("template", "rewriter", "synopsis", "task", "target", "given", "texts", "target_task")
"""Columns that identify a log-probability."""


def with_peers(study: Study) -> Iterator[tuple[Task, tuple[Response, ...]]]:
    """The tasks that at least two agents answered, with their responses."""
    return ((task, responses) for task, responses in study if len(responses) > 1)


@dataclass(frozen=True, slots=True)
class Collector:
    """A study, and how its evidence is to be collected."""

    study: Study
    options: Options
    parts: EvidenceParts = field(default_factory=EvidenceParts)
    control: Control = field(default_factory=dict)
    only: Collection[str] | None = None
    """The tasks to score; None: all."""
    arrived: Arrived = lambda *_: None

    async def write_synopses(self, writer: OpenModel, names: Sequence[str]) -> pl.DataFrame:
        """Write the synopses of these names that the study does not have."""
        stage = SynopsisStage(writer.chat)
        paired = self._paired
        wanted = [
            (task, name)
            for task, _ in with_peers(self.study)
            for name in names
            if name in PROMPTS and name not in task.synopses and (paired is None or task.task in paired)
        ]
        done: dict[tuple[str, str], SynopsisEvidence] = {}
        finished = failed = 0

        async def one(job: tuple[Task, str]) -> None:
            nonlocal finished, failed
            rows = await stage.write(*job)
            done.update({(row.task, row.synopsis): row for row in rows})
            finished += 1
            failed += any(is_open(row.failure) for row in rows)
            self.report("writing synopses", finished, len(wanted), writer, failed)

        self.report("writing synopses", 0, len(wanted), writer)
        await side_by_side(one, wanted, writer.at_once(CALLS_AT_ONCE))
        return synopses_frame([done[task.task, name] for task, name in wanted])

    async def rewrite(self, rewriter: OpenModel, template: Template, known: Preprocessor | None) -> Preprocessor:
        """Rewrites of all responses that have peers: known ones, and the others written now."""
        stage = RewritingStage(rewriter.chat, template, self.options.rewrite_max_tokens)
        there = set() if known is None else set(known.table.select("task", "agent").iter_rows())
        paired = self._paired
        if paired is not None:
            paired |= {task for key, others in self.control.items() if key[0] in paired for task in others}
        every = (r for task, rs in with_peers(self.study) if paired is None or task.task in paired for r in rs)
        wanted = [r for r in every if (r.task, r.agent) not in there]
        done: dict[Response, RewriteEvidence] = {}
        failed = 0

        async def one(response: Response) -> None:
            nonlocal failed
            done[response] = await stage.rewrite(response)
            failed += is_open(done[response].failure)
            self.report("rewriting", len(done), len(wanted), rewriter, failed)

        self.report("rewriting", 0, len(wanted), rewriter)
        await side_by_side(one, wanted, rewriter.at_once(CALLS_AT_ONCE))
        made = rewrites_frame([done[response] for response in wanted])
        return Preprocessor(template.name, made if known is None else pl.concat([known.table, made]))

    @property
    def _paired(self) -> set[str] | None:
        """The tasks of the pairing; None: all."""
        return None if self.options.pairing is None else {task for task, _ in self.options.pairing}

    def jobs(
        self,
        scorer: Any,
        wanted: Mapping[Wording, Need],
        peers: Sequence[str] | None,
        synopses: pl.DataFrame,
    ) -> Iterator[list[ScoringJob]]:
        """The scoring jobs, task by task, in all ways of asking."""
        written: dict[str, dict[str, str]] = {}
        for task, name, text in synopses.drop_nulls("text").select("task", "synopsis", "text").iter_rows():
            written.setdefault(task, {})[name] = text
        texts = {wording: self._texts(need.preprocessor) for wording, need in wanted.items()}
        alone = {wording: self._marginals_elsewhere(wording, need, peers) for wording, need in wanted.items()}
        for task, responses in self._tasks():
            more = written.get(task.task, {})
            known = replace(task, synopses={**task.synopses, **more}) if more else task
            agents = [r.agent for r in responses]
            jobs = []
            for wording, need in wanted.items():
                asked = self._asked(task.task, agents, need, peers)
                examples = {} if need.examples is None else need.examples.shown(task.task, asked)
                asked += [q for q in alone[wording].get(task.task, ()) if q not in set(asked)]
                asked += self._elsewhere(task.task, agents, wording, need, peers)
                stage = ScoringStage(scorer, need.template, wording.rewriter, wording.synopsis, examples)
                mine = _needed(texts[wording], task.task, agents, asked)
                if need.examples is not None:
                    mine |= need.examples.texts(examples, texts[wording])
                jobs.append(ScoringJob(stage, known, mine, asked))
            yield jobs

    def _tasks(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        return (each for each in with_peers(self.study) if self.only is None or each[0].task in self.only)

    def _texts(self, preprocessor: Preprocessor | None) -> Texts:
        raw = {(r.task, r.agent): r.text for _, responses in with_peers(self.study) for r in responses}
        return raw if preprocessor is None else {**dict.fromkeys(raw, NO_REWRITE), **preprocessor.texts()}

    def _asked(self, task: str, agents: Sequence[str], need: Need, peers: Sequence[str] | None) -> list[Question]:
        asked = self._pairs(task, agents, peers, both_directions=need.both_directions, marginals=need.marginals)
        return asked if need.examples is None else need.examples.questions(asked)

    def _pairs(
        self, task: str, agents: Sequence[str], peers: Sequence[str] | None, *, both_directions: bool, marginals: bool
    ) -> list[Question]:
        pairing = self.options.pairing
        if pairing is None:
            return list(questions(agents, peers=peers, both_directions=both_directions, marginals=marginals))
        there = set(agents)
        peers_of = {a: [peer for peer in pairing.get((task, a), ()) if peer in there] for a in agents}
        return list(paired_questions(peers_of, both_directions=both_directions, marginals=marginals))

    def _elsewhere(
        self, task: str, agents: Sequence[str], wording: Wording, need: Need, peers: Sequence[str] | None
    ) -> list[Question]:
        """What task control asks of responses to other tasks, under this task's synopsis and responses."""
        if not need.controlled:
            return []
        pairs = self._pairs(task, agents, peers, both_directions=need.controlled_both, marginals=False)
        found = [Question(q.target, q.given, other) for q in pairs for other in self.control.get((task, q.target), ())]
        if need.controlled_marginals and wording.synopsis is not None:
            found += dict.fromkeys(Question(q.target, None, q.target_task) for q in found)
        return found

    def _marginals_elsewhere(
        self, wording: Wording, need: Need, peers: Sequence[str] | None
    ) -> Mapping[str, Sequence[Question]]:
        """Without a synopsis the marginal of another task's response is that task's own: which are needed, by task."""
        found: dict[str, dict[Question, None]] = {}
        if need.controlled_marginals and wording.synopsis is None:
            for task, responses in self._tasks():
                for question in self._elsewhere(task.task, [r.agent for r in responses], wording, need, peers):
                    found.setdefault(str(question.target_task), {})[Question(question.target, None)] = None
        return {task: tuple(asked) for task, asked in found.items()}

    async def score(
        self,
        wanted: Sequence[tuple[OpenModel, Mapping[Wording, Need]]],
        peers: Sequence[str] | None,
        synopses: pl.DataFrame,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Log-probabilities for every question, with those of responses to other tasks separate.

        ``wanted``: what each scorer is asked. All ways of asking about one task are scored together.
        """
        found: list[pl.DataFrame] = [empty(SCORED).drop(TOKENS)]
        batches = 0
        for scorer, needed in wanted:
            rows, some = await self._scored(scorer, needed, peers, synopses, batches)
            found.append(rows)
            batches += some
        evidence = pl.concat(found)
        if self.options.on_too_long == "error":
            refuse_too_long(too_long(evidence))
        return by_table(evidence)

    async def _scored(
        self,
        scorer: OpenModel,
        wanted: Mapping[Wording, Need],
        peers: Sequence[str] | None,
        synopses: pl.DataFrame,
        first: int,
    ) -> tuple[pl.DataFrame, int]:
        """The log-probabilities of one scorer, and the number of batches; ``first``: the number of the first batch."""
        known = self._recorded(scorer)
        by_task = list(self.jobs(scorer.scorer, wanted, peers, synopses))
        if self.options.on_too_long == "error" and scorer.local:
            refuse_too_long([bad for jobs in by_task for bad in await unfit(jobs)])
        counts = [sum(len(job.questions) for job in jobs) for jobs in by_task]
        together = scorer.scorer.capabilities.together
        groups = list(task_groups(counts, QUESTIONS_TOGETHER if together else 1))
        # a batch takes its calls before the next one looks which are left: numbers must not depend on who is faster
        turn = anyio.Lock() if scorer.local else None
        found: list[pl.DataFrame] = [empty(SCORED)] * len(groups)
        taken = done = failed = 0

        async def some(number: int) -> None:
            nonlocal taken, done, failed
            jobs = [job for place in groups[number] for job in by_task[place]]
            rows, reused = await _score_unknown(jobs, known, turn)
            taken += reused
            done += len(rows)
            failed += open_rows(rows)
            self.parts.append(
                "logprobs", first + number, rows.filter(pl.col("target_task").is_null()).select(*LOGPROBS)
            )
            found[number] = rows.drop(TOKENS)
            self.arrived("logprobs", str(first), lambda: _whole(found))
            self.report("scoring", done, sum(counts), scorer, failed)

        self.report("scoring", 0, sum(counts), scorer)
        in_flight = scorer.at_once(TASKS_AT_ONCE, here=BATCHES_TOGETHER if together else 1)
        await side_by_side(some, range(len(groups)), in_flight)
        evidence = _whole(found)
        if taken:
            self.options.say(f"{taken} of {len(evidence)} log-probabilities were reused from the study")
        return evidence, len(groups)

    def _recorded(self, scorer: OpenModel) -> Mapping[str, pl.DataFrame]:
        """By task, log-probabilities recorded in the study for this scorer, with the hash of their texts."""
        if "logprobs" not in self.study.recorded:
            return {}
        recorded_logprobs(self.study)  # rejects impossible values
        usable = pl.col("sum_logprob_nats").is_not_null() & pl.col("texts").is_not_null()
        with self.study.reading("logprobs"):
            rows = recorded_tokens(self.study, scorers=[scorer.identity.short]).filter(usable).collect()
        control = recorded_control(self.study).filter(usable, pl.col("scorer") == scorer.identity.short)
        texts = [name for name, kind in CONTROL.items() if kind == pl.String]
        rows = pl.concat([rows, control.cast(dict.fromkeys(texts, pl.String))], how="diagonal").select(*SCORED)
        return {str(task): mine for (task,), mine in rows.partition_by("task", as_dict=True).items()}

    async def judge(self, critic: OpenModel, stage: CriticStage, asked: Sequence[CriticQuestion]) -> pl.DataFrame:
        """The critic's verdicts on all questions."""
        texts: dict[tuple[str, str], str | CallFailure] = {
            (r.task, r.agent): r.text for _, responses in self.study for r in responses
        }
        batches = list(critic_batches(asked, local=critic.local))
        found = Batches(len(batches), VERDICTS, verdicts_frame)

        async def some(place: int) -> None:
            def answered(row: VerdictEvidence) -> None:
                found.add(place, row)
                self.arrived("verdicts", "", found.table)
                self.report("judging", found.ended, len(asked), critic, found.failed)

            at_once = critic.at_once(CALLS_AT_ONCE)
            rows = await stage.judge(batches[place], texts, at_once=at_once, answered=answered)
            self.parts.append("verdicts", place, found.complete(place, rows))

        self.report("judging", 0, len(asked), critic)
        await side_by_side(some, range(len(batches)), critic.at_once(1))
        verdicts = found.table()
        if self.options.on_too_long == "error":
            _refuse_too_long(verdicts)
        return verdicts

    def report(self, stage: str, ended: int, total: int, model: OpenModel, failed: int = 0) -> None:
        """Report the progress of a stage; what failed for a temporary cause is not done."""
        self.options.progress(model.progress(stage, ended - failed, total, failed))


def _whole(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The batches of log-probabilities that are there."""
    return pl.concat([empty(SCORED).drop(TOKENS), *(rows.drop(TOKENS, strict=False) for rows in batches)])


def by_table(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Log-probabilities, and those of responses to other tasks, from a table of both."""
    matched = pl.col("target_task").is_null()
    return rows.filter(matched).drop("target_task"), rows.filter(~matched).select(*CONTROL)


def _needed(texts: Texts, task: str, agents: Sequence[str], asked: Sequence[Question]) -> dict[Any, str | CallFailure]:
    """The texts of a task by agent, and those of other tasks that are asked about by task and agent."""
    own: dict[Any, str | CallFailure] = {agent: texts[task, agent] for agent in agents}
    return own | {q.target_key: texts[q.target_task, q.target] for q in asked if q.target_task is not None}


async def _score_unknown(
    jobs: Sequence[ScoringJob], recorded: Mapping[str, pl.DataFrame], turn: anyio.Lock | None
) -> tuple[pl.DataFrame, int]:
    """The log-probabilities of the jobs, and how many of them were known; only the rest is requested."""
    known = [recorded[task] for task in dict.fromkeys(job.task.task for job in jobs) if task in recorded]
    if not known:
        return await score_together(jobs, turn), 0
    keys = [[_key(job, question) for question in job.questions] for job in jobs]
    wanted = pl.DataFrame([key for mine in keys for key in mine], schema=dict.fromkeys(ASKED, pl.String), orient="row")
    there = wanted.join(pl.concat(known), on=ASKED, how="inner", nulls_equal=True).select(*SCORED)
    have = set(there.select(ASKED).iter_rows())
    rest = [
        replace(job, questions=[q for q, key in zip(job.questions, mine, strict=True) if key not in have])
        for job, mine in zip(jobs, keys, strict=True)
    ]
    rows = pl.concat([there, await score_together(rest, turn)])
    ordered = wanted.join(rows, on=ASKED, how="left", nulls_equal=True, maintain_order="left").select(*SCORED)
    return ordered, len(there)


def _key(job: ScoringJob, question: Question) -> tuple[str | None, ...]:
    stage = job.stage
    texts = stage.texts_hash(job.task, question, job.texts)
    asked = job.task.task, question.target, question.given, texts, question.target_task
    return stage.template.name, stage.rewriter, stage.synopsis, *asked


def task_groups(questions: Sequence[int], least: int) -> Iterator[range]:
    """Groups of consecutive tasks to score in one call, by their numbers of questions.

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


def _refuse_too_long(verdicts: pl.DataFrame) -> None:
    bad = verdicts.filter(pl.col("failure") == "too_long")
    if len(bad):
        row = bad.row(0, named=True)
        raise TextTooLongError(
            f"{len(bad)} of {len(verdicts)} questions do not fit the critic's context; the first is about "
            f"{row['first']} and {row['second']} on {row['task']}: {row['failure_message']}. Use a critic with a "
            "longer context, or count them as missing with --on-too-long skip"
        )


def critic_batches(asked: Sequence[CriticQuestion], *, local: bool) -> Iterator[list[CriticQuestion]]:
    """Questions in order, in batches; those with the same first response stay together."""
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
