"""Effective votes: how many independent votes a panel is worth, given that its judges err on the same items.

n_eff = k / (1 + (k - 1) r) for k judges with equal votes (Kish's design effect), r the mean over any two of them of the
correlation on the items both judged. Of *errors*, |vote - label|, where labels exist. Of the *votes* themselves where
not: judges that are right also agree, so r is too high and n_eff too low as a rule. A negative r counts as 0: a panel
is not worth more votes than it has judges. n_eff counts independence, not quality: a judge that guesses is independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import listed
from goldless.statistics.bootstrap import LEVEL, Draws, Estimate, groups_left_out, left_out_intervals

NO_SPREAD = 1e-12


@dataclass(frozen=True)
class SharedErrors:
    """The correlation of two judges' errors, or of their votes."""

    first: str
    second: str
    correlation: float
    n: int
    """Items that both judged."""

    def other(self, judge: str) -> str | None:
        """The other one of the two; None: the judge is none of them."""
        return {self.first: self.second, self.second: self.first}.get(judge)


@dataclass(frozen=True)
class EffectiveVotes:
    """The worth of a panel."""

    judges: int
    """Judges that are compared."""
    votes: Estimate
    """n_eff; ``n``: items that at least two judged."""
    correlation: float | None = None
    """Mean over all two of them."""
    between: tuple[SharedErrors, ...] = ()
    """Of each two; without those that have none."""


def kish(judges: int, correlation: float) -> float:
    """n_eff of judges with equal votes whose errors correlate; within 1 and their number."""
    return judges / (1 + (judges - 1) * min(1.0, max(0.0, correlation)))


def effective_votes(
    values: FloatArray,
    task: IntArray,
    names: Sequence[str],
    *,
    centre: float | None = None,
    **draws: Unpack[Draws],
) -> EffectiveVotes:
    """n_eff from values [judges, items] with NaN where a judge gave none; the interval is by resampling tasks.

    ``centre``: deviations are from this value; None: from each judge's mean. With votes between 0 and 1 and a centre of
    0.5, it does not matter which response of a pair is named first.
    """
    level = draws.get("level", LEVEL)
    if len(values) < 2:
        return EffectiveVotes(len(values), Estimate(float(len(values)), level=level, note="one judge is one vote"))
    there = ~np.isnan(values)
    kept = there.sum(axis=0) >= 2
    values, there, task = values[:, kept], there[:, kept], task[kept]
    middle = np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1) if centre is None else centre
    apart_from = np.abs(values.T - middle).T  # whether its values differ from each other, or from the centre
    varied = np.max(apart_from, axis=1, initial=0.0, where=there) > NO_SPREAD
    same = [name for name, varies in zip(names, varied, strict=True) if not varies]
    names = [name for name, varies in zip(names, varied, strict=True) if varies]
    notes = [f"left out for having the same value on every pair: {', '.join(same)}"] * bool(same)
    n, n_tasks = int(kept.sum()), len(np.unique(task))
    if len(names) < 2:
        why = "no two judged the same pair" if not n else "; ".join(notes)
        return EffectiveVotes(len(names), Estimate(n=n, level=level, note=why, n_tasks=n_tasks))
    sums, of_group = _sums(values[varied], there[varied], groups_left_out(task)[0])
    table = _correlations(sums[None], centre)[0]
    upper = np.triu_indices(len(names), 1)
    mean = _mean(table[None], upper)[0]
    apart = [(names[i], names[j]) for i, j in zip(*upper, strict=True) if np.isnan(table[i, j])]
    if apart:
        shown = listed([f"{one} and {other}" for one, other in apart])
        notes.append(f"no correlation, for want of pairs that both judged with some spread: {shown}")
    unknown = Estimate(n=n, level=level, note="; ".join(notes) or None, n_tasks=n_tasks)
    if np.isnan(mean):
        return EffectiveVotes(len(names), unknown)
    without = _mean(_correlations(sums[None] - of_group, centre), upper)
    shrunk = np.array([kish(len(names), one) if not np.isnan(one) else np.nan for one in without])
    found = kish(len(names), float(mean))
    (interval,) = left_out_intervals(
        [found], shrunk[:, None], n_tasks=n_tasks, lowest=1.0, highest=float(len(names)), **draws
    )
    between = tuple(
        SharedErrors(names[i], names[j], float(table[i, j]), int(sums[0][i, j]))
        for i, j in itertools.combinations(range(len(names)), 2)
        if not np.isnan(table[i, j])
    )
    votes = replace(unknown, value=found)
    if len(without) > 1:
        votes = replace(votes, low=interval.low, high=interval.high, method=interval.method)
    return EffectiveVotes(len(names), votes, float(mean), between)


def _sums(values: FloatArray, there: BoolArray, group: IntArray) -> tuple[FloatArray, FloatArray]:
    """Sums over the items that both of two judges have, in all and by group: n, x, x squared and x y.

    [4, judges, judges] and [groups, 4, judges, judges]; of x and x squared, x is the row's judge.
    """
    known, has = np.where(there, values, 0.0), there.astype(np.float64)
    found = []
    for number in range(int(group.max()) + 1):
        x, m = known[:, group == number], has[:, group == number]
        found.append(np.stack([m @ m.T, x @ m.T, x**2 @ m.T, x @ x.T]))
    of_group = np.stack(found)
    return of_group.sum(axis=0), of_group


def _correlations(sums: FloatArray, centre: float | None) -> FloatArray:
    """[some, judges, judges] from sums [some, 4, judges, judges]; NaN where there is no spread."""
    n, x, squares, products = (sums[:, i] for i in range(4))
    y = x.transpose(0, 2, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_x, mean_y = (x / n, y / n) if centre is None else (centre, centre)
        covariance = products - mean_y * x - mean_x * y + n * mean_x * mean_y
        variance = squares - 2 * mean_x * x + n * mean_x**2
        scale = variance * variance.transpose(0, 2, 1)
        table: FloatArray = np.where(scale > NO_SPREAD * np.maximum(n, 1) ** 2, covariance / np.sqrt(scale), np.nan)
    return table


def _mean(tables: FloatArray, upper: tuple[IntArray, IntArray]) -> FloatArray:
    """The mean correlation of each table; NaN where none is defined."""
    above = tables[:, upper[0], upper[1]]
    defined = ~np.isnan(above)
    found: FloatArray = np.full(len(tables), np.nan)
    np.divide(np.where(defined, above, 0.0).sum(axis=1), defined.sum(axis=1), out=found, where=defined.any(axis=1))
    return found
