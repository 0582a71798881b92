"""Agreement with people: judges of responses, and how often each prefers the same response as the labels.

Every judgement of a labelled pair earns a credit: 1 where it agrees, 0 where it does not, 0.5 where it finds neither
better. Accuracy is the mean credit over pairs; pairs of one task are not independent, so its interval comes from
resampling tasks. PRE and Auto-PRE also give missing judgements 0.5; by default they are left out and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Unpack

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.metrics.chair import (
    Normalisation,
    PanelScores,
    PanelVerdicts,
    panel_scores,
    panel_verdicts,
    reviewer_scores,
    usual_fusion,
)
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements, ResponseRatings
from goldless.metrics.pair_labels import PairLabels
from goldless.metrics.ranking import win_rates
from goldless.statistics.bootstrap import USUAL, Draws, Estimate, task_shares
from goldless.statistics.comparisons import holm, sign_flip_ps
from goldless.statistics.rank_correlation import Coefficient, levelled, rank_correlations

Kind = Literal["metric", "reviewer", "panel", "scores"]
PANEL = "panel"


@dataclass(frozen=True, eq=False)
class PairCredits:
    """Credits of one judge on each decided pair of the labels, in their order."""

    name: str
    labels: PairLabels
    """Without ties."""
    credit: FloatArray
    """[pairs], from 0 to 1; NaN: missing or not requested."""
    asked: BoolArray
    """[pairs]: whether the judge was asked about the pair."""
    tied: int
    """Judgements that found neither better, one for each order."""
    convention: Convention
    each_order: FloatArray | None = None
    """[pairs]: mean credit of a panel's votes in each order on its own; None: not a panel's votes."""


@dataclass(frozen=True)
class Accuracy:
    """Share of pairs on which a judge agrees with people."""

    name: str
    share: Estimate
    """``n``: of ``asked``, pairs with a judgement; with the papers' convention all."""
    n_pairs: int
    """Pairs with a decided label."""
    asked: int
    """Of these, pairs the judge was asked about."""
    tied: int
    """Judgements that found neither better, one for each order."""
    convention: Convention
    by_task: float | None = None
    """Mean over tasks of the accuracy on each; tasks with few pairs count as much as others."""
    each_order: float | None = None
    """Of a panel's votes in each order on its own, as single reviewers are scored; None: not a panel's votes."""

    @property
    def missing(self) -> int:
        """Pairs without a judgement although one was requested."""
        return self.asked - self.share.n


@dataclass(frozen=True)
class JudgeComparison:
    """Two judges compared on what both have judged."""

    statistic: str
    """``accuracy`` on common pairs, or ``spearman``, the mean over tasks on which both have it."""
    first: str
    second: str
    difference: Estimate
    """First minus second; ``n``: common pairs, or common tasks."""
    p: float | None
    """Two-sided, by flipping signs of tasks' differences."""
    p_holm: float | None
    """Corrected for all comparisons on this statistic (Holm)."""
    p_pairs: float | None = None
    """Of accuracies: by a paired t-test over pairs, as the papers print it; pairs of one task are not independent."""


@dataclass(frozen=True, eq=False)
class Judge:
    """One judge: a metric, a reviewer, a panel of reviewers, or external scores."""

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

    @cached_property
    def verdicts(self) -> PanelVerdicts:
        """One vote on each pair, both orders together, by a judge that compares."""
        assert self.compared is not None
        return panel_verdicts(self.compared, weights=self.weights, convention=self.convention)

    def in_order(self, order: Literal[0, 1]) -> Judge:
        """A judge that compares, in one order alone: 0 with low shown first, 1 with low shown second."""
        assert self.compared is not None
        return replace(self, compared=self.compared.in_order(order))

    @cached_property
    def response_scores(self) -> PanelScores:
        """Scores of responses; for comparisons, the share that each response won, a tie counting as one half."""
        if self.scores is not None:
            return self.scores
        score = win_rates(self.verdicts)
        there = (~np.isnan(score)).astype(np.int64)
        return PanelScores(self.verdicts.tasks, self.verdicts.agents, score, there, there)

    def levelled(self) -> Judge:
        """The same judge, with scores that differ only by rounding made equal."""
        scores = self.response_scores
        return replace(self, scores=replace(scores, score=levelled(scores.score)))

    def credits(self, labels: PairLabels, convention: Convention = "default") -> PairCredits:
        """The credits on the decided pairs of the labels; ``convention``: of pairs of which a score is missing.

        Of two responses to a task the one with the higher score is better. A reviewer's comparisons are scored in each
        order and averaged, and missing where one of the requested orders is; a panel has one vote on both orders.
        """
        labels = labels.decided()
        if self.compared is not None:
            return self._credits_of_votes(labels, self.compared.places(labels))
        scores, task, low, high = self.response_scores, labels.task, labels.low, labels.high
        votes = np.sign(scores.score[task, low] - scores.score[task, high])
        asked = (scores.asked[task, low] > 0) & (scores.asked[task, high] > 0)
        if convention != "default":
            votes = np.nan_to_num(votes)
        credit: FloatArray = np.where(asked, (1 + votes * labels.sign) / 2, np.nan)
        return PairCredits(self.name, labels, credit, asked, int((credit == NEITHER).sum()), convention)

    def _credits_of_votes(self, labels: PairLabels, place: IntArray) -> PairCredits:
        """``place``: the judged pair that each label is about, -1: none."""
        orders = [self.in_order(0).verdicts, self.in_order(1).verdicts]
        asked = np.append(self.verdicts.asked > 0, False)[place]
        sides = np.stack([np.append(np.sign(one.margin), np.nan)[place] for one in orders])
        each = (1 + sides * labels.sign) / 2
        known = ~np.isnan(each)
        mean = np.where(known, each, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        if self.kind == "reviewer":
            lost = np.stack([np.append(one.asked > 0, False)[place] for one in orders]) & ~known
            credit = np.where(lost.any(axis=0), np.nan, mean)
            tied = int((each[:, ~np.isnan(credit)] == NEITHER).sum())
            return PairCredits(self.name, labels, credit, asked, tied, self.convention)
        credit = (1 + np.append(np.sign(self.verdicts.margin), np.nan)[place] * labels.sign) / 2
        return PairCredits(self.name, labels, credit, asked, int((credit == NEITHER).sum()), self.convention, mean)


def reviewer_judges(table: PairJudgements | ResponseRatings, *, convention: Convention = "default") -> list[Judge]:
    """The reviewers, each alone."""
    if isinstance(table, PairJudgements):
        return [Judge(name, "reviewer", compared=table.of([name]), convention=convention) for name in table.reviewers]
    own = {name: reviewer_scores(table, name, convention=convention) for name in table.reviewers}
    return [Judge(name, "reviewer", scores, convention=convention) for name, scores in own.items()]


def panel_judge(
    table: PairJudgements | ResponseRatings,
    *,
    weights: Mapping[str, float] | None = None,
    fusion: Normalisation | None = None,
    convention: Convention = "default",
) -> Judge:
    """The reviewers together: a vote on both orders of comparisons, or a mean of ratings, added up as is usual."""
    if isinstance(table, PairJudgements):
        return Judge(PANEL, "panel", compared=table, weights=weights, convention=convention)
    how = fusion or usual_fusion(convention)
    scores = panel_scores(table, weights=weights, normalisation=how, convention=convention)
    return Judge(PANEL, "panel", scores, convention=convention)


def accuracies(judges: Sequence[PairCredits], **draws: Unpack[Draws]) -> list[Accuracy]:
    """The mean credit of each judge over the pairs it judged, with an interval from resampling tasks.

    All must have the same labels, and share the same resampled tasks.
    """
    if not judges:
        return []
    credit = np.stack([one.credit for one in judges])
    shares = task_shares(credit, judges[0].labels.task, **draws)
    sums, counts = _task_sums(credit, judges[0].labels.task), _task_sums(credit * 0 + 1, judges[0].labels.task)
    by_task = [_mean(column) for column in (sums / counts).T]
    return [
        Accuracy(
            one.name,
            share,
            n_pairs=one.labels.n_pairs,
            asked=int(one.asked.sum()),
            tied=one.tied,
            convention=one.convention,
            by_task=mean,
            each_order=None if one.each_order is None else _mean(one.each_order),
        )
        for one, share, mean in zip(judges, shares, by_task, strict=True)
    ]


def compare_all_credits(judges: Sequence[PairCredits], **draws: Unpack[Draws]) -> list[JudgeComparison]:
    """Compare every two judges on the pairs that both judged, with a test over tasks corrected for all comparisons."""
    both = list(itertools.combinations(judges, 2))
    if not both:
        return []
    task = judges[0].labels.task
    differences = np.stack([first.credit - second.credit for first, second in both])
    shares = task_shares(differences, task, lowest=-1.0, **draws)
    how: Draws = {**USUAL, **draws}
    ps = sign_flip_ps(_task_sums(differences, task), seed=how["seed"], permutations=how["resamples"])
    found = []
    for (first, second), row, share, p, p_holm in zip(both, differences, shares, ps, holm(ps), strict=True):
        p_pairs = _t_test(row[~np.isnan(row)])
        found.append(JudgeComparison("accuracy", first.name, second.name, share, p, p_holm, p_pairs))
    return found


def paired_t(first: PairCredits, second: PairCredits) -> tuple[float | None, float | None]:
    """Mean difference of the credits on the pairs that both judged, and p of a two-sided t-test over these pairs."""
    difference = first.credit - second.credit
    used = difference[~np.isnan(difference)]
    return _mean(used), _t_test(used)


def _mean(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _task_sums(differences: FloatArray, task: IntArray) -> FloatArray:
    """[tasks, comparisons]: the sum of each row's differences on each task, NaN where there are none."""
    names, code = np.unique(task, return_inverse=True)
    sums = np.full((len(names), len(differences)), np.nan)
    for column, row in enumerate(differences):
        used = ~np.isnan(row)
        on = np.bincount(code[used], minlength=len(names)) > 0
        sums[on, column] = np.bincount(code[used], weights=row[used], minlength=len(names))[on]
    return sums


def rank_agreement(
    scores: PanelScores,
    ratings: FloatArray,
    *,
    coefficient: Coefficient = "spearman",
    convention: Convention = "default",
) -> float | None:
    """Mean over tasks of Spearman's coefficient, or of Kendall's tau-a or tau-b, of scores and ratings over the agents.

    ``ratings`` [tasks, agents], in the order of the scores.
    It is not defined for fewer than two responses in common, or equal ones (except tau-a). Such a task is left out by
    default, and counts 0 with the papers' convention.
    """
    by_task = rank_correlations(scores.score, ratings, coefficient)
    return _mean(by_task if convention == "default" else np.nan_to_num(by_task, nan=0.0))


def _t_test(differences: FloatArray) -> float | None:
    """Two-sided p; None: fewer than two pairs, or no spread."""
    n = len(differences)
    if n < 2 or differences.min() == differences.max():
        return None
    t = float(differences.mean() / (differences.std(ddof=1) / np.sqrt(n)))
    return float(2 * stdtr(n - 1, -abs(t)))
