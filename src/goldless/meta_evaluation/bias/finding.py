"""Looking for bias: judgements and scores are collected, then everything the study has data for is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError, UserError, nearest
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.bias.features import People, feature_rows, text_features
from goldless.meta_evaluation.bias.preferences import (
    Found,
    family_rows,
    favour_rows,
    gap_rows,
    position_rows,
    read_favours,
)
from goldless.meta_evaluation.bias.report import BiasReport
from goldless.meta_evaluation.bias.reviewed import Reviewed, reviewers_judgements
from goldless.meta_evaluation.bias.rows import Coverage, Unavailable
from goldless.meta_evaluation.bias.votes import Orders, PairGrid, Votes, peoples_verdicts, votes_of
from goldless.meta_evaluation.judges import (
    agent_names,
    judgement_arrays,
    judgements_hash,
    metric_judges,
    reviewer_judges,
)
from goldless.meta_evaluation.metric_results import response_scores
from goldless.meta_evaluation.resampling import Draws, draws_of
from goldless.metrics.judgement_table import Convention, PairJudgements, ResponseRatings, check_convention
from goldless.metrics.pair_labels import PairLabels
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.review_evidence import reviewer_family, what_people_said
from goldless.signature import Signature
from goldless.studies import Study

FloatArray = npt.NDArray[np.float64]


async def find_bias(
    study: Study,
    options: Options,
    *,
    reviewers: Sequence[Any] | Mapping[str, Any] = (),
    scale: str = "pairwise",
    favours: Sequence[str | tuple[str, str]] = (),
    families: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    orders: Orders = "each",
    convention: Convention = "default",
    criterion: str | None = None,
    margin: float | None = None,
    task_description: str = "",
) -> BiasReport:
    """What reviewers, their panel and the metrics of ``options`` favour besides quality, each with its interval.

    ``reviewers``: names whose judgements the study carries, or models to be asked; none: all it carries.
    ``options.metrics`` may be empty. ``favours``: pairs of agents, ``FIRST:SECOND``. ``families``: of agents and
    reviewers, by name, before those of the agents table. ``weights``: of the panel's vote, which also choose who votes.
    ``orders``: of the favour rate. ``convention``: what a missing judgement counts; ``paper``: one half.
    ``criterion``: of the labels, where they have several. ``margin``: votes that people's preferences must be ahead by
    to decide a pair; None: 2, or 1 where pairs have fewer than three votes. What the study has no data for is listed
    with the reason.
    """
    check_convention(convention)
    find_judge(scale)
    _check(orders, weights)
    draws = draws_of(options)
    agents = agent_names(study)
    pairs = read_favours(favours, agents)
    how = Options(
        reviewers=reviewers,
        scale=scale,
        own_family=True,  # what a reviewer makes of its own kind is what is looked for
        convention=convention,
        criterion=criterion,
        margin=margin,
        task_description=task_description,
        **_shared(options),
    )
    people = what_people_said(study, how)
    reviewed = await reviewers_judgements(study, how)
    if not options.metrics and not len(reviewed.rows):
        raise MetricError(
            f"there is nothing to look for bias in: {reviewed.reason}, and no metric was named. Name metrics with "
            "--metric, reviewers with --reviewers, or another --scale"
        )
    _check_families(families or {}, agents, reviewed.reviewers)
    evaluation = await _evaluated(study, options, reviewed)
    search = _Search(
        study=study,
        grid=PairGrid(tuple(study.tasks), agents),
        labels=people.labels,
        ratings=None if people.ratings is None else people.ratings.value,
        table=_arrays(study, reviewed, scale) if len(reviewed.rows) else None,
        why_none=reviewed.reason,
        evaluation=evaluation,
        weights=weights,
        orders=orders,
        convention=convention,
        families=families or {},
        favours=pairs,
        draws=draws,
    )
    found = search.everything()
    return _report(study, options, search, reviewed, found, scale=scale, criterion=criterion)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """Everything that is known, and how it is counted."""

    study: Study
    grid: PairGrid
    labels: PairLabels | None
    ratings: FloatArray | None
    table: PairJudgements | ResponseRatings | None
    why_none: str | None
    evaluation: Evaluation | None
    weights: Mapping[str, float] | None
    orders: Orders
    convention: Convention
    families: Mapping[str, str]
    favours: Sequence[tuple[str, str]]
    draws: Draws

    def everything(self) -> Found:
        """All rows, and all that could not be measured."""
        reviewers, metrics = self._reviewers(), self._metrics()
        judges = [*reviewers, *metrics]
        people = self._people()
        alone = [judge for judge in reviewers if judge.kind == "reviewer"]
        parts = [self._position(), *self._features(judges, people), self._gaps(alone), self._family(alone, people)]
        parts += self._favoured(judges, people)
        rows = [row for part, _ in parts for row in part]
        return rows, [one for _, part in parts for one in part]

    def coverage(self) -> tuple[Coverage, ...]:
        """What is there of the judgements and scores, whatever the convention makes of the rest."""
        found = []
        if self.table is not None:
            for row, name in enumerate(self.table.reviewers):
                asked, used = int(self.table.asked[row].sum()), int(np.sum(~np.isnan(self.table.value[row])))
                found.append(Coverage(name, "reviewer", "judgements", asked, used))
        for name, outcome in ({} if self.evaluation is None else self.evaluation.outcomes).items():
            scores = response_scores(outcome).values()
            used = sum(score is not None for score in scores)
            found.append(Coverage(name, "metric", "responses", len(scores), used))
        return tuple(found)

    @property
    def panel_weights(self) -> dict[str, float]:
        """Weights of the panel's vote; empty: there is no panel."""
        if self.table is None:
            return {}
        if self.weights is not None:
            return {name: weight for name, weight in self.weights.items() if weight}
        return dict.fromkeys(self.table.reviewers, 1.0) if len(self.table.reviewers) > 1 else {}

    def _reviewers(self) -> list[Votes]:
        if self.table is None:
            return []
        judges = reviewer_judges(self.table, weights=self.weights, convention=self.convention)
        return [votes_of(judge, self.grid, orders=self.orders) for judge in judges]

    def _metrics(self) -> list[Votes]:
        return [votes_of(judge, self.grid) for judge in metric_judges(self.evaluation, self.study)]

    def _people(self) -> People | None:
        return None if self.labels is None else People(peoples_verdicts(self.grid, self.labels), self.ratings)

    def _position(self) -> Found:
        if self.table is None:
            return [], [Unavailable("position", str(self.why_none))]
        if isinstance(self.table, ResponseRatings):
            return [], [Unavailable("position", "ratings are given to one response at a time: there is no order")]
        return position_rows(self.table, convention=self.convention, draws=self.draws)

    def _features(self, judges: Sequence[Votes], people: People | None) -> list[Found]:
        features = text_features(self.study, self.grid)
        return [feature_rows(feature, self.grid, judges, people, draws=self.draws) for feature in features]

    def _gaps(self, reviewers: Sequence[Votes]) -> Found:
        if not reviewers:
            return [], [Unavailable("self-preference", str(self.why_none))]
        return gap_rows(self.grid, reviewers, draws=self.draws)

    def _family(self, reviewers: Sequence[Votes], people: People | None) -> Found:
        if not reviewers:
            return [], [Unavailable("family preference", str(self.why_none))]
        of_agents = {a.agent: self.families.get(a.agent) or a.family or a.agent for a in self.study.agents}
        return family_rows(
            self.grid,
            reviewers,
            None if people is None else people.verdicts,
            agent_families=of_agents,
            reviewer_families={j.name: reviewer_family(j.name, None, self.families, of_agents) for j in reviewers},
            draws=self.draws,
        )

    def _favoured(self, judges: Sequence[Votes], people: People | None) -> list[Found]:
        if not self.favours:
            return [([], [Unavailable("favour rate", "no two agents were named (--favours FIRST:SECOND)")])]
        if people is None:
            return [([], [Unavailable("favour rate", "no labels")])]
        return [favour_rows(self.grid, judges, people.verdicts, pair, draws=self.draws) for pair in self.favours]


def _arrays(study: Study, reviewed: Reviewed, scale: str) -> PairJudgements | ResponseRatings:
    return judgement_arrays(study, reviewed.rows, reviewed.reviewers, pairwise=find_judge(scale).pairwise)


def _shared(options: Options) -> dict[str, Any]:
    """What a review takes from the options of the metrics."""
    names = ("verdicts", "recorded", "seed", "resamples", "level", "budget_usd", "price", "journal", "progress", "say")
    return {name: getattr(options, name) for name in names}


async def _evaluated(study: Study, options: Options, reviewed: Reviewed) -> Evaluation | None:
    """The metrics' scores, bought with what the reviewers left of the budget."""
    if not options.metrics:
        return None
    left = None if options.budget_usd is None else max(0.0, options.budget_usd - reviewed.spent_usd)
    return await evaluate_study(study, replace(options, budget_usd=left))


def _check(orders: str, weights: Mapping[str, float] | None) -> None:
    if orders not in get_args(Orders):
        raise UserError(f"orders are 'each' or 'together', not {orders!r}{nearest(orders, get_args(Orders))}")
    if weights is not None and not weights:
        raise UserError("no weight came; name the weight of at least one reviewer, or leave them out for an equal vote")
    if below := {name: weight for name, weight in (weights or {}).items() if not weight >= 0}:
        named = ", ".join(f"{name}={weight:g}" for name, weight in below.items())
        raise UserError(f"weights of a vote are not negative: {named}. Leave a reviewer out that is not to vote.")


def _check_families(families: Mapping[str, str], agents: Sequence[str], reviewers: Sequence[str]) -> None:
    known = [*agents, *reviewers]
    problems = [
        f"--family {name!r}: no agent or reviewer of that name{nearest(name, known)}"
        for name in families
        if name not in known
    ]
    if problems:
        raise UserError("\n".join(problems))


def _report(
    study: Study,
    options: Options,
    search: _Search,
    reviewed: Reviewed,
    found: Found,
    *,
    scale: str,
    criterion: str | None,
) -> BiasReport:
    evaluation, labels = search.evaluation, search.labels
    outcomes = {} if evaluation is None else evaluation.outcomes
    notes = []
    if evaluation is not None and evaluation.raters is not None:
        notes.append(f"{evaluation.raters.metric} scores no responses, so it has no bias of these kinds")
    if labels is not None and labels.n_contradicted:
        notes.append(f"ratings and preferences contradict each other on {labels.n_contradicted} pairs; ratings hold")
    if search.weights is not None and search.table is None:
        notes.append(f"the weights of {', '.join(search.weights)} were not used: {search.why_none}")
    return BiasReport(
        study=study.name,
        fingerprint=study.fingerprint,
        scale=scale,
        convention=search.convention,
        orders=search.orders,
        level=options.level,
        reviewers=reviewed.reviewers,
        weights=search.panel_weights,
        metrics=tuple(outcomes),
        labels={} if labels is None else {"pairs": labels.n_pairs, "decided": labels.n_decided, "tied": labels.n_ties},
        coverage=search.coverage(),
        rows=tuple(found[0]),
        unavailable=tuple(found[1]),
        signature=str(_signature(study, options, search, reviewed, scale=scale, criterion=criterion)),
        review_signature=reviewed.signature,
        metric_signatures={name: outcome.signature for name, outcome in outcomes.items()},
        notes=tuple(notes),
        spending=(*reviewed.spending, *(() if evaluation is None else evaluation.spending)),
        open=reviewed.open + (0 if evaluation is None else evaluation.open),
    )


def _signature(
    study: Study, options: Options, search: _Search, reviewed: Reviewed, *, scale: str, criterion: str | None
) -> Signature:
    weights = ",".join(f"{name}={weight:.4g}" for name, weight in search.panel_weights.items())
    asked: dict[str, str] = {}
    if len(reviewed.rows):
        asked = {
            "scale": find_judge(scale).name,
            "reviewers": ",".join(reviewed.reviewers),
            "panel": weights or "none",
            "orders": search.orders,
            "convention": search.convention,
            "evidence": judgements_hash(reviewed.rows),
        }
    families = ",".join(f"{name}={family}" for name, family in search.families.items())
    settings = {
        **asked,
        **({"labels": "none"} if search.labels is None else {"pairs": search.labels.rule}),
        **({} if criterion is None else {"criterion": criterion}),
        **({"families": families} if families else {}),
        "length": "log2(1+words)",
        "format": "headings+lists+bold+tables",
        "level": f"{options.level:g}",
        "resamples": str(options.resamples),
        "seed": str(options.seed),
        "study": study.fingerprint[:8],
    }
    return Signature("bias", settings)
