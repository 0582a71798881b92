"""The chair: combines the weighted votes or ratings of several reviewers on a pair or a response.

Pairs. Each reviewer's vote on a pair is the mean over the orders it was asked in, between -1 (high is better) and 1
(low is). The panel's margin is Σ w_l vote_l / Σ |w_l| over the reviewers that voted; its sign is the verdict (PRE,
equation 4, where W normalises). Margins within ``TIED`` of zero are exact ties: with weights such as 0.1 and 0.2,
summation in floating point turns ties into wins.

Responses. Scores are weighted means of the ratings as they are (Auto-PRE), or of each reviewer's ratings less their
mean, in standard deviations (PRE, equation 3). Absent ratings shift no level: a reviewer's level is what its mean would
be if the ratings that it lacks were those of the additive fit (reviewer + response, ``statistics.additive``). The
deviations from these levels are averaged over the reviewers that rated the response; as they are, a rating that a
reviewer lacks is taken to be its level plus this average, but never beyond the ratings that were given. A reviewer
without a rating counts for nothing, and in standard deviations one whose ratings are all the same. With all ratings
present this is the plain weighted mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import MetricError
from goldless.metrics.judgement_table import (
    Convention,
    PairJudgements,
    ResponsePairs,
    ResponseRatings,
    reviewer_numbers,
)
from goldless.statistics.additive import scores_over_tasks

TIED = 1e-9
"""Margins and scores that differ by no more than this, on the scale of their largest, are equal."""
Normalisation = Literal["z", "raw"]
"""``z``: each reviewer's ratings less their mean, in standard deviations. ``raw``: as they are."""


@dataclass(frozen=True, eq=False)
class PanelVerdicts(ResponsePairs):
    """The panel's verdict on each pair."""

    margin: FloatArray
    """[pairs], from -1 to 1; positive: low is better; exactly 0: a tie; NaN: no reviewer voted."""
    asked: IntArray
    """[pairs]: number of judgements requested."""
    used: IntArray
    """[pairs]: number of judgements that voted."""

    @property
    def verdict(self) -> FloatArray:
        """[pairs]: 1 low is better, 0 high is, 0.5 a tie, NaN missing."""
        return (np.sign(self.margin) + 1) / 2


@dataclass(frozen=True, eq=False)
class PanelScores:
    """The panel's score of each response."""

    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    score: FloatArray
    """[tasks, agents], equal where only rounding differs; NaN: no reviewer rated it."""
    asked: IntArray
    """[tasks, agents]: number of ratings requested."""
    used: IntArray
    """[tasks, agents]: number of ratings used."""
    normalisation: Normalisation = "raw"


def panel_verdicts(
    judgements: PairJudgements,
    *,
    weights: Mapping[str, float] | None = None,
    convention: Convention = "default",
) -> PanelVerdicts:
    """The weighted vote on every pair; only reviewers in ``weights`` vote (None: all, equally).

    By default a reviewer abstains from a pair where one of the orders it was asked in is missing: reviewers prefer one
    position to the other, so only both orders together are fair. With the papers' convention a missing judgement counts
    as no preference. A negative weight reverses a reviewer's votes.
    """
    chosen = voting_weights(judgements.reviewers, weights)
    judgements = judgements.of(list(chosen))
    votes = judgements.votes(judgements.leans(convention))
    voting = ~np.isnan(votes)
    weight = np.array(list(chosen.values()))[:, None]
    total = (np.abs(weight) * voting).sum(axis=0)
    margin = np.full(votes.shape[1], np.nan)
    np.divide((weight * np.nan_to_num(votes)).sum(axis=0), total, out=margin, where=total > 0)
    margin[np.abs(margin) <= TIED] = 0.0
    return PanelVerdicts(
        judgements.tasks,
        judgements.agents,
        judgements.task,
        judgements.low,
        judgements.high,
        margin=margin,
        asked=judgements.asked.sum(axis=(0, 2)),
        used=(judgements.asked & voting[:, :, None] & ~np.isnan(judgements.value)).sum(axis=(0, 2)),
    )


def panel_scores(
    ratings: ResponseRatings,
    *,
    weights: Mapping[str, float] | None = None,
    normalisation: Normalisation = "z",
    convention: Convention = "default",
) -> PanelScores:
    """Return the weighted mean rating of every response; only reviewers in ``weights`` count (None: all, equally).

    With the papers' convention a missing rating counts 0. A raw score stays within the ratings that were given.
    """
    chosen = voting_weights(ratings.reviewers, weights)
    ratings = ratings.of(list(chosen))
    values = ratings.filled(convention)
    has_ratings = ~np.isnan(values).all(axis=(1, 2))
    weight = np.array(list(chosen.values()))[has_ratings]
    fused = _fused(values[has_ratings], weight, normalisation)
    return PanelScores(
        ratings.tasks,
        ratings.agents,
        score=fused,
        asked=ratings.asked.sum(axis=0),
        used=(~np.isnan(ratings.value)).sum(axis=0),
        normalisation=normalisation,
    )


def _fused(values: FloatArray, weight: FloatArray, normalisation: Normalisation) -> FloatArray:
    """Return the scores [tasks, agents] of values [reviewers, tasks, agents]; every reviewer has a rating."""
    reviewers, *shape = values.shape
    if not reviewers:
        return np.full(shape, np.nan)
    by_response = values.reshape(reviewers, -1).T
    present = ~np.isnan(by_response)
    levels = scores_over_tasks(by_response)
    deviations = np.where(present, by_response - levels, 0.0)
    if normalisation == "raw":
        likely = levels + _means_of_present(deviations, present, np.abs(weight))[:, None]
        # each absent rating is kept on the scale, not the mean: or responses would tie at its end
        filled = np.where(present, by_response, np.clip(likely, np.nanmin(by_response), np.nanmax(by_response)))
        score = filled @ weight / np.abs(weight).sum()
        return _levelled(score.reshape(shape), TIED * float(np.nanmax(np.abs(by_response))))
    varies = _vary(by_response)
    spreads = np.where(varies, np.nanstd(by_response, axis=0), 1.0)
    standardised = np.where(varies, deviations / spreads, 0.0)
    # a reviewer that prefers none has no vote: its zeros would move what it rated towards the middle
    score = _means_of_present(standardised, present & varies if varies.any() else present, weight)
    return _levelled(score.reshape(shape), TIED * float(np.abs(standardised).max()))


def _means_of_present(deviations: FloatArray, present: BoolArray, weight: FloatArray) -> FloatArray:
    """Return the weighted mean over the reviewers that rated each response, NaN where none did.

    ``deviations`` [responses, reviewers]: 0 where a rating is absent. A negative weight reverses a deviation.
    """
    total_weight = present @ np.abs(weight)
    means = np.full(len(deviations), np.nan)
    np.divide(deviations @ weight, total_weight, out=means, where=total_weight > 0)
    return means


def _vary(by_response: FloatArray) -> BoolArray:
    """Return True for each reviewer that gives not all responses the same rating."""
    means, spreads = np.nanmean(by_response, axis=0), np.nanstd(by_response, axis=0)
    return np.asarray(spreads > TIED * np.maximum(1.0, np.abs(means)))


def usual_fusion(convention: Convention) -> Normalisation:
    """The way ratings are added up: z-normalised by default and in PRE, raw in Auto-PRE."""
    return "raw" if convention in {"paper", "auto-pre"} else "z"


def reviewer_scores(ratings: ResponseRatings, reviewer: str, *, convention: Convention = "default") -> PanelScores:
    """One reviewer's raw ratings, as the scores of a panel of one."""
    own = ratings.of([reviewer])
    asked, used = own.asked[0].astype(np.int64), (~np.isnan(own.value[0])).astype(np.int64)
    return PanelScores(own.tasks, own.agents, own.filled(convention)[0], asked, used)


def voting_weights(reviewers: tuple[str, ...], weights: Mapping[str, float] | None) -> dict[str, float]:
    """The reviewers that have a vote, with their weights; None: all, equally."""
    if weights is None:
        return dict.fromkeys(reviewers, 1.0)
    for reviewer, weight in weights.items():
        if not math.isfinite(weight):
            raise MetricError(f"the weight of {reviewer} must be a finite number, got {weight}")
    chosen = {reviewer: float(weight) for reviewer, weight in weights.items() if weight != 0}
    if not chosen:
        raise MetricError(
            "no reviewer has a vote. Give at least one reviewer a weight other than 0, or lower a threshold"
        )
    reviewer_numbers(reviewers, list(chosen))
    return chosen


def _levelled(score: FloatArray, tolerance: float) -> FloatArray:
    """The scores with those set equal that differ by rounding only, so that they can be compared exactly."""
    places = np.flatnonzero(~np.isnan(score))
    values = score.ravel()[places]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.concatenate([[True], np.diff(ordered) > tolerance]) if len(ordered) else np.zeros(0, dtype=bool)
    levelled = score.copy()
    levelled.ravel()[places[order]] = ordered[new][np.cumsum(new) - 1] if len(ordered) else ordered
    return levelled
