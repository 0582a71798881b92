"""Collection: the evidence that a plan needs, asked of models or recorded in the study.

Models are asked only for evidence that is not there yet: synopses, then rewrites, then log-probabilities; a critic's
verdicts; reviewers' ratings.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
import polars as pl

from goldless import evidence, scoring
from goldless.concurrency import side_by_side
from goldless.errors import TextTooLongError, UserError
from goldless.evidence import (
    CONTROL,
    EXAMS,
    JUDGEMENTS,
    LOGPROBS,
    OPEN_KINDS,
    REWRITES,
    SYNOPSES,
    TOKENS,
    Evidence,
    JudgementEvidence,
)
from goldless.generation import REWRITE_TOKENS, rewrite, write_synopsis
from goldless.judging import exams as exam_items
from goldless.judging.asking import ReviewQuestion, ReviewStage, reads_by_scoring
from goldless.judging.exams import ConfidenceSets, Exam, ExamPair
from goldless.judging.judges import find_critic_prompt
from goldless.judging.planted_pairs import KINDS, PlantedPair, pairs_of_each_kind, planted_pairs, sit_planted
from goldless.judging.scales import Scale, find_scale
from goldless.metrics.likelihood import Wording
from goldless.metrics.metric import Metric, MetricInput
from goldless.metrics.qualification import Qualification
from goldless.metrics.tvd_mi import reading
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.catalogue import is_small
from goldless.models.local_weights.specification import sharing_word
from goldless.records import CallFailure
from goldless.reports.run_record import Spending
from goldless.runs import opening
from goldless.runs.opening import CALLS_AT_ONCE, OpenModel, Part
from goldless.runs.options import PEERS, PLANTED
from goldless.runs.plan import SCORER, SYNOPSIS_WRITER, Need, Preprocessor, RunPlan, Texts, model_name
from goldless.runs.progress import Arrived, nobody
from goldless.runs.recorded import read_recorded, recorded_evidence, recorded_tokens
from goldless.runs.review_evidence import (
    CHANGER,
    CONFIDENCE,
    PAIRWISE,
    ReviewEvidence,
    answered,
    exam_judgements,
    named_reviewers,
    paired_judgements,
    recorded_panel,
    recorded_review,
    review_questions,
    reviewer_stage,
    shown,
    strangers,
)
from goldless.scoring import QUESTIONS_TOGETHER, SCORED, Question, ScoringJob, ScoringStage, WorkedExample, task_groups
from goldless.templates import Template

Job = TypeVar("Job")
TASKS_AT_ONCE = 32
"""Tasks in flight with a server; on this machine they run one after the other."""
QUESTIONS_AT_ONCE = 128
"""Approximate number of questions per batch for a critic or reviewer here; a batch is stored as a whole."""
BATCHES_TOGETHER = 2
"""Batches in flight with such a scorer: while one is computed, the next is made ready and the last one is stored."""
NO_REWRITE = CallFailure("not_recorded", "the study has no rewrite of it", attempts=0)
ASKED = ("template", "rewriter", "synopsis", "task", "target", "given", "texts", "target_task")
"""Columns that identify a log-probability."""
CALL = ("template", "synopsis", "texts")
"""Columns that identify a call to a scorer."""


@asynccontextmanager
async def collecting(plan: RunPlan) -> AsyncIterator[Collection]:
    """The collection of a plan's evidence, with each model opened once and checked before any call."""
    options, parts = plan.options, plan.parts()
    if not parts:
        yield Collection(plan)
        return
    async with (
        opening.open_journal(options.models.journal, options.occasion) as journal,
        opening.open_models(parts, options, journal) as models,
    ):
        _check_models(plan, parts, models)
        names = [part.name for part in parts if part.use == "scoring"]
        if plan.critic and reads_by_scoring(models["critic"].model.capabilities, options.models.verdicts):
            names.append("critic")
        canaries = {name: await check_scorer(models[name].model, journal, models[name].ledger) for name in names}
        yield Collection(plan, models, canaries)


def _check_models(plan: RunPlan, parts: Sequence[Part], models: Mapping[str, OpenModel]) -> None:
    """Refuse models that cannot play their roles, and warn of those that play them badly."""
    for part in parts:
        name, model = part.name, models[part.name]
        if part.use == "scoring":
            opening.refuse_without_scoring(model, [metric.name for metric in plan.likelihood])
            for note in opening.scorer_notes(model.model, plan.options.scoring.chosen_templates(), plan.study):
                warnings.warn(note, stacklevel=2)
        elif plan.rewriting and name.startswith("rewriter"):
            model.require_chat("rewrite responses for gem")
        elif plan.synopses and name == SYNOPSIS_WRITER:
            model.require_chat("write synopses")
    if not plan.critic:
        return
    critic_stage(plan, models["critic"])  # refuses one that cannot give verdicts
    identity = models["critic"].identity
    if is_small(identity):
        warnings.warn(
            f"the {identity.provider} model is too small to be a critic; expect TVD-MI near 0 for all agents. Use a "
            "larger one with --critic",
            stacklevel=2,
        )


def critic_stage(plan: RunPlan, critic: OpenModel) -> ReviewStage:
    """The way a critic is asked."""
    return ReviewStage(
        critic.judge, find_critic_prompt(plan.options.scoring.critic_prompt), verdicts=plan.options.models.verdicts
    )


@dataclass(frozen=True)
class Collection:
    """The models of a run, and what they are asked; without any, its evidence is what is recorded."""

    plan: RunPlan
    models: Mapping[str, OpenModel] = field(default_factory=dict)
    canaries: Mapping[str, CanaryReport] = field(default_factory=dict)
    """By scorer or juror, and of a critic whose verdicts are read from log-probabilities."""
    arrived: Arrived = nobody
    only: AbstractSet[str] | None = None
    """The tasks to ask about; None: all."""
    examined: ReviewEvidence = field(default_factory=ReviewEvidence)
    """Of a review, what is recorded, or the answers to the exams."""
    qualification: Qualification = Qualification((), {}, "all", "equal")  # noqa: RUF009 - it is frozen
    """Of a review, the reviewers who passed."""

    @property
    def voters(self) -> tuple[str, ...]:
        """The reviewers who are asked for judgements: those who passed, or all."""
        return (
            self.qualification.passed
            if self.plan.reviews
            else tuple(named_reviewers(self.plan.options.review.reviewers))
        )

    @property
    def spending(self) -> tuple[Spending, ...]:
        return tuple(model.spending for model in dict.fromkeys(self.models.values()))

    def metric_input(self, evidence: Evidence) -> MetricInput:
        """The input of the metrics."""
        plan, options = self.plan, self.plan.options
        families = dict(options.scoring.juror_families)
        if not options.models.recorded:  # by the names of jurors in the evidence
            parts = {part: one for part, one in plan.jurors.items() if part in self.models}
            named = {self.models[part].identity.short: model_name(one) for part, one in parts.items()}
            families = {short: families[name] for short, name in named.items() if name in families}
        # the usual limit is not said: signatures made before it could be another stay as they were
        limited = plan.rewriting and options.scoring.rewrite_max_tokens != REWRITE_TOKENS
        return MetricInput(
            plan.study,
            evidence,
            plan.peers,
            options.pairing,
            options.comparison.over_peers,
            recorded=options.models.recorded,
            tables={name: read_recorded(plan.study, name) for m in plan.metrics if (name := m.needs.table) is not None},
            settings={"rewrite-max-tokens": str(options.scoring.rewrite_max_tokens)} if limited else {},
            families=families,
            **options.subset("rater_groups", "seed", "resamples", "level"),
        )

    def input_for(self, metric: Metric, data: MetricInput) -> MetricInput:
        """The input of a metric, with the peers that are drawn for it."""
        drawn = self.plan.drawn_peers(metric)
        if drawn is None:
            return data
        need = metric.needs.logprobs
        return replace(
            data,
            pairing=self.plan.pairing(ring=need is not None and need.draws_peers),
            drawn_peers=drawn,
            over_peers="drawn" if data.over_peers == "common" else data.over_peers,
        )

    async def collect(self) -> Evidence:
        """Everything that the plan needs, each stage over the whole study."""
        plan, tables = self.plan, dict[str, Any]()
        if not self.models:
            return self._recorded() if plan.options.models.recorded else Evidence()
        synopses = await self._write_synopses() if plan.synopses else evidence.empty(SYNOPSES)
        rewritten = await self._preprocess() if plan.rewriting else plan.preprocessors
        if rewritten:
            tables["rewrites"] = pl.concat(preprocessor.table for preprocessor in rewritten)
        if plan.likelihood:
            rows = await self._score(rewritten, synopses)
            tables["logprobs"], tables["control"] = by_table(rows.drop(TOKENS))
            tables["with_tokens"] = by_table(rows)[0].select(*LOGPROBS).lazy
        if plan.critic:
            tables["verdicts"] = await self._judge(self.models["critic"])
        if plan.scales:
            judged = [await self._judgements(name, scale) for scale in plan.scales for name in self.voters]
            tables["judgements"] = pl.concat([evidence.empty(JUDGEMENTS), *judged])
        found = Evidence(synopses=synopses, **tables)
        return replace(found, described=self._described(found))

    def _recorded(self) -> Evidence:
        plan, options = self.plan, self.plan.options
        if plan.reviews:
            rows, pairing = self.examined.judgements, options.pairing
            return Evidence(judgements=rows if pairing is None else paired_judgements(rows, pairing))
        found = recorded_evidence(plan.study, options, plan.metrics)
        ratings = [
            recorded_review(
                plan.study,
                scale=scale,
                reviewers=list(map(str, options.review.reviewers)),
                convention=options.labels.convention,
                verb="score",
            ).judgements
            for scale in plan.scales
        ]
        return replace(found, judgements=pl.concat(ratings)) if ratings else found

    def _described(self, found: Evidence) -> dict[str, dict[str, str]]:
        """The description of the evidence in signatures."""
        plan, described = self.plan, {}
        jurors = [part for part in plan.jurors if part != SCORER]
        for table, parts in (("logprobs", [SCORER]), ("jurors", jurors)):
            if parts := [part for part in parts if part in self.canaries]:
                scorers = [self.models[part] for part in parts]
                alone = {**_identity_settings(scorers[0]), "positions": scorers[0].scorer.positions}
                described[table] = {
                    "scorer": "+".join(scorer.identity.short for scorer in scorers),
                    **(alone if len(scorers) == 1 else {}),
                    "noise": f"{max(self.canaries[part].noise_nats for part in parts):.0e}nats",
                }
        if plan.critic:
            critic, noise = self.models["critic"], self.canaries.get("critic")
            described["verdicts"] = {
                "critic": critic.identity.short,
                "prompt": find_critic_prompt(plan.options.scoring.critic_prompt).name,
                **_identity_settings(critic),
                "verdicts": reading(found.verdicts, critic_stage(plan, critic).reading),
                **({} if noise is None else {"noise": f"{noise.noise_nats:.0e}nats"}),
                "shuffles": f"off-diagonal-{plan.shuffles}",
                **({} if plan.options.scoring.budget_calls is None else {"calls": str(len(plan.questions))}),
            }
        return described

    def _report(self, stage: str, total: int, model: OpenModel, ended: int, failed: int = 0) -> None:
        """Report the progress of a stage; what failed for a temporary cause is not done."""
        self.plan.options.progress(model.progress(stage, ended - failed, total, failed))

    # --- texts that models write -------------------------------------------------------------------------------------

    async def _write_synopses(self) -> pl.DataFrame:
        writer, pairing = self.models[SYNOPSIS_WRITER], self.plan.options.pairing
        paired = {task for task, _ in pairing or ()}
        wanted = [
            (task, name)
            for task, _ in self.plan.study.with_peers()
            for name in self.plan.synopses
            if name not in task.synopses and (pairing is None or task.task in paired)
        ]
        made = await self._each("writing synopses", writer, wanted, lambda job: write_synopsis(writer.chat, *job))
        rows = [
            (writer.identity.short, task.task, name, *evidence.text_cells(text))
            for (task, name), text in zip(wanted, made, strict=True)
        ]
        return evidence.rows_frame(rows, SYNOPSES)

    async def _preprocess(self) -> Sequence[Preprocessor]:
        """All rewrites: recorded ones completed by the rewriter, or a full set from each of several rewriters."""
        rewriters = [model for name, model in self.models.items() if name.startswith("rewriter")]
        names = [model.identity.short for model in rewriters]
        if len(set(names)) < len(names):
            raise UserError(f"rewriters must have different names, got {', '.join(names)}")
        return [
            await self._rewrite(rewriter, template, known)
            for rewriter in rewriters
            for template in self.plan.options.scoring.chosen_templates()
            for known in self.plan.preprocessors or (None,)
        ]

    async def _rewrite(self, rewriter: OpenModel, template: Template, known: Preprocessor | None) -> Preprocessor:
        """Rewrites of all responses that have peers: known ones, and the others written now."""
        plan, pairing = self.plan, self.plan.options.pairing
        there = set() if known is None else set(known.table.select("task", "agent").iter_rows())
        paired = {task for task, _ in pairing or ()}
        paired |= {task for key, others in plan.control.items() if key[0] in paired for task in others}
        every = (r for t, rs in plan.study.with_peers() if pairing is None or t.task in paired for r in rs)
        wanted = [r for r in every if (r.task, r.agent) not in there]
        most = plan.options.scoring.rewrite_max_tokens
        texts = await self._each(
            "rewriting", rewriter, wanted, lambda response: rewrite(rewriter.chat, template, response, most)
        )
        by = rewriter.identity.short, template.name
        rows = [(*by, r.task, r.agent, *evidence.text_cells(text)) for r, text in zip(wanted, texts, strict=True)]
        made = evidence.rows_frame(rows, REWRITES)
        return Preprocessor(template.name, made if known is None else pl.concat([known.table, made]))

    async def _each(
        self, stage: str, model: OpenModel, jobs: Sequence[Job], write: Callable[[Job], Awaitable[str | CallFailure]]
    ) -> list[str | CallFailure]:
        """The texts a model writes for the jobs, in their order."""
        ended = failed = 0

        async def one(job: Job) -> str | CallFailure:
            nonlocal ended, failed
            written = await write(job)
            ended += 1
            failed += isinstance(written, CallFailure) and evidence.is_open(written)
            self._report(stage, len(jobs), model, ended, failed)
            return written

        self._report(stage, len(jobs), model, 0)
        return await side_by_side(one, jobs, model.at_once())

    # --- a critic's verdicts -----------------------------------------------------------------------------------------

    async def _judge(self, critic: OpenModel) -> pl.DataFrame:
        asked = [q for q in self.plan.questions if self.only is None or q.task in self.only]
        stage = critic_stage(self.plan, critic)
        verdicts = await self._answers("judging", critic, asked, stage)
        bad = verdicts.filter(pl.col("failure") == "too_long")
        if len(bad) and self.plan.options.scoring.on_too_long == "error":
            row = bad.row(0, named=True)
            raise TextTooLongError(
                f"{len(bad)} of {len(verdicts)} questions do not fit the critic's context; the first is about "
                f"{row['first']} and {row['second']} on {row['task']}: {row['failure_message']}. Use a critic with a "
                "longer context, or count them as missing with --on-too-long skip"
            )
        return verdicts

    async def _answers(
        self, title: str, model: OpenModel, asked: Sequence[ReviewQuestion], stage: ReviewStage, part: str = ""
    ) -> pl.DataFrame:
        """Verdicts or judgements, asked in batches; questions about the same first response stay together."""
        texts, prompts = shown(self.plan.study)
        table, frame = "judgements", evidence.judgements_frame
        if stage.scale.role == "critic":  # the prompt is not shown to one
            table, frame, prompts = "verdicts", evidence.verdicts_frame, {}
        runs = [list(run) for _, run in itertools.groupby(asked, key=lambda question: (question.task, question.first))]
        least = QUESTIONS_AT_ONCE if model.local else CALLS_AT_ONCE * 4
        batches = [
            [question for place in places for question in runs[place]]
            for places in task_groups(list(map(len, runs)), least)
        ]
        complete = [frame([])] * len(batches)
        begun: dict[int, list[JudgementEvidence]] = {}
        made = {_place(one): stage.question(one, texts, prompts) for one in asked}
        # as the journal counts calls: the same texts are asked about once
        calls = {place: one.texts for place, one in made.items() if not isinstance(one, CallFailure)}
        done, failed = set[tuple[str, ...]](), set[tuple[str, ...]]()

        total, each = len(set(calls.values())), stage.calls_each

        def report() -> None:
            self._report(title, total * each, model, len(done) * each, len(failed) * each)

        def so_far() -> pl.DataFrame:
            return pl.concat([frame([]), *complete, *map(frame, begun.values())])

        async def some(place: int) -> None:
            def answered(row: JudgementEvidence) -> None:
                begun.setdefault(place, []).append(row)
                if (about := calls.get(_place(row))) is not None:
                    done.add(about)
                    failed.update([about] * evidence.is_open(row.failure))
                self.arrived(table, part, so_far)
                report()

            how: dict[str, Any] = {"at_once": model.at_once(), "answered": answered}
            complete[place] = frame(await stage.review(batches[place], texts, prompts, **how))
            begun.pop(place, None)

        report()
        await side_by_side(some, range(len(batches)), model.at_once(1))
        return so_far()

    # --- reviewers: their exams, and their judgements ---------------------------------------------------------------

    async def _judgements(self, name: str, scale: Scale) -> pl.DataFrame:
        """The judgements of a reviewer on all responses, or on all pairs, or on those that the options pair."""
        options, model = self.plan.options.changed(scale=scale.name), self.models[name]
        asked = review_questions(self.plan.study, options, name, model.identity.name)
        stage, part = reviewer_stage(options, name, model, scale), f"{name} {scale.name}"
        return await self._answers(f"reviewing by {name}", model, asked, stage, part)

    async def exams(self) -> ReviewEvidence:
        """The answers of all reviewers to all requested exams, or all recorded evidence of a review."""
        plan, study, options = self.plan, self.plan.study, self.plan.options
        if options.models.recorded:
            return recorded_panel(study, options)
        reviewers = tuple(named_reviewers(options.review.reviewers))
        traits, found, every, scale = (
            options.exam.traits,
            [evidence.empty(EXAMS)],
            answered(study),
            options.review.chosen_scale,
        )
        pairwise = scale if scale.pairwise else find_scale(PAIRWISE)
        sittings: list[tuple[Exam, str, Scale, list[ExamPair]]] = []
        if "human exam" in traits:
            sittings.append(("human", "human exam", scale, exam_items.human_pairs(every, plan.people.questioners)))
        drawn: dict[str, Any] = {"items": options.exam.exam_items, "seed": options.statistics.seed}
        if {"consistency", PEERS} & set(traits):
            sittings.append(("consistency", "consistency", pairwise, exam_items.consistency_pairs(every, **drawn)))
        texts, prompts = shown(study)
        items = await self._pertinence_items(every, drawn) if "pertinence" in traits else []
        planted = self._planted_pairs() if PLANTED in traits else []
        for name in reviewers:
            model = self.models[name]
            may, at_once = strangers(study, options, name, model.identity.name), model.at_once()
            for exam, title, on, pairs in sittings:
                mine = [pair for pair in pairs if may >= {pair.first, pair.second}]
                asked = exam_items.both_orders(mine) if on.pairwise else exam_items.single_ratings(mine)
                self._report(f"{title} of {name}", len(mine), model, 0)
                rows = await reviewer_stage(options, name, model, on).review(asked, texts, prompts, at_once=at_once)
                found.append(evidence.exams_frame(exam, rows))
            if PLANTED in traits:
                self._report(f"planted pairs for {name}", 2 * len(planted), model, 0)
                stage = reviewer_stage(options, name, model, pairwise)
                found.append(await sit_planted(stage, planted, at_once=at_once))
            if "pertinence" in traits:
                self._report(f"pertinence of {name}", len(items), model, 0)
                stage = reviewer_stage(options, name, model, pairwise)
                found.append(await exam_items.sit_pertinence(stage, items, at_once=at_once))
        if CONFIDENCE in traits:
            sets = self._confidence_sets(every, pl.concat(found))
            for name in reviewers:
                model, described = (
                    self.models[name],
                    options.review.descriptions.get(name, options.review.task_description),
                )
                self._report(f"{CONFIDENCE} of {name}", 2 * len(sets.easy), model, 0)
                how: dict[str, Any] = {"task_description": described, "verdicts": options.models.verdicts}
                stage = ReviewStage(model.judge, pairwise, reviewer=name, **how)
                at_once = model.at_once()
                found.append(await exam_items.sit_confidence(stage, sets, texts, prompts, at_once=at_once))
        exams = pl.concat(found)
        return ReviewEvidence(reviewers, exam_judgements(exams, "human"), exam_judgements(exams, "consistency"), exams)

    def _planted_pairs(self) -> list[PlantedPair]:
        """Plant pairs from the tasks that have a prompt; refuse a study that allows none of some kind."""
        options = self.plan.options
        texts, prompts = shown(self.plan.study)
        worded_prompts = {task: prompt for task, prompt in prompts.items() if prompt is not None}
        responses = {place: text for place, text in texts.items() if isinstance(text, str)}
        pairs = planted_pairs(
            worded_prompts,
            responses,
            items=pairs_of_each_kind(options.exam.exam_items),
            seed=options.statistics.seed,
        )
        missing_kinds = [kind for kind in KINDS if not any(pair.kind == kind for pair in pairs)]
        if missing_kinds:
            raise UserError(
                f"the exam planted cannot make pairs of the kind {' or '.join(missing_kinds)} from this study: it "
                "needs tasks with different prompts, and responses with a number, a name or a statement to change. "
                "Try --exam consistency"
            )
        return pairs

    async def _pertinence_items(self, every: Mapping[str, Sequence[str]], drawn: Mapping[str, Any]) -> list[Any]:
        options, changer = self.plan.options, self.models.get(CHANGER)
        texts, prompts = shown(self.plan.study)
        most = max(self.plan.study.agents, key=lambda one: sum(one.agent in names for names in every.values())).agent
        relevant = options.exam.relevant or most
        if changer is None:
            irrelevant = options.exam.irrelevant or relevant
            return exam_items.nearest_items(prompts, texts, relevant=relevant, irrelevant=irrelevant, **drawn)
        told: dict[str, Any] = {"instruction": options.review.task_description or None}
        told["at_once"] = changer.at_once()
        return await exam_items.changed_items(changer.chat, prompts, texts, relevant=relevant, **drawn, **told)

    def _confidence_sets(self, every: Mapping[str, Sequence[str]], answers: pl.DataFrame) -> ConfidenceSets:
        options = self.plan.options
        how: dict[str, Any] = {"seed": options.statistics.seed}
        how["items"] = None if options.exam.exam_items is None else max(1, options.exam.exam_items // 2)
        if options.exam.easy is not None and options.exam.hard is not None:
            return exam_items.chosen_sets(every, easy=options.exam.easy, hard=options.exam.hard, **how)
        won: dict[str, list[float]] = {}
        compared = answers.filter(exam="consistency").drop_nulls(["value", "second"])
        for first, second, value in compared.select("first", "second", "value").iter_rows():
            won.setdefault(first, []).append(value)
            won.setdefault(second, []).append(1 - value)
        if not won:
            raise UserError(
                "the self-confidence exam needs an easy and a hard pair of agents. Name them with --easy A,B and "
                "--hard A,C, or add the consistency exam, whose comparisons rank the agents"
            )
        scores = {agent: sum(values) / len(values) for agent, values in won.items()}
        return exam_items.ranked_sets(every, scores, **how)

    # --- log-probabilities -------------------------------------------------------------------------------------------

    async def _score(self, rewritten: Sequence[Preprocessor], synopses: pl.DataFrame) -> pl.DataFrame:
        """Log-probabilities for every question; all ways of asking about one task are scored together."""
        found = [evidence.empty(SCORED)]
        for part, wanted in self.plan.by_scorer(rewritten).items():
            found.append(await self._ask(part, list(self._jobs(part, wanted, synopses))))
        rows = pl.concat(found, rechunk=True)
        if self.plan.options.scoring.on_too_long == "error":
            scoring.refuse_too_long(scoring.too_long(rows))
        return rows

    async def _ask(self, part: str, by_task: Sequence[list[ScoringJob]]) -> pl.DataFrame:
        """The log-probabilities of one scorer: those that the study has, and the others, asked in batches."""
        scorer, options = self.models[part], self.plan.options
        if options.scoring.on_too_long == "error" and scorer.local:
            scoring.refuse_too_long([bad for jobs in by_task for bad in await scoring.unfit(jobs)])
        counts = [sum(len(job.questions) for job in jobs) for jobs in by_task]
        together = scorer.scorer.capabilities.together
        groups = list(task_groups(counts, QUESTIONS_TOGETHER if together else 1))
        keys = [job.key(question) for jobs in by_task for job in jobs for question in job.questions]
        wanted = pl.DataFrame(keys, schema=dict.fromkeys(ASKED, pl.String), orient="row")
        known = self._known(scorer, wanted)
        if have := set(known.select(ASKED).iter_rows()):
            options.say(f"{len(known)} of {len(wanted)} log-probabilities were reused from the study")
            by_task = [[job.without(have) for job in jobs] for jobs in by_task]
        # a batch takes its calls before the next one looks which are left: numbers must not depend on who is faster
        turn = anyio.Lock() if scorer.local else None
        batches = [evidence.empty(SCORED)] * len(groups)
        calls = wanted.select(CALL).n_unique()
        done, failed = set(known.select(CALL).iter_rows()), set[tuple[Any, ...]]()

        async def some(number: int) -> None:
            rows = await scoring.score_together([job for place in groups[number] for job in by_task[place]], turn)
            # per-token values are kept of the tasks' own responses alone
            batches[number] = rows.with_columns(pl.when(pl.col("target_task").is_null()).then(TOKENS))
            done.update(rows.select(CALL).iter_rows())
            failed.update(rows.filter(pl.col("failure").is_in(list(OPEN_KINDS))).select(CALL).iter_rows())
            self.arrived("logprobs", part, lambda: pl.concat([rows.drop(TOKENS) for rows in (known, *batches)]))
            self._report("scoring", calls, scorer, len(done), len(failed))

        self._report("scoring", calls, scorer, len(done))
        in_flight = scorer.at_once(TASKS_AT_ONCE, here=BATCHES_TOGETHER if together else 1)
        await side_by_side(some, range(len(groups)), in_flight)
        rows = pl.concat([known, *batches])
        if not have:
            return rows
        return wanted.join(rows, on=ASKED, how="left", nulls_equal=True, maintain_order="left").select(*SCORED)

    def _known(self, scorer: OpenModel, wanted: pl.DataFrame) -> pl.DataFrame:
        """Those of the log-probabilities that the study has of this scorer and these texts."""
        study = self.plan.study
        if "logprobs" not in study.recorded:
            return evidence.empty(SCORED)
        read_recorded(study, "logprobs")  # rejects impossible values
        usable = pl.col("sum_logprob_nats").is_not_null() & pl.col("texts").is_not_null()
        with study.reading("logprobs"):
            rows = recorded_tokens(study, scorers=[scorer.identity.short]).filter(usable).collect()
        control = read_recorded(study, "control_logprobs").filter(usable, pl.col("scorer") == scorer.identity.short)
        texts = [name for name, kind in CONTROL.items() if kind == pl.String]
        rows = pl.concat([rows, control.cast(dict.fromkeys(texts, pl.String))], how="diagonal")
        return wanted.join(rows, on=ASKED, how="inner", nulls_equal=True).select(*SCORED)

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
        every = [(task, [r.agent for r in responses]) for task, responses in self.plan.study.with_peers()]
        tasks = [each for each in every if self.only is None or each[0].task in self.only]
        # without a synopsis the marginal of another task's response is that task's own
        alone: dict[Wording, dict[str, dict[Question, None]]] = {wording: {} for wording in wanted}
        for wording, need in wanted.items():
            if need.any("control", "marginals") and wording.synopsis is None:
                for q in [q for task, agents in tasks for q in self._elsewhere(task.task, agents, wording, need)]:
                    alone[wording].setdefault(str(q.target_task), {})[Question(q.target, None)] = None
        for task, agents in tasks:
            more = written.get(task.task, {})
            known = replace(task, synopses={**task.synopses, **more}) if more else task
            jobs = []
            for wording, need in wanted.items():
                said = texts[wording]
                asked = self._pairs(task.task, agents, need) + self._alone(task.task, agents, need)
                asked = list(dict.fromkeys(asked))
                mine: dict[Any, str | CallFailure] = {agent: said[task.task, agent] for agent in agents}
                examples: dict[str, list[WorkedExample]] = {}
                if need.examples is not None:
                    asked, examples, shown = need.examples.of(task.task, asked, said)
                    mine |= shown
                asked += [q for q in alone[wording].get(task.task, ()) if q not in set(asked)]
                asked += self._elsewhere(task.task, agents, wording, need)
                mine |= {q.target_key: said[q.target_task, q.target] for q in asked if q.target_task}
                stage = ScoringStage(scorer, need.template, wording.rewriter, wording.synopsis, examples)
                jobs.append(ScoringJob(stage, known, mine, asked))
            yield jobs

    def _alone(self, task: str, agents: Sequence[str], need: Need) -> list[Question]:
        """The responses that are scored, each predicted without another response, where a metric needs no pairs."""
        if all(one.pairs for one in need.wanted):
            return []
        pairing = self.plan.options.pairing
        return [Question(agent, None) for agent in agents if pairing is None or (task, agent) in pairing]

    def _pairs(self, task: str, agents: Sequence[str], need: Need, *flags: str) -> list[Question]:
        """The questions about pairs for the metrics that need all of these; without marginals if flags are named."""
        questions: dict[Question, None] = {}
        for draws_peers in (False, True):
            part = need.of_metrics(draws_peers=draws_peers)
            if not part.any("pairs", *flags):
                continue
            directions = {
                "peers_given_agent": part.any("peers_given_agent", *flags),
                "both_directions": part.any("both_directions", *flags),
            }
            marginals = not flags and part.any("pairs", "marginals")
            peers_of = self._peers_of(task, agents, draws_peers=draws_peers)
            questions |= dict.fromkeys(scoring.questions(agents, peers_of, **directions, marginals=marginals))
        return list(questions)

    def _peers_of(self, task: str, agents: Sequence[str], *, draws_peers: bool) -> dict[str, Sequence[str]] | None:
        pairing, peers = self.plan.pairing(ring=draws_peers), self.plan.peers
        if pairing is not None:
            return {agent: pairing.get((task, agent), ()) for agent in agents}
        return None if peers is None else dict.fromkeys(agents, peers)

    def _elsewhere(self, task: str, agents: Sequence[str], wording: Wording, need: Need) -> list[Question]:
        """Questions of task control about responses to other tasks, under this task's synopsis and responses."""
        if not need.any("control"):
            return []
        pairs = self._pairs(task, agents, need, "control")
        control = self.plan.control
        found = [Question(q.target, q.given, other) for q in pairs for other in control.get((task, q.target), ())]
        if need.any("control", "marginals") and wording.synopsis is not None:
            found += dict.fromkeys(Question(q.target, None, q.target_task) for q in found)
        return found


def _place(one: ReviewQuestion | JudgementEvidence) -> tuple[str | None, ...]:
    """The responses that a question or its answer is about."""
    return one.task, one.first, one.second, one.second_task


def _identity_settings(model: OpenModel) -> dict[str, str]:
    settings = model.identity.settings
    found = {key: settings[key] for key in ("layout", "kernel", "dialect", "dtype") if key in settings}
    sharing = sharing_word(settings)
    return found if sharing is None else {**found, "sharing": sharing}


def by_table(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Log-probabilities, and those of responses to other tasks, from a table of both."""
    matched = pl.col("target_task").is_null()
    return rows.filter(matched).drop("target_task"), rows.filter(~matched).select(*CONTROL)
