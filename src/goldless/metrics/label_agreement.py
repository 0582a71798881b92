"""Agreement with people: how often a reviewer or a panel prefers the same response as the labels.

Every judgement of a labelled pair earns a credit: 1 where it agrees, 0 where it does not, 0.5 where it finds neither
better. Accuracy is the mean credit over pairs; pairs of one task are not independent, so its interval comes from
resampling tasks. PRE and Auto-PRE also give missing judgements 0.5; by default they are left out and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError
from goldless.metrics.chair import PanelScores, PanelVerdicts, panel_verdicts, reviewer_scores
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements, ResponseRatings
from goldless.metrics.pair_labels import PairLabels
from goldless.statistics.bootstrap import USUAL, Draws, Estimate, task_intervals, task_shares
from goldless.statistics.comparisons import holm, sign_flip_ps
from goldless.statistics.rank_correlation import Coefficient, rank_correlations


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
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
    KEYS = (
        *("name", "accuracy:share.value", "low:share.low", "high:share.high", "n_pairs", "asked", "used:share.n"),
        *("tied", "n_tasks:share.n_tasks", "level:share.level", "method:share.method", "convention"),
        *("note:share.note", "*", "missing"),
    )

    @property
    def missing(self) -> int:
        """Pairs without a judgement although one was requested."""
        return self.asked - self.share.n


@dataclass(frozen=True, slots=True)
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
    KEYS = (
        *("statistic", "first", "second", "difference:difference.value", "low:difference.low", "high:difference.high"),
        *("p", "p_holm", "n:difference.n", "n_tasks:difference.n_tasks", "p_pairs"),
    )


def reviewer_credits(
    judgements: PairJudgements | ResponseRatings, labels: PairLabels, *, convention: Convention = "default"
) -> dict[str, PairCredits]:
    """Each reviewer's credits: comparisons are scored in each order and averaged, ratings by their difference.

    By default a pair is missing where one of the requested orders is.
    """
    if isinstance(judgements, ResponseRatings):
        return {
            name: score_credits(
                reviewer_scores(judgements, name, convention=convention), labels, name=name, convention=convention
            )
            for name in judgements.reviewers
        }
    labels = labels.decided()
    place = judgements.places(labels)
    leans = np.sign(judgements.leans(convention))
    votes, found = judgements.votes(leans), {}
    for name, own, voted, asked in zip(judgements.reviewers, leans, votes, judgements.asked, strict=True):
        earned = _credits(name, labels, place, voted, asked.any(axis=1), convention=convention)
        tied = int((own[place[~np.isnan(earned.credit)]] == 0).sum())
        found[name] = replace(earned, tied=tied)
    return found


def panel_credits(
    verdicts: PanelVerdicts, labels: PairLabels, *, name: str = "panel", convention: Convention = "default"
) -> PairCredits:
    """The credits of a panel's vote."""
    labels = labels.decided()
    votes, asked = np.sign(verdicts.margin), verdicts.asked > 0
    return _credits(name, labels, verdicts.places(labels), votes, asked, convention=convention)


def with_each_order(
    earned: PairCredits, judgements: PairJudgements, *, weights: Mapping[str, float] | None = None
) -> PairCredits:
    """The credits of a panel with those of its votes in each order on its own."""
    orders = []
    for order in (0, 1):
        verdicts = panel_verdicts(judgements.in_order(order), weights=weights, convention=earned.convention)
        orders.append(panel_credits(verdicts, earned.labels, convention=earned.convention).credit)
    known = ~np.isnan(orders)
    total, count = np.where(known, orders, 0.0).sum(axis=0), known.sum(axis=0)
    return replace(earned, each_order=np.where(count > 0, total / np.maximum(count, 1), np.nan))


def score_credits(
    scores: PanelScores, labels: PairLabels, *, name: str = "panel", convention: Convention = "default"
) -> PairCredits:
    """The credits of scores: of two responses to a task the one with the higher score is better."""
    labels = labels.decided()
    if (labels.tasks, labels.agents) != (scores.tasks, scores.agents):
        raise MetricError("labels and scores must have the same tasks and agents in the same order")
    task, low, high = labels.task, labels.low, labels.high
    votes = np.sign(scores.score[task, low] - scores.score[task, high])
    asked = (scores.asked[task, low] > 0) & (scores.asked[task, high] > 0)
    return _credits(name, labels, np.arange(len(task)), votes, asked, convention=convention)


def _credits(
    name: str, labels: PairLabels, place: IntArray, votes: FloatArray, asked: BoolArray, *, convention: Convention
) -> PairCredits:
    """The credits of votes from -1 to 1, positive for low; ``place``: which is on each label's pair, -1: none."""
    votes, asked = np.append(votes, np.nan)[place], np.append(asked, False)[place]
    if convention != "default":
        votes = np.nan_to_num(votes)
    credit: FloatArray = np.where(asked, (1 + votes * labels.sign) / 2, np.nan)
    return PairCredits(name, labels, credit, asked, int((credit == NEITHER).sum()), convention)


def accuracies(judges: Sequence[PairCredits], **draws: Unpack[Draws]) -> list[Accuracy]:
    """The mean credit of each judge over the pairs it judged, with an interval from resampling tasks.

    All must have the same labels, and share the same resampled tasks.
    """
    if not judges:
        return []
    for other in judges[1:]:
        _check_same_labels(judges[0], other)
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
    for other in judges[1:]:
        _check_same_labels(judges[0], other)
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
    _check_same_labels(first, second)
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
    **draws: Unpack[Draws],
) -> Estimate:
    """Mean over tasks of Spearman's coefficient, or of Kendall's tau-a or tau-b, of scores and ratings over the agents.

    ``ratings`` [tasks, agents], in the order of the scores.
    It is not defined for fewer than two responses in common, or equal ones (except tau-a). Such a task is left out by
    default, and counts 0 with the papers' convention.
    """
    by_task = rank_correlations(scores.score, ratings, coefficient)
    if convention != "default":
        by_task = np.nan_to_num(by_task, nan=0.0)
    return task_intervals(by_task[:, None], **draws)[0]


def _check_same_labels(first: PairCredits, second: PairCredits) -> None:
    one, other = first.labels, second.labels
    columns = ((one.task, other.task), (one.low, other.low), (one.high, other.high), (one.sign, other.sign))
    if not all(np.array_equal(mine, theirs) for mine, theirs in columns):
        raise MetricError(
            f"{first.name} and {second.name} were compared with different labels. Use the same labels for both"
        )


def _t_test(differences: FloatArray) -> float | None:
    """Two-sided p; None: fewer than two pairs, or no spread."""
    n = len(differences)
    if n < 2 or differences.min() == differences.max():
        return None
    t = float(differences.mean() / (differences.std(ddof=1) / np.sqrt(n)))
    return float(2 * stdtr(n - 1, -abs(t)))
