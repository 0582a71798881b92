"""The pipeline: the only place that knows the order of the stages.

study → plan → collect → scores → estimates → result

Live and recorded runs differ only in where evidence is collected from. A run that stops early goes through the same
steps in rounds, each with more tasks. A review goes through them too: its exams are a step of collecting, and its
scores are the votes of those who pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from goldless.audit.texts import text_findings
from goldless.errors import MetricError
from goldless.evidence import Evidence
from goldless.metrics.metric import Scores, checked_scores
from goldless.reports.findings import comparative
from goldless.reports.run_record import BoardSoFar, Spending
from goldless.runs import evaluation, review_outcome
from goldless.runs.collection import Collection, by_table, collecting
from goldless.runs.evaluation import Evaluation, MetricScores
from goldless.runs.opening import stop_if_waiting
from goldless.runs.options import Options
from goldless.runs.plan import Rounds, RunPlan, plan_review, plan_run
from goldless.runs.progress import Arriving
from goldless.runs.review_outcome import Review, ranking_boards, votes_of
from goldless.statistics.bootstrap import Draws
from goldless.statistics.comparisons import Comparison, all_pairs
from goldless.studies import Study

EVIDENCE = ("logprobs", "verdicts", "judgements")
"""Needs of metrics that are met by models, each with the table of its name."""


@dataclass(frozen=True)
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
        return self.collected.spending


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
    return evaluation.evaluation_result(scored.collected, scored.evidence, scored.scores, seen, scored.rounds)


async def review_study(study: Study, options: Options) -> Review:
    """Run the exams, collect judgements of the reviewers who pass, and count their votes."""
    scored = await _scored(plan_review(study, options))
    votes = votes_of(scored.collected, scored.evidence.judgements)
    return review_outcome.review_result(votes, scored.notes, scored.collected, scored.rounds)


async def _scored(plan: RunPlan) -> Scored:
    """Score all tasks, or more and more of them until the question of ``--until`` is decided."""
    notes: Sequence[str] = ()
    async with collecting(plan) as unexamined:
        collection = unexamined
        if plan.reviews:
            collection, notes = await _examine(unexamined)
        without_voters = plan.reviews and not collection.voters
        rounds = None if plan.until is None or without_voters else Rounds(plan, plan.until)
        for round_plan in [plan] if rounds is None else map(plan.limited, rounds.pairings()):
            scored = await _score_round(replace(collection, plan=round_plan), notes, rounds)
    if plan.options.so_far is not None:
        plan.options.so_far(_final_boards(scored))
    return scored


async def _examine(collection: Collection) -> tuple[Collection, Sequence[str]]:
    """Run the exams of a review; return the collection with those who passed, and notes on who may vote."""
    examined = await collection.exams()
    stop_if_waiting(collection.models.values())
    qualification, notes = review_outcome.qualified(collection.plan, examined, collection.models)
    return replace(collection, examined=examined, qualification=qualification), notes


async def _score_round(collection: Collection, notes: Sequence[str], rounds: Rounds | None) -> Scored:
    """Collect the evidence of one plan and score it; interim boards are shown as it arrives."""
    plan = collection.plan
    collection = replace(collection, arrived=Arriving(partial(_boards, collection), plan.options.so_far))
    evidence = await collection.collect()
    stop_if_waiting(collection.models.values())
    data = collection.metric_input(evidence)
    scores = {
        metric.name: await evaluation.metric_scores(metric, collection.input_for(metric, data), plan.options)
        for metric in plan.metrics
    }
    scored = Scored(collection, evidence, scores, notes, rounds)
    return scored if rounds is None else _apply_stopping_rule(scored, rounds)


def _apply_stopping_rule(scored: Scored, rounds: Rounds) -> Scored:
    """Tell the rounds what votes or the first metric decide; return the scores of the responses they are to score."""
    plan = scored.collected.plan
    scores = {
        name: metric_scores if metric_scores.raters is not None else _of_round(metric_scores, rounds)
        for name, metric_scores in scored.scores.items()
    }
    if plan.reviews:
        votes = votes_of(scored.collected, scored.evidence.judgements)
        comparisons: Sequence[Comparison] = votes.comparisons(rounds.until)
    else:
        first = plan.metrics[0].name
        if scores[first].raters is not None:
            raise MetricError(f"--until compares agents, but {first} scores raters. Name another metric first")
        responses = evaluation.averaged(scores[first], plan.study.samples).responses
        pairs = all_pairs(evaluation.score_table(responses, plan.agents))
        comparisons = rounds.until.compare(plan.agents.agent_list, pairs)
    rounds.look(comparisons, over_budget=scored.evidence.failures["budget"] > 0)
    plan.options.say(rounds.answer)
    return replace(scored, scores=scores)


def _of_round(scores: MetricScores, rounds: Rounds) -> MetricScores:
    """The scores without those of agents that are decided, which are only partners of others."""
    by_peer = None if scores.by_peer is None else rounds.scored(scores.by_peer)
    return replace(scores, responses=rounds.scored(scores.responses), by_peer=by_peer)


def _final_boards(scored: Scored) -> Sequence[BoardSoFar]:
    """The leaderboards at the end of a run, in the form of interim ones."""
    plan = scored.collected.plan
    if plan.reviews:
        return _boards(scored.collected, {"judgements": scored.evidence.judgements})
    of_agents = [scores for scores in scored.scores.values() if scores.raters is None]
    return [evaluation.metric_board(scores.metric, scores, plan.study) for scores in of_agents]


def _boards(collection: Collection, tables: dict[str, Any]) -> Sequence[BoardSoFar]:
    """Interim leaderboards of length, which needs none, and of the metrics whose evidence has begun to arrive."""
    plan = collection.plan
    if plan.reviews:  # the intervals of votes are not shown
        draws: Draws = {"seed": plan.options.statistics.seed, "resamples": 1}
        return ranking_boards(votes_of(collection, tables["judgements"]).rankings(draws, only_first=True))
    if "logprobs" in tables:
        tables["logprobs"], tables["control"] = by_table(tables["logprobs"])
    given = collection.metric_input(Evidence(**tables))
    boards = []
    for metric in plan.metrics:
        asked = {table for table in EVIDENCE if getattr(metric.needs, table) is not None}
        ready = asked <= set(tables) if asked else comparative(metric.name) == "longer"
        scores = metric.scores(collection.input_for(metric, given)) if ready else None
        if isinstance(scores, Scores) and scores.raters is None:
            boards.append(evaluation.metric_board(metric, checked_scores(metric.name, scores, given), plan.study))
    return [board for board in boards if any(row.tasks for row in board.rows)]
