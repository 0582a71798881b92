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
            given = asked.given(evidence)
            scores = {one.name: await evaluation.metric_scores(one, given, now.options) for one in now.metrics}
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
        found: Sequence[Comparison] = votes_of(scored.collected, scored.evidence.judgements).comparisons(rounds.until)
    else:
        first = plan.metrics[0].name
        if scores[first].raters is not None:
            raise MetricError(f"--until compares agents, but {first} scores raters. Name another metric first")
        responses = evaluation.averaged(scores[first], plan.study.samples).responses
        pairs = all_pairs(evaluation.score_table(responses, plan.agents))
        found = rounds.until.compare(plan.agents.agent_list, pairs)
    rounds.look(found, over_budget=scored.evidence.failures["budget"] > 0)
    plan.options.say(rounds.answer)
    return replace(scored, scores=scores)


def _boards(collection: Collection, tables: dict[str, Any]) -> Sequence[BoardSoFar]:
    """Interim leaderboards of length, which needs none, and of the metrics whose evidence has begun to arrive."""
    plan = collection.plan
    if plan.reviews:  # the intervals of votes are not shown
        draws: Draws = {"seed": plan.options.seed, "resamples": 1}
        return ranking_boards(votes_of(collection, tables["judgements"]).rankings(draws, only_first=True))
    if "logprobs" in tables:
        tables["logprobs"], tables["control"] = by_table(tables["logprobs"])
    given = collection.given(Evidence(**tables))
    boards = []
    for metric in plan.metrics:
        asked = {table for table in EVIDENCE if getattr(metric.needs, table) is not None}
        ready = asked <= set(tables) if asked else comparative(metric.name) == "longer"
        scores = metric.scores(given) if ready else None
        if isinstance(scores, Scores) and scores.raters is None:
            boards.append(evaluation.metric_board(metric, checked_scores(metric.name, scores, given), plan.study))
    return [board for board in boards if any(row.tasks for row in board.rows)]
