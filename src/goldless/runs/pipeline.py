"""The pipeline: the only place that knows the order of the stages.

study → plan → collect → metrics → statistics → results

Collected are synopses, then rewrites, then log-probabilities; a critic's verdicts; exams, then judgements of those who
passed.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from goldless.audit.texts import text_findings
from goldless.errors import GoldlessError, MetricError
from goldless.evidence import SYNOPSES, Evidence, empty, failure_counts
from goldless.files import EvidenceParts
from goldless.judging.asking import reads_by_scoring
from goldless.judging.critic import CriticStage, find_critic_prompt
from goldless.metrics.metric import Given, Metric, Scores, checked_scores
from goldless.metrics.qualification import Qualification
from goldless.metrics.tvd_mi import read_counts, reading
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.catalogue import is_small
from goldless.models.journal import Journal
from goldless.models.local_weights.specification import sharing_word
from goldless.preprocessing import MOST_TOKENS
from goldless.reports.decisions import Stopped
from goldless.reports.run_record import BoardSoFar
from goldless.runs.collection import Arrived, Collector, Preprocessor, by_table, check_rewriters, needs
from goldless.runs.evaluation import Evaluation, MetricOutcome
from goldless.runs.opening import (
    OpenModel,
    Spending,
    layout_note,
    open_journal,
    open_models,
    refuse_without_chat,
    refuse_without_scoring,
    stop_if_waiting,
    training_notes,
)
from goldless.runs.options import Options, check_options, check_review_options
from goldless.runs.outcomes import MetricScores, answer, audit_scores, metric_outcome, rater_scores, signature
from goldless.runs.plan import SCORER, SYNOPSIS_WRITER, RunPlan, model_name, plan_run, with_default_metrics
from goldless.runs.recorded import recorded_wins
from goldless.runs.recorded_evidence import recorded_evidence
from goldless.runs.review_evidence import ReviewEvidence, paired_judgements, recorded_review, what_people_said
from goldless.runs.review_orders import in_asked_orders
from goldless.runs.review_outcome import (
    compare_agents,
    first_ranking,
    qualified,
    review_result,
    without_families,
)
from goldless.runs.review_results import Review
from goldless.runs.review_sweep import sweep
from goldless.runs.reviewers import ReviewCollector, exam_evidence, review_parts
from goldless.runs.rounds import Rounds, asked_until, usd_per_task
from goldless.runs.samples import averaged
from goldless.runs.so_far import Arriving, metric_board, ranking_board
from goldless.statistics.answering import Until
from goldless.studies import Study
from goldless.templates import FIELDS, TEMPLATES


@dataclass(frozen=True, slots=True)
class Collected:
    """Evidence, and the models that gave it."""

    evidence: Evidence = field(default_factory=Evidence)
    models: Mapping[str, OpenModel] = field(default_factory=dict)
    canaries: CanaryReport | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of responses by metric, before ranking."""

    scores: Mapping[str, MetricScores]
    """By metric."""
    collected: Collected
    options: Options
    """As they were when it stopped: with the responses that were scored."""
    stopped: Stopped | None = None
    """Where a run that was to stop early stopped."""

    @property
    def evidence(self) -> Evidence:
        """The evidence behind the scores."""
        return self.collected.evidence

    @property
    def spending(self) -> tuple[Spending, ...]:
        """Calls, tokens and cost of each model."""
        return tuple(model.spending for model in dict.fromkeys(self.collected.models.values()))


Collect = Callable[[RunPlan], Awaitable[Collected]]
"""Collects what a plan needs and what is not there yet."""


async def score_study(study: Study, options: Options) -> Scored:
    """Collect missing evidence and compute the metrics' scores of pairs and responses."""
    options = with_default_metrics(study, replace(options, so_far=None))
    return await _scored(plan_run(study, options, check_options(options)))


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect missing evidence, compute the metrics and rank the agents."""
    options = with_default_metrics(study, options)
    plan = plan_run(study, options, check_options(options))
    agents = study.one_sample_each()
    seen = text_findings(agents)
    for finding in seen:
        options.say(f"warning: {finding.message}")
    scored = await _scored(plan)
    collected, found = scored.collected, scored.scores
    tasks = study.n_tasks_with_peers
    if scored.stopped is not None:
        options, tasks = scored.options, scored.stopped.tasks
    price = usd_per_task(scored.spending, tasks)
    metrics = {
        name: rater_scores(one)
        if one.scores.raters is not None
        else metric_outcome(
            replace(one, scores=averaged(one.scores, study.samples)), agents, options, plan.until, price
        )
        for name, one in found.items()
    }
    outcomes = {name: one for name, one in metrics.items() if isinstance(one, MetricOutcome)}
    evidence = collected.evidence
    open_ = evidence.open if collected.models else 0
    templates = [t for t in options.chosen_templates() if t.name not in TEMPLATES] if plan.likelihood else []
    return Evaluation(
        source=study,
        study=study.name,
        fingerprint=study.fingerprint,
        metrics=metrics,
        findings=(*seen, *audit_scores(agents, outcomes)),
        evidence=evidence,
        asked=evidence.asked,
        open=open_,
        complete=open_ == 0,
        failures=dict(sorted(evidence.failures.items())),
        models={name: model.identity for name, model in collected.models.items()},
        canaries=collected.canaries,
        spending=scored.spending,
        tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2) if plan.needs_peers else (),
        settings={
            "template": ",".join(template.name for template in options.chosen_templates()),
            "seed": str(options.seed),
            "resamples": str(options.resamples),
            **({} if options.compare_groups is None else {"groups": " against ".join(options.compare_groups)}),
        },
        options=plan.options.of_results(),
        stopped=scored.stopped,
        prompts=_critic_words(options) if plan.critic and not options.recorded else {},
        templates={one.name: {part: getattr(one, part) for part in FIELDS} for one in templates},
    )


def _critic_words(options: Options) -> dict[str, str]:
    prompt = find_critic_prompt(options.critic_prompt)
    return {
        prompt.name: "\n\n".join((prompt.opening, prompt.ask, f"{prompt.explain or prompt.decide}{prompt.formats}"))
    }


async def _scored(plan: RunPlan) -> Scored:
    async with _collecting(plan) as collect:
        if plan.until is None:
            scored = await _scores(plan, await collect(plan))
        else:
            scored = await _scored_until(plan, plan.until, collect)
    if plan.options.so_far is not None:
        found = [one for one in scored.scores.values() if one.scores.raters is None]
        plan.options.so_far([metric_board(one.metric, one.scores, plan.study) for one in found])
    return scored


async def _scored_until(plan: RunPlan, until: Until, collect: Collect) -> Scored:
    """Score more and more tasks until the first metric decides the question."""
    metric = plan.metrics[0].name
    agents = plan.study.one_sample_each()
    rounds = Rounds.of(plan.study, plan.options, until, plan.peers)
    while True:
        rounds.grow()
        scored = await _scores(plan.limited(dict(rounds.pairing)), await collect(plan.limited(dict(rounds.pairing))))
        if scored.scores[metric].scores.raters is not None:
            raise MetricError(f"--until compares agents, but {metric} scores raters. Name another metric first")
        scored = replace(scored, scores={name: _limited(one, rounds) for name, one in scored.scores.items()})
        deciding = scored.scores[metric]
        deciding = replace(deciding, scores=averaged(deciding.scores, plan.study.samples))
        found = answer(deciding, agents, until)
        rounds.look(found, over_budget=scored.evidence.failures["budget"] > 0)
        plan.options.say(rounds.answer)
        if rounds.stopped is not None:
            return replace(scored, stopped=rounds.result(metric, scored.spending))


def _limited(found: MetricScores, rounds: Rounds) -> MetricScores:
    """The scores of the responses that are scored: an agent that is decided is only a partner of others."""
    scores = found.scores
    if scores.raters is not None:
        return found
    kept = replace(scores, responses=rounds.scored(scores.responses))
    if scores.by_peer is not None:
        kept = replace(kept, by_peer=rounds.scored(scores.by_peer))
    return replace(found, scores=kept)


async def _scores(plan: RunPlan, collected: Collected) -> Scored:
    options, given = plan.options, _given(plan, collected)
    found = {metric.name: await _metric_scores(metric, given, options) for metric in plan.metrics}
    return Scored(found, collected, options)


def _given(plan: RunPlan, collected: Collected) -> Given:
    """What the metrics are given."""
    study, options = plan.study, plan.options
    # the usual limit is not said: signatures made before it could be another stay as they were
    limited = plan.rewriting and options.rewrite_max_tokens != MOST_TOKENS
    return Given(
        study,
        collected.evidence,
        plan.peers,
        options.pairing,
        options.over_peers,
        options.recorded,
        tables={name: recorded_wins(study, name) for m in plan.metrics if (name := m.needs.table) is not None},
        settings={"rewrite-max-tokens": str(options.rewrite_max_tokens)} if limited else {},
        rater_groups=options.rater_groups,
        families=_families(plan, collected.models),
        seed=options.seed,
        resamples=options.resamples,
        level=options.level,
        say=options.say,
    )


def _families(plan: RunPlan, models: Mapping[str, OpenModel]) -> dict[str, str]:
    """The families of jurors by their names in the evidence."""
    if plan.options.recorded:
        return dict(plan.options.juror_families)
    named = {models[part].identity.short: model_name(juror) for part, juror in plan.jurors.items() if part in models}
    families = plan.options.juror_families
    return {short: families[name] for short, name in named.items() if name in families}


async def _metric_scores(metric: Metric, given: Given, options: Options) -> MetricScores:
    ours = type(metric).__module__.startswith("goldless.")
    try:
        found = metric.scores(given)
        made = await found if inspect.isawaitable(found) else found
    except Exception as error:
        if ours or isinstance(error, GoldlessError):
            raise
        raise MetricError(f"{metric.name}: the metric failed with {type(error).__name__}: {error}") from error
    scores = checked_scores(metric.name, made, given)
    return MetricScores(metric, scores, signature(metric, scores, given, options))


async def review_study(study: Study, options: Options) -> Review:
    """Run the exams, collect judgements of the reviewers who pass, and count their votes."""
    check_review_options(options)
    until = asked_until(options, [agent.agent for agent in study.agents])
    people = what_people_said(study, options)
    scale = options.chosen_scale
    if options.recorded:
        names = [str(name) for name in options.reviewers]
        with_exams = bool(options.traits)
        evidence = recorded_review(
            study, scale=scale, reviewers=names, convention=options.convention, with_exams=with_exams
        )
        evidence = in_asked_orders(options, without_families(study, options, evidence))
        qualification, notes = qualified(study, options, evidence, people)
        swept = sweep(study, options, evidence, people)

        async def read(now: Options) -> pl.DataFrame:
            return paired_judgements(evidence.judgements, now.pairing)

        found = await _reviewed(study, options, evidence, qualification, until=until, judgements=read)
        result = review_result(
            study, found.options, found.evidence, people, qualification, notes=notes, rounds=found.rounds
        )
        return replace(result, sweep=swept)
    async with (
        open_journal(options.journal, options.occasion) as journal,
        open_models(review_parts(options), options, journal) as models,
    ):
        reviewers = ReviewCollector(study, options, models, people.questioners)
        licensed = reviewers.licensed()
        answers = [] if licensed else await reviewers.exams()
        stop_if_waiting(models.values())
        evidence = exam_evidence(list(reviewers.models), answers, scale)
        qualification, notes = (licensed, ()) if licensed else qualified(study, options, evidence, people)

        async def ask(now: Options) -> pl.DataFrame:
            for model in models.values():
                model.round()

            def so_far(tables: dict[str, pl.DataFrame]) -> Sequence[BoardSoFar]:
                return _ranked(study, now, replace(evidence, judgements=tables["judgements"]), qualification)

            arriving = Arriving(so_far, options.so_far)
            asked = ReviewCollector(study, now, models, people.questioners, arriving)
            given = await asked.judgements(qualification.passed)
            stop_if_waiting(models.values())
            return given

        found = await _reviewed(study, options, evidence, qualification, until=until, judgements=ask)
        readings = reviewers.readings(qualification.passed)
    result = review_result(
        study,
        found.options,
        found.evidence,
        people,
        qualification,
        notes=notes,
        models=models,
        readings=readings,
        rounds=found.rounds,
    )
    if options.so_far is not None:
        options.so_far([ranking_board(*one) for one in [*result.rankings.items()][:1]])
    return result


def _ranked(
    study: Study, options: Options, evidence: ReviewEvidence, qualification: Qualification
) -> Sequence[BoardSoFar]:
    """What the panel says so far."""
    ranking = first_ranking(study, options, evidence, qualification)
    return [ranking_board(*one) for one in ranking.items()]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The evidence of a review, the options as they were when it stopped, and the rounds of a question."""

    evidence: ReviewEvidence
    options: Options
    rounds: Rounds | None = None


async def _reviewed(
    study: Study,
    options: Options,
    evidence: ReviewEvidence,
    qualification: Qualification,
    *,
    until: Until | None,
    judgements: Callable[[Options], Awaitable[pl.DataFrame]],
) -> Reviewed:
    """The judgements of all responses, or of more and more tasks until the panel decides the question."""
    if until is None or not qualification.passed:
        return Reviewed(replace(evidence, judgements=await judgements(options)), options)
    rounds = Rounds.of(study, options, until)
    while True:
        rounds.grow()
        now = replace(options, pairing=dict(rounds.pairing))
        found = replace(evidence, judgements=await judgements(now))
        over = failure_counts(found.judgements)["budget"] > 0
        rounds.look(compare_agents(study, now, found, qualification, until), over_budget=over)
        options.say(rounds.answer)
        if rounds.stopped is not None:
            return Reviewed(found, now, rounds)


# --- asking models -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _collecting(plan: RunPlan) -> AsyncIterator[Collect]:
    """What collects everything that the metrics need and that is not there yet, with each model opened once."""
    if not plan.asks_models:
        known = Collected(recorded_evidence(plan)) if plan.options.recorded else Collected()

        async def there(_: RunPlan) -> Collected:
            return known

        yield there
        return
    options = plan.options
    async with (
        open_journal(options.journal, options.occasion) as journal,
        open_models(plan.parts(), options, journal) as models,
    ):
        _check_parts(plan, models)
        _warn_of_scorer(plan, models)
        canaries = {
            part: await check_scorer(models[part].model, journal, models[part].ledger) for part in _scorers(models)
        }
        stage, noise = await _critic_stage(plan, models, journal) if plan.critic else (None, None)

        async def collect(plan: RunPlan) -> Collected:
            for model in models.values():
                model.round()
            found = await collect_evidence(plan, models, canaries=canaries, stage=stage, noise=noise)
            stop_if_waiting(models.values())
            return found

        yield collect


async def collect_evidence(
    plan: RunPlan,
    models: Mapping[str, OpenModel],
    *,
    canaries: Mapping[str, CanaryReport] | None = None,
    stage: CriticStage | None = None,
    noise: float | None = None,
    only: Collection[str] | None = None,
) -> Collected:
    """Collect everything that a plan needs and that is not there yet; ``only``: score no other tasks than these."""
    canaries = canaries or {}
    options, parts = plan.options, EvidenceParts()
    arriving = Arriving(partial(_boards, plan, models), options.so_far)
    collector = Collector(plan.study, options, parts, plan.control, only, arriving)
    synopses = empty(SYNOPSES)
    if plan.synopses:
        synopses = await collector.write_synopses(models[SYNOPSIS_WRITER], plan.synopses)
    rewritten = await _preprocess(plan, collector, models)
    tables: dict[str, Any] = {"synopses": synopses}
    if rewritten:
        tables["rewrites"] = pl.concat(preprocessor.table for preprocessor in rewritten)
    if plan.likelihood:
        wanted = needs(plan.likelihood, plan.study, options, rewritten)
        asked = [(models[part], mine) for part, mine in plan.by_scorer(wanted).items()]
        scored = await collector.score(asked, plan.peers, synopses)
        tables["logprobs"], tables["control"] = scored
        tables["with_tokens"] = partial(parts.scan, "logprobs")
    if stage is not None:
        tables["verdicts"] = await collector.judge(models["critic"], stage, plan.questions)
    if plan.scales:
        tables["judgements"] = await _ratings(plan, models, arriving)
    described = {}
    if SCORER in canaries:
        described["logprobs"] = _scorer_description([models[SCORER]], [canaries[SCORER]])
    if jurors := [part for part in plan.jurors if part != SCORER and part in canaries]:
        described["jurors"] = _scorer_description([models[j] for j in jurors], [canaries[j] for j in jurors])
    if stage is not None:
        described["verdicts"] = _critic_description(plan, models["critic"], stage, tables["verdicts"], noise)
    return Collected(Evidence(**tables, described=described), models, next(iter(canaries.values()), None))


def _scorers(models: Mapping[str, OpenModel]) -> list[str]:
    """The parts that give log-probabilities of responses."""
    return [part for part in models if part == SCORER or part.startswith("juror ")]


async def _ratings(plan: RunPlan, models: Mapping[str, OpenModel], arrived: Arrived) -> pl.DataFrame:
    """The reviewers' ratings of all responses, on each scale."""
    opened = {part.name: models[part.name] for part in review_parts(plan.options)}
    frames = []
    for scale in plan.scales:
        options = replace(plan.options, scale=scale.name)
        collector = ReviewCollector(plan.study, options, opened, arrived=arrived)
        frames.append(await collector.judgements(list(opened)))
    return pl.concat(frames)


EVIDENCE = ("logprobs", "verdicts", "judgements")
"""Needs of metrics that are met by models, each with the table of its name."""


def _boards(plan: RunPlan, models: Mapping[str, OpenModel], tables: dict[str, Any]) -> Sequence[BoardSoFar]:
    """What the metrics whose evidence has begun to arrive say so far."""
    if "logprobs" in tables:
        tables["logprobs"], tables["control"] = by_table(tables["logprobs"])
    given = replace(_given(plan, Collected(Evidence(**tables), models)), say=lambda _: None)
    boards = []
    for metric in plan.metrics:
        asked = {table for table in EVIDENCE if getattr(metric.needs, table) is not None}
        scores = metric.scores(given) if asked and asked <= set(tables) else None
        if isinstance(scores, Scores) and scores.raters is None:
            boards.append(metric_board(metric, checked_scores(metric.name, scores, given), plan.study))
    return [board for board in boards if any(row.tasks for row in board.rows)]


def _check_parts(plan: RunPlan, models: Mapping[str, OpenModel]) -> None:
    """Reject a model that cannot play its role, before any call."""
    for part in _scorers(models):
        refuse_without_scoring(models[part], [metric.name for metric in plan.likelihood])
    for name, model in models.items():
        if name.startswith("rewriter"):
            refuse_without_chat(model, "rewrite responses for gem")
        if name == SYNOPSIS_WRITER:
            refuse_without_chat(model, "write synopses")


def _warn_of_scorer(plan: RunPlan, models: Mapping[str, OpenModel]) -> None:
    """Warn if a scorer was trained with another template, or on tasks that it is to score, or lacks its template."""
    for part in _scorers(models):
        for note in training_notes(models[part].model, plan.options.chosen_templates(), plan.study):
            warnings.warn(note, stacklevel=2)
        if unlike := layout_note(models[part].model):
            warnings.warn(unlike, stacklevel=2)


async def _critic_stage(
    plan: RunPlan, models: Mapping[str, OpenModel], journal: Journal
) -> tuple[CriticStage, float | None]:
    """The critic's stage, and the noise of its log-probabilities if verdicts are read from them."""
    critic, options = models["critic"], plan.options
    scoring = reads_by_scoring(critic.model.capabilities, options.verdicts)
    noise = (await check_scorer(critic.model, journal, critic.ledger)).noise_nats if scoring else None
    if is_small(critic.identity):
        warnings.warn(
            f"the {critic.identity.provider} model is too small to be a critic; expect TVD-MI near 0 for all agents. "
            "Use a larger one with --critic",
            stacklevel=2,
        )
    prompt = find_critic_prompt(options.critic_prompt)
    return CriticStage(critic.judge, prompt, options.verdicts), noise


async def _preprocess(plan: RunPlan, collector: Collector, models: Mapping[str, OpenModel]) -> Sequence[Preprocessor]:
    """All rewrites: recorded ones completed by the rewriter, or a full set from each of several rewriters."""
    if not plan.rewriting:
        return plan.preprocessors
    rewriters = [model for name, model in models.items() if name.startswith("rewriter")]
    check_rewriters([model.identity.short for model in rewriters])
    return [
        await collector.rewrite(rewriter, template, known)
        for rewriter in rewriters
        for template in plan.options.chosen_templates()
        for known in plan.preprocessors or (None,)
    ]


def _identity_settings(model: OpenModel) -> dict[str, str]:
    """Settings of a model for signatures."""
    settings = model.identity.settings
    found = {key: settings[key] for key in ("layout", "kernel", "dialect", "dtype") if key in settings}
    sharing = sharing_word(settings)
    return found if sharing is None else {**found, "sharing": sharing}


def _scorer_description(scorers: Sequence[OpenModel], canaries: Sequence[CanaryReport]) -> dict[str, str]:
    """Settings of log-probabilities for signatures; of several jurors, their names and the largest noise."""
    alone = {**_identity_settings(scorers[0]), "positions": scorers[0].scorer.positions} if len(scorers) == 1 else {}
    return {
        "scorer": "+".join(scorer.identity.short for scorer in scorers),
        **alone,
        "noise": f"{max(report.noise_nats for report in canaries):.0e}nats",
    }


def _critic_description(
    plan: RunPlan, critic: OpenModel, stage: CriticStage, verdicts: pl.DataFrame, noise: float | None
) -> dict[str, str]:
    """Settings of verdicts for signatures."""
    return {
        "critic": critic.identity.short,
        "prompt": stage.prompt.name,
        **_identity_settings(critic),
        "verdicts": reading(read_counts(verdicts), stage.reading),
        **({} if noise is None else {"noise": f"{noise:.0e}nats"}),
        "shuffles": f"off-diagonal-{plan.shuffles}",
        **({} if plan.options.budget_calls is None else {"calls": str(len(plan.questions))}),
    }
