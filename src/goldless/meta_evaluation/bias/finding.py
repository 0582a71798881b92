"""The search for bias: collects judgements and scores, then measures every bias the study has data for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

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
from goldless.meta_evaluation.bias.report import Bias, BiasReport, Coverage, Unavailable
from goldless.meta_evaluation.bias.votes import (
    Orders,
    PairGrid,
    Reviewed,
    Votes,
    peoples_verdicts,
    reviewers_judgements,
    votes_of,
)
from goldless.meta_evaluation.judges import (
    agent_names,
    judgement_arrays,
    judgements_hash,
    metric_judges,
    response_scores,
    reviewer_judges,
)
from goldless.meta_evaluation.resampling import draws_of
from goldless.metrics.judgement_table import Convention, PairJudgements, ResponseRatings, check_convention
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.review_evidence import People as WhatPeopleSaid
from goldless.runs.review_evidence import reviewer_family, what_people_said
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study

SHARED = (
    *("verdicts", "recorded", "seed", "resamples", "level"),
    *("budget_usd", "price", "batch", "journal", "progress", "say"),
)
"""The options of the metrics that a review also takes."""


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
    """Measure what reviewers, their panel and the metrics of ``options`` favour besides quality, with intervals.

    ``reviewers``: names of reviewers with recorded judgements, or models to ask; empty: all recorded ones.
    ``options.metrics`` may be empty. ``favours``: pairs of agents, ``FIRST:SECOND``. ``families``: of agents and
    reviewers, by name, overriding the agents table. ``weights``: of the panel's vote; only these reviewers vote.
    ``orders``: of the favour rate. ``convention``: how a missing judgement counts; ``paper``: one half.
    ``criterion``: which label criterion to use, if there is more than one. ``margin``: the margin of votes by which
    people's preferences decide a pair; None: 2, or 1 where pairs have fewer than three votes. Biases that the study has
    no data for are listed with the reason.
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
        **options.some(*SHARED),
    )
    people = what_people_said(study, how)
    reviewed = await reviewers_judgements(study, how)
    if not options.metrics and not len(reviewed.rows):
        raise MetricError(
            f"nothing to test for bias: {reviewed.reason}, and no metric was given. Name metrics with --metric, "
            "reviewers with --reviewers, or another --scale"
        )
    _check_families(families or {}, agents, reviewed.reviewers)
    evaluation = await _evaluated(study, options, reviewed)
    search = _Search(
        study=study,
        how=how,
        said=people,
        reviewed=reviewed,
        evaluation=evaluation,
        weights=weights,
        orders=orders,
        families=families or {},
        favours=pairs,
        draws=draws,
    )
    return search.report()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """Everything that is known, and how it is counted."""

    study: Study
    how: Options
    said: WhatPeopleSaid
    reviewed: Reviewed
    evaluation: Evaluation | None
    weights: Mapping[str, float] | None
    orders: Orders
    families: Mapping[str, str]
    favours: Sequence[tuple[str, str]]
    draws: Draws

    @cached_property
    def grid(self) -> PairGrid:
        """All pairs."""
        return PairGrid(tuple(self.study.tasks), agent_names(self.study))

    @cached_property
    def table(self) -> PairJudgements | ResponseRatings | None:
        """The reviewers' judgements; None: there are none."""
        if not len(self.reviewed.rows):
            return None
        pairwise = find_judge(self.how.scale).pairwise
        return judgement_arrays(self.study, self.reviewed.rows, self.reviewed.reviewers, pairwise=pairwise)

    @cached_property
    def people(self) -> People | None:
        """People's labels; None: there are none."""
        if self.said.labels is None:
            return None
        ratings = None if self.said.ratings is None else self.said.ratings.value
        return People(peoples_verdicts(self.grid, self.said.labels), ratings)

    def everything(self) -> Found:
        """All rows, and all that could not be measured."""
        reviewers: list[Votes] = []
        if self.table is not None:
            judges = reviewer_judges(self.table, weights=self.weights, convention=self.how.convention)
            reviewers = [votes_of(judge, self.grid, orders=self.orders) for judge in judges]
        everybody = [*reviewers, *(votes_of(one, self.grid) for one in metric_judges(self.evaluation, self.study))]
        alone = [judge for judge in reviewers if judge.kind == "reviewer"]
        features = text_features(self.study, self.grid)
        parts = [self._position()]
        parts += [feature_rows(one, self.grid, everybody, self.people, draws=self.draws) for one in features]
        if alone:
            parts += [gap_rows(self.grid, alone, draws=self.draws), self._family(alone)]
        else:
            parts += [self._unjudged("self-preference"), self._unjudged("family preference")]
        parts += self._favoured(everybody)
        return [row for rows, _ in parts for row in rows], [one for _, lacking in parts for one in lacking]

    def coverage(self) -> tuple[Coverage, ...]:
        """How many of the judgements and scores are present, whatever the convention."""
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

    def _unjudged(self, bias: Bias) -> Found:
        return [], [Unavailable(bias, str(self.reviewed.reason))]

    def _position(self) -> Found:
        if self.table is None:
            return self._unjudged("position")
        if isinstance(self.table, ResponseRatings):
            return [], [Unavailable("position", "ratings are of one response at a time, so there is no order")]
        return position_rows(self.table, convention=self.how.convention, draws=self.draws)

    def _family(self, reviewers: Sequence[Votes]) -> Found:
        of_agents = {a.agent: self.families.get(a.agent) or a.family or a.agent for a in self.study.agents}
        return family_rows(
            self.grid,
            reviewers,
            None if self.people is None else self.people.verdicts,
            agent_families=of_agents,
            reviewer_families={j.name: reviewer_family(j.name, None, self.families, of_agents) for j in reviewers},
            draws=self.draws,
        )

    def _favoured(self, judges: Sequence[Votes]) -> list[Found]:
        if not self.favours:
            return [([], [Unavailable("favour rate", "no two agents were given (--favours FIRST:SECOND)")])]
        if self.people is None:
            return [([], [Unavailable("favour rate", "no labels")])]
        return [favour_rows(self.grid, judges, self.people.verdicts, pair, draws=self.draws) for pair in self.favours]

    def report(self) -> BiasReport:
        """The report."""
        how, reviewed, evaluation, labels = self.how, self.reviewed, self.evaluation, self.said.labels
        outcomes = {} if evaluation is None else evaluation.outcomes
        counted = (
            {} if labels is None else {"pairs": labels.n_pairs, "decided": labels.n_decided, "tied": labels.n_ties}
        )
        rows, unavailable = self.everything()
        left = reviewed.open + (0 if evaluation is None else evaluation.open)
        return BiasReport(
            study=self.study.name,
            fingerprint=self.study.fingerprint,
            scale=how.scale,
            convention=how.convention,
            orders=self.orders,
            level=how.level,
            reviewers=reviewed.reviewers,
            weights=self.panel_weights,
            metrics=tuple(outcomes),
            labels=counted,
            coverage=self.coverage(),
            rows=tuple(rows),
            unavailable=tuple(unavailable),
            notes=tuple(self._notes()),
            complete=not left,
            signature=str(Signature("bias", self._settings())),
            review_signature=reviewed.signature,
            metric_signatures={name: outcome.signature for name, outcome in outcomes.items()},
            spending=(*reviewed.spending, *(() if evaluation is None else evaluation.spending)),
            open=left,
        )

    def _notes(self) -> Iterator[str]:
        evaluation, labels = self.evaluation, self.said.labels
        if evaluation is not None and evaluation.raters is not None:
            yield f"{evaluation.raters.metric} does not score responses, so it has no bias of these kinds"
        if labels is not None and labels.n_contradicted:
            yield f"ratings and preferences contradict each other on {labels.n_contradicted} pairs; ratings decide"
        if self.weights is not None and self.table is None:
            yield f"the weights of {', '.join(self.weights)} were not used: {self.reviewed.reason}"

    def _settings(self) -> dict[str, str]:
        """What the signature says."""
        how, labels = self.how, self.said.labels
        weights = ",".join(f"{name}={weight:.4g}" for name, weight in self.panel_weights.items())
        asked: dict[str, str] = {}
        if self.table is not None:
            asked = {
                "scale": find_judge(how.scale).name,
                "reviewers": ",".join(self.reviewed.reviewers),
                "panel": weights or "none",
                "orders": self.orders,
                "convention": how.convention,
                "evidence": judgements_hash(self.reviewed.rows),
            }
        families = ",".join(f"{name}={family}" for name, family in self.families.items())
        return {
            **asked,
            **({"labels": "none"} if labels is None else {"pairs": labels.rule}),
            **({} if how.criterion is None else {"criterion": how.criterion}),
            **({"families": families} if families else {}),
            "length": "log2(1+words)",
            "format": "headings+lists+bold+tables",
            "level": f"{how.level:g}",
            "resamples": str(how.resamples),
            "seed": str(how.seed),
            "study": self.study.fingerprint[:8],
        }


async def _evaluated(study: Study, options: Options, reviewed: Reviewed) -> Evaluation | None:
    """The metrics' scores, bought with what the reviewers left of the budget."""
    if not options.metrics:
        return None
    left = None if options.budget_usd is None else max(0.0, options.budget_usd - reviewed.spent_usd)
    return await evaluate_study(study, replace(options, budget_usd=left))


def _check(orders: str, weights: Mapping[str, float] | None) -> None:
    if orders not in get_args(Orders):
        raise UserError(f"orders must be 'each' or 'together', got {orders!r}{nearest(orders, get_args(Orders))}")
    if weights is not None and not weights:
        raise UserError("weights must name at least one reviewer, got none. Leave out weights for an equal vote")
    if below := {name: weight for name, weight in (weights or {}).items() if not weight >= 0}:
        named = ", ".join(f"{name}={weight:g}" for name, weight in below.items())
        raise UserError(f"weights must not be negative, got {named}. Leave out reviewers that should not vote")


def _check_families(families: Mapping[str, str], agents: Sequence[str], reviewers: Sequence[str]) -> None:
    known = [*agents, *reviewers]
    problems = [
        f"--family {name!r}: no agent or reviewer with this name{nearest(name, known)}"
        for name in families
        if name not in known
    ]
    if problems:
        raise UserError("\n".join(problems))
