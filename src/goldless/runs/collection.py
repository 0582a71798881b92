"""Collection: the evidence that a plan's metrics need, asked of models or recorded in the study.

Models are asked only for evidence that is not there yet: synopses, then rewrites, then log-probabilities; a critic's
verdicts; reviewers' ratings.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import anyio
import polars as pl

from goldless import evidence, scoring
from goldless.concurrency import side_by_side
from goldless.errors import TextTooLongError, UserError
from goldless.evidence import CONTROL, LOGPROBS, OPEN_KINDS, REWRITES, SYNOPSES, TOKENS, Evidence
from goldless.judging.asking import reads_by_scoring
from goldless.judging.critic import CriticStage, find_critic_prompt
from goldless.judging.critic_questions import CriticQuestion
from goldless.metrics.likelihood import Wording
from goldless.metrics.tvd_mi import read_counts, reading
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.catalogue import is_small
from goldless.models.local_weights import sharing_word
from goldless.preprocessing import RewritingStage
from goldless.records import CallFailure, Response, Task
from goldless.runs import opening
from goldless.runs.opening import CALLS_AT_ONCE as CALLS_AT_ONCE  # noqa: PLC0414 - stages of other verbs take it here
from goldless.runs.opening import OpenModel, in_batches
from goldless.runs.plan import SCORER, SYNOPSIS_WRITER, Need, Preprocessor, RunPlan, Texts
from goldless.runs.progress import Arrived, nobody
from goldless.runs.recorded import recorded_control, recorded_evidence, recorded_logprobs, recorded_tokens
from goldless.runs.review_evidence import recorded_review
from goldless.runs.reviewers import ReviewCollector, review_parts
from goldless.scoring import SCORED, Question, ScoringJob, ScoringStage
from goldless.synopses import PROMPTS, SynopsisStage
from goldless.templates import Template

Job = TypeVar("Job")
TASKS_AT_ONCE = 32
"""Tasks in flight with a server; on this machine they run one after the other."""
QUESTIONS_TOGETHER = 2048
"""Questions per batch for a scorer that is faster with many; a larger batch would lose more when a run is stopped."""
BATCHES_TOGETHER = 2
"""Batches in flight with such a scorer: while one is computed, the next is made ready and the last one is stored."""
QUESTIONS_AT_ONCE = 128
"""Approximate number of questions per batch for a critic; a batch is stored as a whole."""
NO_REWRITE = CallFailure("not_recorded", "the study has no rewrite of it", attempts=0)
ASKED = ("template", "rewriter", "synopsis", "task", "target", "given", "texts", "target_task")
"""Columns that identify a log-probability."""


@asynccontextmanager
async def collecting(plan: RunPlan) -> AsyncIterator[Collector]:
    """What collects the evidence of a plan, with each model opened once and checked before any call."""
    options = plan.options
    if not plan.asks_models:
        yield Collector()
        return
    async with (
        opening.open_journal(options.journal, options.occasion) as journal,
        opening.open_models(plan.parts(), options, journal) as models,
    ):
        _check_roles(plan, models)
        scorers = [part for part in models if part == SCORER or part.startswith("juror ")]
        canaries = {part: await check_scorer(models[part].model, journal, models[part].ledger) for part in scorers}
        noise = None
        if plan.critic and reads_by_scoring(models["critic"].model.capabilities, options.verdicts):
            noise = (await check_scorer(models["critic"].model, journal, models["critic"].ledger)).noise_nats
        yield Collector(models, canaries, noise)


def _check_roles(plan: RunPlan, models: Mapping[str, OpenModel]) -> None:
    """Refuse a model that cannot play its role, and warn of a scorer that is asked otherwise than it was trained."""
    for name, model in models.items():
        if name == SCORER or name.startswith("juror "):
            opening.refuse_without_scoring(model, [metric.name for metric in plan.likelihood])
            unlike = opening.layout_note(model.model)
            notes = opening.training_notes(model.model, plan.options.chosen_templates(), plan.study)
            for note in [*notes, *([unlike] if unlike else [])]:
                warnings.warn(note, stacklevel=2)
        if name.startswith("rewriter"):
            opening.refuse_without_chat(model, "rewrite responses for gem")
        if name == SYNOPSIS_WRITER:
            opening.refuse_without_chat(model, "write synopses")
        if name == "critic":
            critic_stage(plan, model)  # refuses one that cannot give verdicts
            if is_small(model.identity):
                warnings.warn(
                    f"the {model.identity.provider} model is too small to be a critic; expect TVD-MI near 0 for all "
                    "agents. Use a larger one with --critic",
                    stacklevel=2,
                )


@dataclass(frozen=True, slots=True)
class Collector:
    """The models of a run; without any, its evidence is what is recorded."""

    models: Mapping[str, OpenModel] = field(default_factory=dict)
    canaries: Mapping[str, CanaryReport] = field(default_factory=dict)
    """By scorer or juror."""
    critic_noise: float | None = None
    """Of the log-probabilities that its verdicts are read from; None: they are not."""

    async def collect(self, plan: RunPlan, arrived: Arrived = nobody) -> Evidence:
        """Everything that a plan needs; ``arrived`` is told of it as it comes."""
        options = plan.options
        if not self.models:
            if not options.recorded:
                return Evidence()
            found = recorded_evidence(plan.study, options, plan.metrics)
            how: dict[str, Any] = {"reviewers": list(map(str, options.reviewers)), "convention": options.convention}
            ratings = [recorded_review(plan.study, scale=scale, **how).judgements for scale in plan.scales]
            return replace(found, judgements=pl.concat(ratings)) if ratings else found
        found = await Collection(plan, self.models, arrived).collect()
        opening.stop_if_waiting(self.models.values())
        return replace(found, described=self._described(plan, found))

    def _described(self, plan: RunPlan, found: Evidence) -> dict[str, dict[str, str]]:
        described = {}
        if SCORER in self.canaries:
            described["logprobs"] = self._scorers([SCORER])
        if jurors := [part for part in plan.jurors if part != SCORER and part in self.canaries]:
            described["jurors"] = self._scorers(jurors)
        if plan.critic:
            critic, noise = self.models["critic"], self.critic_noise
            described["verdicts"] = {
                "critic": critic.identity.short,
                "prompt": find_critic_prompt(plan.options.critic_prompt).name,
                **_identity_settings(critic),
                "verdicts": reading(read_counts(found.verdicts), critic_stage(plan, critic).reading),
                **({} if noise is None else {"noise": f"{noise:.0e}nats"}),
                "shuffles": f"off-diagonal-{plan.shuffles}",
                **({} if plan.options.budget_calls is None else {"calls": str(len(plan.questions))}),
            }
        return described

    def _scorers(self, parts: Sequence[str]) -> dict[str, str]:
        """Settings of log-probabilities; of several jurors, their names and the largest noise."""
        scorers = [self.models[part] for part in parts]
        alone = {**_identity_settings(scorers[0]), "positions": scorers[0].scorer.positions}
        return {
            "scorer": "+".join(scorer.identity.short for scorer in scorers),
            **(alone if len(scorers) == 1 else {}),
            "noise": f"{max(self.canaries[part].noise_nats for part in parts):.0e}nats",
        }


def _identity_settings(model: OpenModel) -> dict[str, str]:
    settings = model.identity.settings
    found = {key: settings[key] for key in ("layout", "kernel", "dialect", "dtype") if key in settings}
    sharing = sharing_word(settings)
    return found if sharing is None else {**found, "sharing": sharing}


def critic_stage(plan: RunPlan, critic: OpenModel) -> CriticStage:
    """How a critic is asked."""
    return CriticStage(critic.judge, find_critic_prompt(plan.options.critic_prompt), plan.options.verdicts)


@dataclass(frozen=True, slots=True)
class Collection:
    """One round of asking: all that the plan needs, each stage over the whole study."""

    plan: RunPlan
    models: Mapping[str, OpenModel]
    arrived: Arrived = nobody
    only: AbstractSet[str] | None = None
    """The tasks to ask about; None: all."""
    scored: dict[int, pl.DataFrame] = field(default_factory=dict)
    """Log-probabilities of the tasks' own responses by batch, with per-token values."""

    async def collect(self) -> Evidence:
        plan, tables = self.plan, dict[str, Any]()
        synopses = await self._write_synopses() if plan.synopses else evidence.empty(SYNOPSES)
        rewritten = await self._preprocess()
        if rewritten:
            tables["rewrites"] = pl.concat(preprocessor.table for preprocessor in rewritten)
        if plan.likelihood:
            tables["logprobs"], tables["control"] = await self._score(rewritten, synopses)
            scored = [evidence.empty(LOGPROBS), *(self.scored[place] for place in sorted(self.scored))]
            tables["with_tokens"] = pl.concat(scored, rechunk=True).lazy
        if plan.critic:
            tables["verdicts"] = await self._judge(self.models["critic"])
        if plan.scales:
            opened = {part.name: self.models[part.name] for part in review_parts(plan.options)}
            asked = [replace(plan.options, scale=scale.name) for scale in plan.scales]
            raters = [ReviewCollector(plan.study, one, opened, arrived=self.arrived) for one in asked]
            tables["judgements"] = pl.concat([await rater.judgements(list(opened)) for rater in raters])
        return Evidence(synopses=synopses, **tables)

    def _report(self, stage: str, ended: int, total: int, model: OpenModel, failed: int = 0) -> None:
        """Report the progress of a stage; what failed for a temporary cause is not done."""
        self.plan.options.progress(model.progress(stage, ended - failed, total, failed))

    @property
    def _paired(self) -> set[str] | None:
        """The tasks of the pairing; None: all."""
        pairing = self.plan.options.pairing
        return None if pairing is None else {task for task, _ in pairing}

    async def _write_synopses(self) -> pl.DataFrame:
        writer, paired = self.models[SYNOPSIS_WRITER], self._paired
        stage = SynopsisStage(writer.chat)
        wanted = [
            (task, name)
            for task, _ in self.plan.study.with_peers()
            for name in self.plan.synopses
            if name in PROMPTS and name not in task.synopses and (paired is None or task.task in paired)
        ]
        made = await self._each("writing synopses", writer, wanted, lambda job: stage.write(*job))
        name_of = writer.identity.short
        rows = [
            (name_of, task.task, name, *evidence.text_cells(text))
            for (task, name), text in zip(wanted, made, strict=True)
        ]
        return evidence.rows_frame(rows, SYNOPSES)

    async def _preprocess(self) -> Sequence[Preprocessor]:
        """All rewrites: recorded ones completed by the rewriter, or a full set from each of several rewriters."""
        plan = self.plan
        if not plan.rewriting:
            return plan.preprocessors
        rewriters = [model for name, model in self.models.items() if name.startswith("rewriter")]
        names = Counter(model.identity.short for model in rewriters)
        if twice := [name for name, count in names.items() if count > 1]:
            raise UserError(f"rewriters must have different names, got {twice[0]} twice")
        return [
            await self._rewrite(rewriter, template, known)
            for rewriter in rewriters
            for template in plan.options.chosen_templates()
            for known in plan.preprocessors or (None,)
        ]

    async def _rewrite(self, rewriter: OpenModel, template: Template, known: Preprocessor | None) -> Preprocessor:
        """Rewrites of all responses that have peers: known ones, and the others written now."""
        stage = RewritingStage(rewriter.chat, template, self.plan.options.rewrite_max_tokens)
        there = set() if known is None else set(known.table.select("task", "agent").iter_rows())
        paired = self._paired
        if paired is not None:
            paired |= {task for key, others in self.plan.control.items() if key[0] in paired for task in others}
        every = (r for t, rs in self.plan.study.with_peers() if paired is None or t.task in paired for r in rs)
        wanted = [r for r in every if (r.task, r.agent) not in there]

        texts = await self._each("rewriting", rewriter, wanted, stage.rewrite)
        by = rewriter.identity.short, template.name
        rows = [(*by, r.task, r.agent, *evidence.text_cells(text)) for r, text in zip(wanted, texts, strict=True)]
        made = evidence.rows_frame(rows, REWRITES)
        return Preprocessor(template.name, made if known is None else pl.concat([known.table, made]))

    async def _each(
        self, stage: str, model: OpenModel, jobs: Sequence[Job], write: Callable[[Job], Awaitable[str | CallFailure]]
    ) -> list[str | CallFailure]:
        """What a model writes for each job, in their order."""
        done: dict[int, str | CallFailure] = {}
        failed = 0

        async def one(place: int) -> None:
            nonlocal failed
            done[place] = written = await write(jobs[place])
            failed += isinstance(written, CallFailure) and evidence.is_open(written)
            self._report(stage, len(done), len(jobs), model, failed)

        self._report(stage, 0, len(jobs), model)
        await side_by_side(one, range(len(jobs)), model.at_once(CALLS_AT_ONCE))
        return [done[place] for place in range(len(jobs))]

    async def _judge(self, critic: OpenModel) -> pl.DataFrame:
        stage, asked = critic_stage(self.plan, critic), self.plan.questions
        if self.only is not None:
            asked = tuple(question for question in asked if question.task in self.only)
        texts: dict[tuple[str, str], str | CallFailure] = {
            (r.task, r.agent): r.text for _, responses in self.plan.study for r in responses
        }
        verdicts = await in_batches(
            critic,
            list(critic_batches(asked, local=critic.local)),
            partial(stage.judge, texts=texts),
            evidence.verdicts_frame,
            arrived=partial(self.arrived, "verdicts", ""),
            report=lambda ended, failed: self._report("judging", ended, len(asked), critic, failed),
        )
        bad = verdicts.filter(pl.col("failure") == "too_long")
        if len(bad) and self.plan.options.on_too_long == "error":
            row = bad.row(0, named=True)
            raise TextTooLongError(
                f"{len(bad)} of {len(verdicts)} questions do not fit the critic's context; the first is about "
                f"{row['first']} and {row['second']} on {row['task']}: {row['failure_message']}. Use a critic with a "
                "longer context, or count them as missing with --on-too-long skip"
            )
        return verdicts

    # --- log-probabilities -----------------------------------------------------------------------------------------

    async def _score(
        self, rewritten: Sequence[Preprocessor], synopses: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Log-probabilities for every question, with those of responses to other tasks separate.

        All ways of asking about one task are scored together.
        """
        found: list[pl.DataFrame] = []
        for part, wanted in self.plan.by_scorer(rewritten).items():
            await self._ask(self.models[part], list(self._jobs(part, wanted, synopses)), found)
        rows = _whole(found)
        if self.plan.options.on_too_long == "error":
            scoring.refuse_too_long(scoring.too_long(rows))
        return by_table(rows)

    async def _ask(self, scorer: OpenModel, by_task: Sequence[list[ScoringJob]], batches: list[pl.DataFrame]) -> None:
        """Add the log-probabilities of one scorer to the batches of others."""
        known, first = self._known(scorer), len(batches)
        if self.plan.options.on_too_long == "error" and scorer.local:
            scoring.refuse_too_long([bad for jobs in by_task for bad in await scoring.unfit(jobs)])
        counts = [sum(len(job.questions) for job in jobs) for jobs in by_task]
        together = scorer.scorer.capabilities.together
        groups = list(task_groups(counts, QUESTIONS_TOGETHER if together else 1))
        # a batch takes its calls before the next one looks which are left: numbers must not depend on who is faster
        turn = anyio.Lock() if scorer.local else None
        batches += [evidence.empty(SCORED)] * len(groups)
        stages = [(job, question) for jobs in by_task for job in jobs for question in job.questions]
        calls = {
            (job.stage.template.name, job.stage.synopsis, job.stage.texts_hash(job.task, question, job.texts))
            for job, question in stages
        }
        taken = 0
        done, failed = set[tuple[Any, ...]](), set[tuple[Any, ...]]()

        async def some(number: int) -> None:
            nonlocal taken
            jobs = [job for place in groups[number] for job in by_task[place]]
            rows, reused = await _score_unknown(jobs, known, turn)
            taken += reused
            asked = rows.select("template", "synopsis", "texts", "failure")
            done.update(asked.drop("failure").iter_rows())
            failed.update(asked.filter(pl.col("failure").is_in(list(OPEN_KINDS))).drop("failure").iter_rows())
            self.scored[first + number] = rows.filter(pl.col("target_task").is_null()).select(*LOGPROBS)
            batches[first + number] = rows.drop(TOKENS)
            self.arrived("logprobs", str(first), lambda: _whole(batches[first:]))
            self._report("scoring", len(done), len(calls), scorer, len(failed))

        self._report("scoring", 0, len(calls), scorer)
        in_flight = scorer.at_once(TASKS_AT_ONCE, here=BATCHES_TOGETHER if together else 1)
        await side_by_side(some, range(len(groups)), in_flight)
        if taken:
            self.plan.options.say(f"{taken} of {sum(counts)} log-probabilities were reused from the study")

    def _known(self, scorer: OpenModel) -> Mapping[str, pl.DataFrame]:
        """By task, log-probabilities recorded in the study for this scorer, with the hash of their texts."""
        study = self.plan.study
        if "logprobs" not in study.recorded:
            return {}
        recorded_logprobs(study)  # rejects impossible values
        usable = pl.col("sum_logprob_nats").is_not_null() & pl.col("texts").is_not_null()
        with study.reading("logprobs"):
            rows = recorded_tokens(study, scorers=[scorer.identity.short]).filter(usable).collect()
        control = recorded_control(study).filter(usable, pl.col("scorer") == scorer.identity.short)
        texts = [name for name, kind in CONTROL.items() if kind == pl.String]
        rows = pl.concat([rows, control.cast(dict.fromkeys(texts, pl.String))], how="diagonal").select(*SCORED)
        return {str(task): mine for (task,), mine in rows.partition_by("task", as_dict=True).items()}

    def _jobs(self, part: str, wanted: Mapping[Wording, Need], synopses: pl.DataFrame) -> Iterator[list[ScoringJob]]:
        """The scoring jobs of a scorer, task by task, in all ways of asking."""
        scorer = self.models[part].scorer
        written: dict[str, dict[str, str]] = {}
        for task, name, text in synopses.drop_nulls("text").select("task", "synopsis", "text").iter_rows():
            written.setdefault(task, {})[name] = text
        raw = {(r.task, r.agent): r.text for _, responses in self.plan.study.with_peers() for r in responses}
        texts: dict[Wording, Texts] = {
            wording: {**dict.fromkeys(raw, NO_REWRITE), **need.preprocessor.texts()} if need.preprocessor else raw
            for wording, need in wanted.items()
        }
        alone = {wording: self._marginals_elsewhere(wording, need) for wording, need in wanted.items()}
        for task, responses in self._tasks():
            more = written.get(task.task, {})
            known = replace(task, synopses={**task.synopses, **more}) if more else task
            agents = [r.agent for r in responses]
            jobs = []
            for wording, need in wanted.items():
                asked = self._pairs(task.task, agents, both_directions=need.both_directions, marginals=need.marginals)
                if need.examples is not None:
                    asked = need.examples.questions(asked)
                examples = {} if need.examples is None else need.examples.shown(task.task, asked)
                asked += [q for q in alone[wording].get(task.task, ()) if q not in set(asked)]
                asked += self._elsewhere(task.task, agents, wording, need)
                stage = ScoringStage(scorer, need.template, wording.rewriter, wording.synopsis, examples)
                mine: dict[Any, str | CallFailure] = {agent: texts[wording][task.task, agent] for agent in agents}
                mine |= {q.target_key: texts[wording][q.target_task, q.target] for q in asked if q.target_task}
                if need.examples is not None:
                    mine |= need.examples.texts(examples, texts[wording])
                jobs.append(ScoringJob(stage, known, mine, asked))
            yield jobs

    def _tasks(self) -> Iterator[tuple[Task, tuple[Response, ...]]]:
        return (each for each in self.plan.study.with_peers() if self.only is None or each[0].task in self.only)

    def _pairs(self, task: str, agents: Sequence[str], *, both_directions: bool, marginals: bool) -> list[Question]:
        pairing = self.plan.options.pairing
        if pairing is None:
            peers = self.plan.peers
            return list(scoring.questions(agents, peers=peers, both_directions=both_directions, marginals=marginals))
        there = set(agents)
        peers_of = {a: [peer for peer in pairing.get((task, a), ()) if peer in there] for a in agents}
        return list(scoring.paired_questions(peers_of, both_directions=both_directions, marginals=marginals))

    def _elsewhere(self, task: str, agents: Sequence[str], wording: Wording, need: Need) -> list[Question]:
        """What task control asks of responses to other tasks, under this task's synopsis and responses."""
        if not need.controlled:
            return []
        pairs = self._pairs(task, agents, both_directions=need.controlled_both, marginals=False)
        control = self.plan.control
        found = [Question(q.target, q.given, other) for q in pairs for other in control.get((task, q.target), ())]
        if need.controlled_marginals and wording.synopsis is not None:
            found += dict.fromkeys(Question(q.target, None, q.target_task) for q in found)
        return found

    def _marginals_elsewhere(self, wording: Wording, need: Need) -> Mapping[str, Iterable[Question]]:
        """Without a synopsis the marginal of another task's response is that task's own: which are needed, by task."""
        found: dict[str, dict[Question, None]] = {}
        if need.controlled_marginals and wording.synopsis is None:
            for task, responses in self._tasks():
                for question in self._elsewhere(task.task, [r.agent for r in responses], wording, need):
                    found.setdefault(str(question.target_task), {})[Question(question.target, None)] = None
        return found


def _whole(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The batches of log-probabilities that are there."""
    return pl.concat([evidence.empty(SCORED).drop(TOKENS), *(rows.drop(TOKENS, strict=False) for rows in batches)])


def by_table(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Log-probabilities, and those of responses to other tasks, from a table of both."""
    matched = pl.col("target_task").is_null()
    return rows.filter(matched).drop("target_task"), rows.filter(~matched).select(*CONTROL)


async def _score_unknown(
    jobs: Sequence[ScoringJob], recorded: Mapping[str, pl.DataFrame], turn: anyio.Lock | None
) -> tuple[pl.DataFrame, int]:
    """The log-probabilities of the jobs, and how many of them were known; only the rest is requested."""
    known = [recorded[task] for task in dict.fromkeys(job.task.task for job in jobs) if task in recorded]
    if not known:
        return await scoring.score_together(jobs, turn), 0
    keys = []
    for job in jobs:
        how = job.stage.template.name, job.stage.rewriter, job.stage.synopsis, job.task.task
        hashed = [(q, job.stage.texts_hash(job.task, q, job.texts)) for q in job.questions]
        keys.append([(*how, q.target, q.given, texts, q.target_task) for q, texts in hashed])
    wanted = pl.DataFrame([key for mine in keys for key in mine], schema=dict.fromkeys(ASKED, pl.String), orient="row")
    there = wanted.join(pl.concat(known), on=ASKED, how="inner", nulls_equal=True).select(*SCORED)
    have = set(there.select(ASKED).iter_rows())
    rest = [
        replace(job, questions=[q for q, key in zip(job.questions, mine, strict=True) if key not in have])
        for job, mine in zip(jobs, keys, strict=True)
    ]
    rows = pl.concat([there, await scoring.score_together(rest, turn)])
    ordered = wanted.join(rows, on=ASKED, how="left", nulls_equal=True, maintain_order="left").select(*SCORED)
    return ordered, len(there)


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


def critic_batches(asked: Sequence[CriticQuestion], *, local: bool) -> Iterator[list[CriticQuestion]]:
    """Questions in order, in batches; those with the same first response stay together."""
    runs = [list(run) for _, run in itertools.groupby(asked, key=lambda question: (question.task, question.first))]
    for places in task_groups(list(map(len, runs)), QUESTIONS_AT_ONCE if local else CALLS_AT_ONCE * 4):
        yield [question for place in places for question in runs[place]]
