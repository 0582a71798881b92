"""Judges of responses: a metric, a reviewer, a panel of reviewers, or external scores.

All are compared with people, and tested for bias, in the same two ways: by their scores of single responses, and by
their preferences between two responses to a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray
from goldless.metrics.chair import (
    PanelScores,
    PanelVerdicts,
    panel_scores,
    panel_verdicts,
    reviewer_scores,
    usual_fusion,
)
from goldless.metrics.judgement_table import (
    Convention,
    PairJudgements,
    ResponseRatings,
    pair_judgements,
    response_ratings,
)
from goldless.metrics.label_agreement import (
    PairCredits,
    panel_credits,
    reviewer_credits,
    score_credits,
    with_each_order,
)
from goldless.metrics.pair_labels import PairLabels
from goldless.runs.evaluation import Evaluation, MetricOutcome
from goldless.runs.outcomes import MetricScores
from goldless.runs.review_outcome import shares_by_agent
from goldless.signature import table_hash
from goldless.statistics.standings import score_table
from goldless.studies import Study

Scores = Mapping[tuple[str, str], float | None]
"""The score of each task and agent; None: missing."""
Results = MetricScores | MetricOutcome
Kind = Literal["metric", "reviewer", "panel", "scores"]
PANEL = "panel"


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """One judge, with its scores of responses or its judgements of pairs."""

    name: str
    kind: Kind
    scores: PanelScores | None = None
    """Scores of responses; None: it compares pairs."""
    compared: PairJudgements | None = None
    """Judgements of pairs, by it or by each of its reviewers; None: the difference of scores decides."""
    weights: Mapping[str, float] | None = None
    """Weights of a panel's votes on pairs; None: equal."""
    convention: Convention = "default"
    signature: str = ""

    @property
    def verdicts(self) -> PanelVerdicts | None:
        """One vote on each pair, both orders together; None: it scores."""
        if self.compared is None:
            return None
        return panel_verdicts(self.compared, weights=self.weights, convention=self.convention)

    @property
    def response_scores(self) -> PanelScores:
        """Scores of responses; for comparisons, the share that each response won."""
        if self.scores is not None:
            return self.scores
        assert self.verdicts is not None
        return shares_by_agent(self.verdicts)

    def credits(self, labels: PairLabels, convention: Convention) -> PairCredits:
        """The judge's credit on each pair that people decided."""
        if self.compared is not None and self.kind == "reviewer":
            return reviewer_credits(self.compared, labels, convention=convention)[self.name]
        if self.compared is not None and self.verdicts is not None:
            earned = panel_credits(self.verdicts, labels, name=self.name, convention=convention)
            return with_each_order(earned, self.compared, weights=self.weights)
        return score_credits(self.response_scores, labels, name=self.name, convention=convention)


def scoring_judge(
    name: str, kind: Kind, scores: Scores, *, tasks: Sequence[str], agents: Sequence[str], signature: str = ""
) -> Judge:
    """A judge by its scores of responses."""
    value, asked = score_arrays(scores, tasks=tasks, agents=agents)
    used = (~np.isnan(value)).astype(np.int64)
    table = PanelScores(tuple(tasks), tuple(agents), value, asked.astype(np.int64), used, {name: 1.0}, "raw")
    return Judge(name, kind, table, signature=signature)


def metric_judges(evaluation: Evaluation | None, study: Study, *, only_asked: bool = False) -> list[Judge]:
    """Computed metrics as judges, by their response scores; ``only_asked``: without responses that have no pair."""
    outcomes = {} if evaluation is None else evaluation.outcomes
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    return [
        scoring_judge(
            name, "metric", response_scores(outcome, only_asked=only_asked), signature=outcome.signature, **names
        )
        for name, outcome in outcomes.items()
    ]


def reviewer_judges(
    table: PairJudgements | ResponseRatings,
    *,
    weights: Mapping[str, float] | None = None,
    convention: Convention = "default",
) -> list[Judge]:
    """The reviewers, each alone, and their panel if there are several or weights are given.

    The panel votes on both orders of comparisons; ratings are z-normalised for it, or raw as in Auto-PRE.
    """
    judges = []
    for name in table.reviewers:
        if isinstance(table, PairJudgements):
            judges.append(Judge(name, "reviewer", compared=table.of([name]), convention=convention))
        else:
            judges.append(
                Judge(name, "reviewer", reviewer_scores(table, name, convention=convention), convention=convention)
            )
    if weights is None and len(table.reviewers) < 2:
        return judges
    if isinstance(table, PairJudgements):
        return [*judges, Judge(PANEL, "panel", compared=table, weights=weights, convention=convention)]
    together = panel_scores(table, weights=weights, normalisation=usual_fusion(convention), convention=convention)
    return [*judges, Judge(PANEL, "panel", together, convention=convention)]


# --- what reviewers said -------------------------------------------------------------------------------------------


def judgement_arrays(
    study: Study, rows: pl.DataFrame, reviewers: Sequence[str], *, pairwise: bool
) -> PairJudgements | ResponseRatings:
    """Judgements as arrays, numbered by the study's tasks and agents."""
    if pairwise:
        return compared_pairs(study, rows, reviewers)
    return response_ratings(rows, reviewers=reviewers, tasks=study.tasks, agents=agent_names(study))


def compared_pairs(study: Study, rows: pl.DataFrame, reviewers: Sequence[str]) -> PairJudgements:
    """Comparisons as arrays, numbered by the study's tasks and agents."""
    return pair_judgements(rows, reviewers=reviewers, tasks=study.tasks, agents=agent_names(study))


def judgements_hash(rows: pl.DataFrame) -> str:
    """A hash of these judgements."""
    return table_hash(rows.select("reviewer", "task", "first", "second", "agent", "value"))


def recorded_scales(study: Study) -> dict[str, list[str]]:
    """The scales on which the study has recorded judgements, sorted, with the reviewers of each in their order."""
    table = study.table("judgements")
    if table is None or not {"reviewer", "format"} <= set(table.columns):
        return {}
    rows = table.select("format", "reviewer").drop_nulls().unique(maintain_order=True)
    found: dict[str, list[str]] = {scale: [] for scale in sorted(rows["format"].unique())}
    for scale, reviewer in rows.iter_rows():
        found[scale].append(reviewer)
    return found


def agent_names(study: Study) -> tuple[str, ...]:
    """The agents of a study."""
    return tuple(agent.agent for agent in study.agents)


# --- what metrics said -----------------------------------------------------------------------------------------------


def response_scores(results: Results, *, only_asked: bool = False) -> dict[tuple[str, str], float | None]:
    """The score of each response; ``only_asked``: only responses with at least one pair to score."""
    rows = results.responses.filter(pl.col("asked") > 0) if only_asked else results.responses
    return {(task, agent): score for task, agent, score in rows.select("task", "agent", "score").iter_rows()}


def pair_scores(results: Results) -> dict[tuple[str, str, str], float | None]:
    """The score of each task, agent and peer."""
    rows = results.pairs.select("task", "agent", "peer", "score")
    return {(task, agent, peer): score for task, agent, peer, score in rows.iter_rows()}


def score_arrays(scores: Scores, *, tasks: Sequence[str], agents: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Scores as [tasks, agents], NaN where there is none, and which of them were requested."""
    task_number, agent_number = numbers(tasks), numbers(agents)
    task = np.array([task_number[name] for name, _ in scores], dtype=np.int64)
    agent = np.array([agent_number[name] for _, name in scores], dtype=np.int64)
    # None becomes NaN
    score = np.array(list(scores.values()), dtype=np.float64)
    asked = np.zeros((len(tasks), len(agents)), dtype=np.bool_)
    asked[task, agent] = True
    return score_table(task, agent, score, tasks=len(tasks), agents=len(agents)), asked


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The index of each name."""
    return {name: number for number, name in enumerate(names)}
