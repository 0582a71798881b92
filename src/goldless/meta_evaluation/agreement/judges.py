"""Whoever is held against people: a metric, a recorded reviewer or a panel of them, somebody else's scores.

All come to the same two things: a score for each response, and a credit for each pair that people decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.errors import MetricError, UserError
from goldless.judging.scales import find_scale
from goldless.meta_evaluation.agreement.score_files import GivenScores
from goldless.metrics.chair import PanelScores, PanelVerdicts, panel_scores, panel_verdicts, reviewer_scores
from goldless.metrics.judgement_table import (
    Convention,
    PairJudgements,
    ResponseRatings,
    pair_judgements,
    response_ratings,
)
from goldless.metrics.label_agreement import PairCredits, panel_credits, reviewer_credits, score_credits
from goldless.metrics.metric import response_rows
from goldless.metrics.pair_labels import PairLabels
from goldless.runs.evaluation import MetricOutcome
from goldless.runs.recorded import evidence_hash
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.runs.reviewing import shares_by_agent
from goldless.signature import Signature, table_hash
from goldless.statistics.rank_correlation import levelled
from goldless.studies import Study

FloatArray = npt.NDArray[np.float64]
Kind = Literal["metric", "reviewer", "panel", "scores"]


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """One judge, with what it says of every response and of every pair."""

    name: str
    kind: Kind
    scores: PanelScores
    """Of comparisons: the share that each response won."""
    compared: PairJudgements | PanelVerdicts | None
    """What it said of pairs, where it was asked about pairs; None: the difference of scores decides."""
    signature: str

    def credits(self, labels: PairLabels, convention: Convention) -> PairCredits:
        """What the judge earns on each pair that people decided."""
        if isinstance(self.compared, PairJudgements):
            return reviewer_credits(self.compared, labels, convention=convention)[self.name]
        if isinstance(self.compared, PanelVerdicts):
            return panel_credits(self.compared, labels, name=self.name, convention=convention)
        return score_credits(self.scores, labels, name=self.name, convention=convention)


def metric_judges(outcomes: Iterable[MetricOutcome], study: Study) -> list[Judge]:
    """Metrics that were computed, by their response scores."""
    found = []
    for outcome in outcomes:
        scores = {(row.task, row.agent): row.score for row in response_rows(outcome.responses) if row.asked}
        found.append(Judge(outcome.metric, "metric", _table(outcome.metric, scores, study), None, outcome.signature))
    return found


def given_judges(given: Sequence[GivenScores], study: Study) -> list[Judge]:
    """Scores that somebody else computed."""
    found = []
    for one in given:
        rows = [(task, agent, score) for (task, agent), score in sorted(one.scores.items())]
        settings = {"scores": f"given-{evidence_hash(rows)}", **({"file": one.file} if one.file else {})}
        signature = str(Signature(one.metric, {**settings, "study": study.fingerprint[:8]}))
        found.append(Judge(one.metric, "scores", _table(one.metric, one.scores, study), None, signature))
    return found


def reviewer_judges(
    study: Study, reviewers: Sequence[str], scale: str | None, *, convention: Convention, own_family: bool
) -> list[Judge]:
    """Recorded reviewers, each alone, and their equal vote where they are several; ``all``: every one on the scale.

    By default judgements on agents of a reviewer's own family are left out, as in a review; the papers keep them.
    """
    if not reviewers:
        return []
    wanted = [] if "all" in reviewers else list(dict.fromkeys(reviewers))
    chosen = find_scale(_scale(study, scale))
    evidence = recorded_review(study, scale=chosen, reviewers=wanted, convention=convention)
    rows = evidence.judgements
    if not own_family and convention == "default":
        rows = without_own_family(rows, {}, {agent.agent: agent.family or agent.agent for agent in study.agents})
    said = set(rows["reviewer"].unique().to_list())
    heard = [name for name in evidence.reviewers if name in said]
    if not heard:
        raise MetricError("the reviewers named judged nothing but agents of their own family: see --own-family")
    names = {"reviewers": heard, "tasks": study.tasks, "agents": [agent.agent for agent in study.agents]}
    table = pair_judgements(rows, **names) if chosen.pairwise else response_ratings(rows, **names)
    settings = {
        "scale": chosen.name,
        "own-family": "judged" if own_family or convention == "paper" else "left-out",
        "missing": "0.5" if convention == "paper" else "left-out",
        "study": study.fingerprint[:8],
    }
    found = []
    for name in heard:
        signature = Signature(name, {**settings, "evidence": _hash(rows.filter(pl.col("reviewer") == name))})
        found.append(_reviewer(name, table, convention, str(signature)))
    if len(heard) > 1:
        found.append(_panel(table, convention, {**settings, "evidence": _hash(rows)}))
    return found


def check_unlike(judges: Sequence[Judge]) -> None:
    """Raise where two judges have one name."""
    names = [judge.name for judge in judges]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UserError(
            f"{', '.join(map(repr, twice))} came more than once, as metric, reviewer or in a file of scores; "
            "rename one of them in the column metric of its file, or leave one out"
        )


def _reviewer(name: str, table: PairJudgements | ResponseRatings, convention: Convention, signature: str) -> Judge:
    if isinstance(table, ResponseRatings):
        return Judge(name, "reviewer", reviewer_scores(table, name), None, signature)
    own = table.of([name])
    return Judge(name, "reviewer", shares_by_agent(panel_verdicts(own, convention=convention)), own, signature)


def _panel(table: PairJudgements | ResponseRatings, convention: Convention, settings: Mapping[str, str]) -> Judge:
    """The equal vote: of comparisons, both orders of all; of ratings, z-normalised, in the papers as they are."""
    if isinstance(table, PairJudgements):
        verdicts = panel_verdicts(table, convention=convention)
        scores, compared, fusion = shares_by_agent(verdicts), verdicts, "vote"
    else:
        fusion = "raw" if convention == "paper" else "z"
        scores, compared = panel_scores(table, normalisation="raw" if fusion == "raw" else "z"), None
    signature = Signature("panel", {"reviewers": ",".join(table.reviewers), "fusion": fusion, **settings})
    return Judge("panel", "panel", scores, compared, str(signature))


def _hash(rows: pl.DataFrame) -> str:
    """What tells these judgements from others."""
    return f"recorded-{table_hash(rows.select('reviewer', 'task', 'first', 'second', 'agent', 'value'))}"


def _scale(study: Study, scale: str | None) -> str:
    """The scale named, or the only one that judgements are on."""
    if scale is not None:
        return scale
    table = study.table("judgements")
    known = [] if table is None or "format" not in table.columns else sorted(set(table["format"].drop_nulls()))
    if len(known) == 1:
        return str(known[0])
    raise UserError(
        f"name the scale of the judgements with --scale; {study.name} has {', '.join(map(str, known)) or 'none'}"
    )


def _table(name: str, scores: Mapping[tuple[str, str], float | None], study: Study) -> PanelScores:
    """Scores as a table [tasks, agents]; those that only rounding tells apart are equal."""
    agents = [agent.agent for agent in study.agents]
    task_number = {task: i for i, task in enumerate(study.tasks)}
    agent_number = {agent: i for i, agent in enumerate(agents)}
    value = np.full((len(study.tasks), len(agents)), np.nan)
    asked = np.zeros(value.shape, dtype=np.int64)
    for (task, agent), score in scores.items():
        cell = task_number[task], agent_number[agent]
        asked[cell] = 1
        if score is not None:
            value[cell] = score
    used = (~np.isnan(value)).astype(np.int64)
    return PanelScores(tuple(study.tasks), tuple(agents), levelled(value), asked, used, {name: 1.0}, "raw")
