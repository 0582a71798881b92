"""Whether a judge prefers the longer, or the more marked-up, of two responses that people find equally good.

One estimator for all judges: among pairs of responses to a task that differ in the feature, the rate at which the judge
prefers the one that has more of it, a tie counting half.

- *tied by people*: over pairs to which people give the same label. Without a bias 0.5 is expected.
- *adjusted*: over pairs that people decided, the mean of the rate where they prefer the one with more and of the rate
  where they prefer the one with less, both with equal weight. A judge that errs as often in either direction has 0.5,
  however often it errs.
- *all pairs*: the raw rate, with people's own rate for comparison. Better responses may be longer, so this alone does
  not show a bias.

For judges that rate or score, also the correlation of score and feature within groups of responses to one task with one
human rating (both minus their means in the group), Σ x y / sqrt(Σ x² Σ y²). It is neutral at 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.meta_evaluation.bias.report import (
    NO_SPREAD,
    BiasRow,
    Measured,
    Unavailable,
    mean_of_shares,
    measured_votes,
    row_of,
    share_rows,
)
from goldless.meta_evaluation.bias.votes import PairGrid, Votes, toward
from goldless.meta_evaluation.judges import numbers
from goldless.metrics.judgement_table import NEITHER
from goldless.statistics.bootstrap import Draws, Share, task_intervals
from goldless.studies import Study

NO_LABELS = "no labels, so only the raw rate is shown; better responses may have more of it"
ROUNDING = 1e-12
"""A sum of squares below this share of the squares themselves is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """A feature that can be counted in a response."""

    bias: Literal["length", "format"]
    more: str
    """The word for a response with more of it."""
    scale: str
    """What the values are, for the correlation."""
    values: FloatArray
    """[tasks, agents]; NaN: no response."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """People's labels of pairs and of responses."""

    verdicts: FloatArray
    """[tasks, pairs]: 1 low is better, 0 high, 0.5 a tie; NaN: no label."""
    ratings: FloatArray | None
    """[tasks, agents], NaN: none; None: people only compared."""


def text_features(study: Study, grid: PairGrid) -> tuple[Feature, Feature]:
    """Length and markup of every response."""
    words, marks = np.full((2, len(grid.tasks), len(grid.agents)), np.nan)
    number = numbers(grid.agents)
    for place, task in enumerate(grid.tasks):
        for response in study.responses(task):
            words[place, number[response.agent]] = math.log2(1 + count_words(response.text))
            marks[place, number[response.agent]] = count_format_marks(response.text)
    return Feature("length", "longer", "log words", words), Feature("format", "more marked-up", "format marks", marks)


def feature_rows(
    feature: Feature, grid: PairGrid, judges: Sequence[Votes], people: People | None, *, draws: Draws
) -> tuple[list[BiasRow], list[Unavailable]]:
    """Every judge's preference for the feature."""
    difference = grid.differences(feature.values)
    differs: BoolArray = ~np.isnan(difference) & (difference != 0)
    if not differs.any():
        return [], [Unavailable(feature.bias, f"no two responses to a task differ in {feature.scale}")]
    search = _FeatureSearch(feature, differs, difference < 0, draws)
    rows: list[BiasRow] = []
    unavailable, ratings = [Unavailable(feature.bias, NO_LABELS)], None
    if people is not None:
        rows, unavailable = search.beside_people(judges, people.verdicts)
        ratings = people.ratings
    rows += [row for judge in judges for row in search.correlated(judge, ratings)]
    return [*rows, *search.raw(judges, people)], unavailable


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureSearch:
    """One feature, and which of two responses has more of it."""

    feature: Feature
    differs: BoolArray
    """[tasks, pairs]: whether one has more of it."""
    turned: BoolArray
    """[tasks, pairs]: whether that is high."""
    draws: Draws

    def beside_people(self, judges: Sequence[Votes], verdicts: FloatArray) -> tuple[list[BiasRow], list[Unavailable]]:
        """Rates on pairs that people find tied, and adjusted ones on those they decided."""
        said, more = toward(verdicts, self.turned), self.feature.more
        tied = self.differs & (said == NEITHER)
        decided = self.differs & ~np.isnan(said) & (said != NEITHER)
        found = [self._measured(judge, tied) for judge in judges]
        rows = self._shares("tied by people", found, neutral=NEITHER)
        unavailable = []
        if not rows:
            reason = f"no judged pair with different {self.feature.scale} is tied by people"
            unavailable.append(Unavailable(self.feature.bias, reason))
        for judge in judges:
            asked, vote = judge.asked & decided, toward(judge.vote, self.turned)
            if asked.any():
                sides = [np.where(asked & (said == side), vote, np.nan) for side in (1, 0)]
                share, one = mean_of_shares(sides, draws=self.draws), self._measured(judge, decided)
                rows.append(row_of(share, self.feature.bias, f"{more} wins, adjusted", one, neutral=NEITHER))
        return rows, unavailable

    def raw(self, judges: Sequence[Votes], people: People | None) -> list[BiasRow]:
        """Rates over all pairs, including people's own."""
        found = [self._measured(judge, self.differs) for judge in judges]
        if people is not None:
            said = self.differs & ~np.isnan(people.verdicts)
            found.append(measured_votes("people", "people", toward(people.verdicts, self.turned), said))
        return self._shares("all pairs", found, neutral=None)

    def correlated(self, judge: Votes, ratings: FloatArray | None) -> list[BiasRow]:
        """The correlation of a scoring judge: at equal rating if there are ratings, else within tasks."""
        if judge.scores is None:
            return []
        given, neutral = ("within tasks", None) if ratings is None else ("at equal rating", 0.0)
        share, asked = within_correlation(judge.scores, self.feature.values, ratings, draws=self.draws)
        one = Measured(judge.name, judge.kind, np.empty(0), np.empty(0, np.int64), asked)
        measure = f"correlation with {self.feature.scale}, {given}"
        return [row_of(share, self.feature.bias, measure, one, neutral=neutral)]

    def _measured(self, judge: Votes, on: BoolArray) -> Measured:
        return measured_votes(judge.name, judge.kind, toward(judge.vote, self.turned), judge.asked & on)

    def _shares(self, on: str, found: Sequence[Measured], *, neutral: float | None) -> list[BiasRow]:
        asked = [one for one in found if one.asked]
        measure = f"{self.feature.more} wins, {on}"
        return share_rows(self.feature.bias, measure, asked, neutral=neutral, draws=self.draws)


def within_correlation(
    scores: FloatArray, feature: FloatArray, ratings: FloatArray | None, *, draws: Draws
) -> tuple[Share, int]:
    """Correlation of scores and feature [tasks, agents] within groups of one task and one rating, None: one task.

    Also how many responses it is about. Groups are within tasks, so sums of squares and products are sums over tasks,
    S_t, and whole tasks are resampled. The interval is that of Fisher's z = artanh r as the mean over the T tasks of
    z + T (Sxy_t / sqrt(Sxx Syy) - r / 2 (Sxx_t / Sxx + Syy_t / Syy)) / (1 - r²), which has the same value, and the same
    spread to first order. Groups in which the feature is the same for all carry no information and are left out.
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
        note = "no two responses to a task with the same label differ in this feature"
        return Share(None, None, None, 0, 0, level, note=note), asked
    sums = _sums_by_task(task[used], label[used], x[used], y[used])
    xx, yy, xy = sums.sum(axis=0)
    if yy <= ROUNDING * np.sum(y[used] ** 2):
        return Share(None, None, None, n, len(sums), level, note="the score does not vary at equal label"), asked
    r = float(xy / np.sqrt(xx * yy))
    if 1 - abs(r) <= ROUNDING:
        note = "no interval: the score is an exact function of the feature"
        return Share(r, None, None, n, len(sums), level, note=note), asked
    influence = sums[:, 2] / np.sqrt(xx * yy) - r / 2 * (sums[:, 0] / xx + sums[:, 1] / yy)
    linear = np.arctanh(r) + len(sums) * influence / (1 - r**2)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        return Share(r, None, None, n, found.n, level, note=found.note or NO_SPREAD), asked
    low, high = (float(np.tanh(end)) for end in (found.low, found.high))
    return Share(r, low, high, n, found.n, level, found.method), asked


def _varying(task: IntArray, label: FloatArray, x: FloatArray) -> BoolArray:
    """Which responses share their task and label with one that has more or less of the feature."""
    if not len(task):
        return np.zeros(0, dtype=np.bool_)
    group = _groups(task, label)
    least, most = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(least, group, x)
    np.maximum.at(most, group, x)
    found: BoolArray = (most > least)[group]
    return found


def _groups(task: IntArray, label: FloatArray) -> IntArray:
    _, group = np.unique(np.stack([task.astype(np.float64), label], axis=1), axis=0, return_inverse=True)
    numbered: IntArray = group.ravel()
    return numbered


def _sums_by_task(task: IntArray, label: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """[tasks, 3]: sums of squares of x and of y and of products, each less its mean in the group."""
    group = _groups(task, label)
    counts = np.bincount(group)
    x, y = (value - (np.bincount(group, weights=value) / counts)[group] for value in (x, y))
    _, code = np.unique(task, return_inverse=True)
    return np.stack([np.bincount(code, weights=value) for value in (x * x, y * y, x * y)], axis=1)


# --- what is counted -----------------------------------------------------------------------------------------------

# Chinese and Japanese are written without spaces: each sign stands for a word
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+(?:['\u2019-][^\W{_SIGN}]+)*")

FORMAT_MARKS: Mapping[str, re.Pattern[str]] = {
    "headings": re.compile(r"^[ ]{0,3}#{1,6}[ \t]+\S|<h[1-6]\b", re.MULTILINE | re.IGNORECASE),
    "list items": re.compile(
        r"^[ \t]*(?:[-*+\u2022\u2023\u25e6\u25aa]|\d{1,3}[.)])[ \t]+\S|<li\b", re.MULTILINE | re.IGNORECASE
    ),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|(?<!\w)__[^_\n]+__(?!\w)|<(?:b|strong)>", re.IGNORECASE),
    "table rows": re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE),
}
"""Marks that are counted: Markdown, plain bullets and their HTML equivalents."""


def count_words(text: str) -> int:
    """Number of words; "don't" and "well-known" are one word each, as is each Chinese or Japanese character."""
    return sum(1 for _ in _WORD.finditer(text))


def count_format_marks(text: str) -> int:
    """Number of headings, list items, bold passages and table rows."""
    return sum(1 for pattern in FORMAT_MARKS.values() for _ in pattern.finditer(text))
