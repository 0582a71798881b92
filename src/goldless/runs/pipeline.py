"""The pipeline: the only place that knows the order of the stages.

study → plan → collect → scores → estimates → result

Live and recorded runs differ only in where evidence is collected from. A run that stops early goes through the same
steps in rounds, each with more tasks. A review goes through them too: its exams are a step of collecting, and its
scores are the votes of those who pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import polars as pl

from goldless.audit.texts import text_findings
from goldless.errors import GoldlessError, MetricError
from goldless.evidence import Evidence
from goldless.generation import REWRITE_TOKENS
from goldless.judging.judges import find_critic_prompt
from goldless.metrics.metric import Given, Metric, Scores, checked_scores
from goldless.reports.findings import comparative
from goldless.reports.leaderboard import RaterScores
from goldless.reports.run_record import BoardSoFar, Spending
from goldless.runs import evaluation, review_outcome
from goldless.runs.collection import Collection, by_table, collecting
from goldless.runs.evaluation import Evaluation, MetricOutcome, MetricScores
from goldless.runs.opening import stop_if_waiting
from goldless.runs.options import Options
from goldless.runs.plan import Rounds, RunPlan, model_name, plan_review, plan_run, usd_per_task
from goldless.runs.progress import Arriving
from goldless.runs.recorded import read_recorded
from goldless.runs.review_outcome import Review, Votes, ranking_boards
from goldless.statistics.bootstrap import Draws
from goldless.statistics.comparisons import Comparison, all_pairs
from goldless.studies import Study
from goldless.templates import FIELDS, TEMPLATES

EVIDENCE = ("logprobs", "verdicts", "judgements")
"""Needs of metrics that are met by models, each with the table of its name."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The yield of a plan, before ranking."""

    collected: Collection
    """With the plan as it was when it stopped."""
    evidence: Evidence
    scores: Mapping[str, MetricScores]
    """By metric; a review has none, but votes."""
    notes: Sequence[str] = ()
    """On who may vote."""
    rounds: Rounds | None = None
    """Those of a run that was to stop early."""

    @property
    def spending(self) -> tuple[Spending, ...]:
        return tuple(model.spending for model in dict.fromkeys(self.collected.models.values()))


async def score_study(study: Study, options: Options) -> Scored:
    """Collect missing evidence and compute the metrics' scores of pairs and responses."""
    return await _scored(plan_run(study, replace(options, so_far=None)))


async def evaluate_study(study: Study, options: Options) -> Evaluation:
    """Collect missing evidence, compute the metrics and rank the agents."""
    plan = plan_run(study, options)
    seen = text_findings(plan.agents)
    for finding in seen:
        options.say(f"warning: {finding.message}")
    if options.so_far is not None and (at_once := _boards(Collection(plan), {})):
        options.so_far(at_once)
    scored = await _scored(plan)
    evidence, models, rounds = scored.evidence, scored.collected.models, scored.rounds
    stopped = None if rounds is None else rounds.result(plan.metrics[0].name, scored.spending)
    ranking = plan.asked if stopped is None else scored.collected.plan.options
    price = usd_per_task(scored.spending, study.n_tasks_with_peers if stopped is None else stopped.tasks)
    metrics: dict[str, MetricOutcome | RaterScores] = {}
    for name, one in scored.scores.items():
        if one.raters is None:
            of_agents = evaluation.averaged(one, study.samples)
            metrics[name] = evaluation.metric_outcome(of_agents, plan.agents, ranking, plan.until, price)
        else:
            criteria = {criterion or "": found for criterion, found in one.raters.items()}
            metrics[name] = RaterScores(name, str(one.signature), criteria)
    outcomes = {name: one for name, one in metrics.items() if isinstance(one, MetricOutcome)}
    open_ = evidence.open if models else 0
    templates, prompts = options.chosen_templates(), {}
    if plan.critic and not options.recorded:
        words = find_critic_prompt(options.critic_prompt)
        prompts[words.name] = f"{words.opening}\n\n{words.closing_explained or words.closing}"
    return Evaluation(
        source=study,
        study=study.name,
        fingerprint=study.fingerprint,
        metrics=metrics,
        findings=(*seen, *evaluation.audit_scores(plan.agents, outcomes)),
        evidence=evidence,
        asked=evidence.asked,
        open=open_,
        complete=open_ == 0,
        failures=dict(sorted(evidence.failures.items())),
        models={name: model.identity for name, model in models.items()},
        canaries=next((one for part, one in scored.collected.canaries.items() if part != "critic"), None),
        spending=scored.spending,
        tasks_without_peers=tuple(t for t in study.tasks if len(study.responses(t)) < 2) if plan.needs_peers else (),
        settings={
            "template": ",".join(template.name for template in templates),
            "seed": str(options.seed),
            "resamples": str(options.resamples),
            **({} if options.compare_groups is None else {"groups": " against ".join(options.compare_groups)}),
        },
        options=plan.options.of_results(),
        stopped=stopped,
        prompts=prompts,
        templates={
            one.name: {part: getattr(one, part) for part in FIELDS}
            for one in templates
            if plan.likelihood and one.name not in TEMPLATES
        },
    )


async def review_study(study: Study, options: Options) -> Review:
    """Run the exams, collect judgements of the reviewers who pass, and count their votes."""
    plan = plan_review(study, options)
    scored = await _scored(plan)
    collected, votes = scored.collected, _votes(scored.collected, scored.evidence.judgements)
    found = review_outcome.review_result(votes, scored.notes, collected.models, scored.rounds)
    swept = review_outcome.sweep(plan, collected.examined) if options.recorded else ()
    return replace(found, sweep=swept)


async def _scored(plan: RunPlan) -> Scored:
    """The scores of all tasks, or of more and more until the question of ``--until`` is decided."""
    options, notes = plan.options, list[str]()
    async with collecting(plan) as opened:
        collection = opened
        if plan.reviews:
            examined = await opened.exams()
            stop_if_waiting(opened.models.values())
            passed, notes = review_outcome.qualified(plan, examined, opened.models)
            collection = replace(opened, examined=examined, qualification=passed)
        nobody = plan.reviews and not collection.voters
        rounds = None if plan.until is None or nobody else Rounds(plan, plan.until)
        for now in [plan] if rounds is None else map(plan.limited, rounds.pairings()):
            asked = replace(collection, plan=now)
            asked = replace(asked, arrived=Arriving(partial(_boards, asked), options.so_far))
            evidence = await asked.collect()
            stop_if_waiting(collection.models.values())
            given = _given(asked, evidence)
            scores = {metric.name: await _metric_scores(metric, given, now.options) for metric in now.metrics}
            scored = Scored(asked, evidence, scores, notes, rounds)
            if rounds is not None:
                scored = _looked(scored, rounds)
    if options.so_far is not None:
        ranked = [one for one in scored.scores.values() if one.raters is None]
        boards = [evaluation.metric_board(one.metric, one, plan.study) for one in ranked]
        options.so_far(_boards(asked, {"judgements": evidence.judgements}) if plan.reviews else boards)
    return scored


def _looked(scored: Scored, rounds: Rounds) -> Scored:
    """The scores of a round, of the responses that it is to score; votes or the first metric tell whether to stop."""
    plan, scores = scored.collected.plan, {}
    for name, one in scored.scores.items():
        scores[name] = one
        if one.raters is None:  # an agent that is decided is only a partner of others
            by_peer = None if one.by_peer is None else rounds.scored(one.by_peer)
            scores[name] = replace(one, responses=rounds.scored(one.responses), by_peer=by_peer)
    if plan.reviews:
        found: Sequence[Comparison] = _votes(scored.collected, scored.evidence.judgements).comparisons(rounds.until)
    else:
        first = plan.metrics[0].name
        if scores[first].raters is not None:
            raise MetricError(f"--until compares agents, but {first} scores raters. Name another metric first")
        responses = evaluation.averaged(scores[first], plan.study.samples).responses
        pairs = all_pairs(evaluation.score_table(responses, plan.agents))
        found = rounds.until.compare([agent.agent for agent in plan.agents.agents], pairs)
    rounds.look(found, over_budget=scored.evidence.failures["budget"] > 0)
    plan.options.say(rounds.answer)
    return replace(scored, scores=scores)


def _votes(collection: Collection, judgements: pl.DataFrame) -> Votes:
    return Votes(collection.plan, replace(collection.examined, judgements=judgements), collection.qualification)


def _given(collection: Collection, evidence: Evidence) -> Given:
    plan, models = collection.plan, collection.models
    study, options = plan.study, plan.options
    families = dict(options.juror_families)
    if not options.recorded:  # by the names of jurors in the evidence
        named = {models[part].identity.short: model_name(one) for part, one in plan.jurors.items() if part in models}
        families = {short: families[name] for short, name in named.items() if name in families}
    # the usual limit is not said: signatures made before it could be another stay as they were
    limited = plan.rewriting and options.rewrite_max_tokens != REWRITE_TOKENS
    return Given(
        study,
        evidence,
        plan.peers,
        options.pairing,
        options.over_peers,
        options.recorded,
        tables={name: read_recorded(study, name) for m in plan.metrics if (name := m.needs.table) is not None},
        settings={"rewrite-max-tokens": str(options.rewrite_max_tokens)} if limited else {},
        families=families,
        **options.some("rater_groups", "seed", "resamples", "level", "say"),
    )


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
    parts = {part.name: getattr(scores, part.name) for part in fields(scores)}
    return MetricScores(**parts, metric=metric, signature=evaluation.signature(metric, scores, given, options))


def _boards(collection: Collection, tables: dict[str, Any]) -> Sequence[BoardSoFar]:
    """Interim leaderboards of length, which needs none, and of the metrics whose evidence has begun to arrive."""
    plan = collection.plan
    if plan.reviews:  # the intervals of votes are not shown
        draws: Draws = {"seed": plan.options.seed, "resamples": 1}
        return ranking_boards(_votes(collection, tables["judgements"]).rankings(draws, only_first=True))
    if "logprobs" in tables:
        tables["logprobs"], tables["control"] = by_table(tables["logprobs"])
    given, boards = replace(_given(collection, Evidence(**tables)), say=lambda _: None), []
    for metric in plan.metrics:
        asked = {table for table in EVIDENCE if getattr(metric.needs, table) is not None}
        ready = asked <= set(tables) if asked else comparative(metric.name) == "longer"
        scores = metric.scores(given) if ready else None
        if isinstance(scores, Scores) and scores.raters is None:
            boards.append(evaluation.metric_board(metric, checked_scores(metric.name, scores, given), plan.study))
    return [board for board in boards if any(row.tasks for row in board.rows)]
