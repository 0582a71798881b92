"""Whether a judge prefers the longer, or the more marked-up, of two responses that people find equally good.

One estimator for all judges: among pairs of responses to a task that differ in the feature, the rate at which the judge
prefers the one that has more of it, a tie counting half.

- *tied by people*: over pairs to which people give the same label. Without a bias 0.5 is expected.
- *adjusted*: over pairs that people decided, the mean of the rate where they prefer the one with more and of the rate
  where they prefer the one with less, both with equal weight. A judge that errs as often in either direction has 0.5,
  however often it errs.
- *all pairs*: as it is. Better responses may be the longer ones, so this alone shows no bias; people's own rate stands
  beside it.

For judges that rate or score, also the correlation of score and feature within groups of responses to one task with one
human rating (both less their means in the group), Σ x y / sqrt(Σ x² Σ y²). It is neutral at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.bias.judges import Judge, PairGrid
from goldless.meta_evaluation.bias.rows import (
    NO_SPREAD,
    BiasRow,
    Draws,
    Unavailable,
    mean_of_shares,
    measured_on_pairs,
    row_of,
    share_rows,
)
from goldless.metrics.judgement_table import NEITHER
from goldless.metrics.shares import Share
from goldless.statistics.bootstrap import task_intervals

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

NO_LABELS = "no labels: only the raw rate can be shown, and a better response may have more of it"
ROUNDING = 1e-12
"""A sum of squares below this share of the squares themselves is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """Something that can be counted in a response."""

    bias: Literal["length", "format"]
    more: str
    """What a response with more of it is called."""
    scale: str
    """What the values are, for the correlation."""
    values: FloatArray
    """[tasks, agents]; NaN: no response."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What people said of pairs and of responses."""

    verdicts: FloatArray
    """[tasks, pairs]: 1 low is better, 0 high, 0.5 a tie; NaN: no label."""
    ratings: FloatArray | None
    """[tasks, agents], NaN: none; None: people only compared."""


def feature_rows(
    feature: Feature, grid: PairGrid, judges: Sequence[Judge], people: People | None, *, draws: Draws
) -> tuple[list[BiasRow], list[Unavailable]]:
    """Every judge's preference for the feature."""
    difference = grid.differences(feature.values)
    differs: BoolArray = ~np.isnan(difference) & (difference != 0)
    if not differs.any():
        return [], [Unavailable(feature.bias, f"no two responses to a task differ in {feature.scale}")]
    rows: list[BiasRow] = []
    unavailable: list[Unavailable] = []
    turned = difference < 0
    if people is not None:
        verdicts = np.where(turned, 1 - people.verdicts, people.verdicts)
        tied, decided = differs & (verdicts == NEITHER), differs & ~np.isnan(verdicts) & (verdicts != NEITHER)
        for judge in judges:
            rows += _at_equal_label(feature, judge, turned, tied, draws=draws)
        if not rows:
            unavailable.append(
                Unavailable(feature.bias, f"no judged pair with different {feature.scale} is tied by people")
            )
        for judge in judges:
            rows += _adjusted(feature, judge, turned, verdicts, decided, draws=draws)
        for judge in judges:
            rows += _correlated(feature, judge, people.ratings, draws=draws)
    else:
        unavailable.append(Unavailable(feature.bias, NO_LABELS))
        for judge in judges:
            rows += _correlated(feature, judge, None, draws=draws)
    raw = [
        measured_on_pairs(judge.name, judge.kind, _for_more(judge.vote, turned), judge.asked & differs)
        for judge in judges
    ]
    if people is not None:
        said = differs & ~np.isnan(people.verdicts)
        raw.append(measured_on_pairs("people", "people", _for_more(people.verdicts, turned), said))
    measure = f"{feature.more} wins, all pairs"
    rows += share_rows(feature.bias, measure, [one for one in raw if one.asked.any()], neutral=None, draws=draws)
    return rows, unavailable


def _for_more(vote: FloatArray, turned: BoolArray) -> FloatArray:
    found: FloatArray = np.where(turned, 1 - vote, vote)
    return found


def _at_equal_label(
    feature: Feature, judge: Judge, turned: BoolArray, tied: BoolArray, *, draws: Draws
) -> list[BiasRow]:
    asked = judge.asked & tied
    if not asked.any():
        return []
    one = measured_on_pairs(judge.name, judge.kind, _for_more(judge.vote, turned), asked)
    return share_rows(feature.bias, f"{feature.more} wins, tied by people", [one], neutral=NEITHER, draws=draws)


def _adjusted(
    feature: Feature, judge: Judge, turned: BoolArray, verdicts: FloatArray, decided: BoolArray, *, draws: Draws
) -> list[BiasRow]:
    asked = judge.asked & decided
    if not asked.any():
        return []
    vote = _for_more(judge.vote, turned)
    sides = [np.where(asked & (verdicts == side), vote, np.nan) for side in (1, 0)]
    share = mean_of_shares(sides, draws=draws)
    one = measured_on_pairs(judge.name, judge.kind, vote, asked)
    return [row_of(share, feature.bias, f"{feature.more} wins, adjusted", one, neutral=NEITHER)]


def _correlated(feature: Feature, judge: Judge, ratings: FloatArray | None, *, draws: Draws) -> list[BiasRow]:
    """The correlation of a scoring judge: at equal rating where there are ratings, else within tasks as it is."""
    if judge.scores is None:
        return []
    given = "at equal rating" if ratings is not None else "within tasks"
    share, asked = within_correlation(judge.scores, feature.values, ratings, draws=draws)
    return [
        BiasRow(
            bias=feature.bias,
            judge=judge.name,
            kind=judge.kind,
            measure=f"correlation with {feature.scale}, {given}",
            value=share.value,
            low=share.low,
            high=share.high,
            neutral=None if ratings is None else 0.0,
            asked=asked,
            used=share.n,
            n_tasks=share.n_tasks,
            level=share.level,
            method=share.method,
            note=share.note,
        )
    ]


def within_correlation(
    scores: FloatArray, feature: FloatArray, ratings: FloatArray | None, *, draws: Draws
) -> tuple[Share, int]:
    """Correlation of scores and feature [tasks, agents] within groups of one task and one rating, None: one task.

    Also how many responses it is about. Groups lie within tasks, so sums of squares and products are sums over tasks,
    S_t, and whole tasks are resampled. The interval is that of Fisher's z = artanh r as the mean over the T tasks of
    z + T (Sxy_t / sqrt(Sxx Syy) - r / 2 (Sxx_t / Sxx + Syy_t / Syy)) / (1 - r²), which has the same value, and the same
    spread to first order. Groups in which the feature is the same for all tell nothing and are not asked.
    """
    known = ~np.isnan(feature) if ratings is None else ~np.isnan(feature) & ~np.isnan(ratings)
    task, agent = np.nonzero(known)
    x, y = feature[known], scores[known]
    label = np.zeros(len(x)) if ratings is None else ratings[task, agent]
    about = _varying(task, label, x)
    used = about & ~np.isnan(y)
    used[used] = _varying(task[used], label[used], x[used])
    asked, n, level = int(about.sum()), int(used.sum()), draws["level"]
    if not n:
        note = "no two responses to a task with the same label differ in it"
        return Share(None, None, None, 0, 0, level, note=note), asked
    sums = _sums_by_task(task[used], label[used], x[used], y[used])
    xx, yy, xy = sums.sum(axis=0)
    if yy <= ROUNDING * np.sum(y[used] ** 2):
        return Share(None, None, None, n, len(sums), level, note="the score does not vary at equal label"), asked
    r = float(xy / np.sqrt(xx * yy))
    if 1 - abs(r) <= ROUNDING:
        return Share(
            r, None, None, n, len(sums), level, note="no interval: score and feature go exactly together"
        ), asked
    influence = sums[:, 2] / np.sqrt(xx * yy) - r / 2 * (sums[:, 0] / xx + sums[:, 1] / yy)
    linear = np.arctanh(r) + len(sums) * influence / (1 - r**2)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        return Share(r, None, None, n, found.n, level, note=found.note or NO_SPREAD), asked
    low, high = (float(np.tanh(end)) for end in (found.low, found.high))
    return Share(r, low, high, n, found.n, level, found.method), asked


def _varying(task: npt.NDArray[np.int64], label: FloatArray, x: FloatArray) -> BoolArray:
    """Which responses share their task and label with one that has more or less of the feature."""
    if not len(task):
        return np.zeros(0, dtype=np.bool_)
    group = _groups(task, label)
    least, most = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(least, group, x)
    np.maximum.at(most, group, x)
    found: BoolArray = (most > least)[group]
    return found


def _groups(task: npt.NDArray[np.int64], label: FloatArray) -> npt.NDArray[np.int64]:
    _, group = np.unique(np.stack([task.astype(np.float64), label], axis=1), axis=0, return_inverse=True)
    numbered: npt.NDArray[np.int64] = group.ravel()
    return numbered


def _sums_by_task(task: npt.NDArray[np.int64], label: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """[tasks, 3]: sums of squares of x and of y and of products, each less its mean in the group."""
    group = _groups(task, label)
    counts = np.bincount(group)
    x, y = (value - (np.bincount(group, weights=value) / counts)[group] for value in (x, y))
    _, code = np.unique(task, return_inverse=True)
    return np.stack([np.bincount(code, weights=value) for value in (x * x, y * y, x * y)], axis=1)
