"""Effect sizes: how far two sets of scores lie apart, in standard deviations or as a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.statistics.bootstrap import Draws, Method, task_intervals

Members = Sequence[int] | Sequence[bool] | npt.NDArray[np.bool_] | npt.NDArray[np.integer]
NO_SPREAD = 1e-12
"""A variance below this share of the mean square is rounding."""


@dataclass(frozen=True, slots=True)
class EffectSize:
    """A standardised difference with its interval."""

    value: float | None
    """None: not defined, ``note`` says why."""
    low: float | None
    """None: no interval, ``note`` says why."""
    high: float | None
    n: int
    """Tasks used (clusters, where they were given)."""
    level: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """The first group of agents against the second, on tasks where both have a score."""

    difference: float | None
    """Mean over tasks of (mean of the first group - mean of the second); None: no common task."""
    low: float | None
    """The interval of the difference; None: ``notes`` say why."""
    high: float | None
    d_task: float | None
    """Difference / its standard deviation over tasks. Averaging over agents inflates it: read the next two first."""
    d_response: float | None
    """Standardised mean difference of single responses."""
    auc: float | None
    """Probability that a response of the first group scores above one of the second, ties half."""
    n_tasks: int
    """Tasks used."""
    n_first: int
    """Responses of the first group used."""
    n_second: int
    level: float
    method: Method | None
    """How the interval was made; None: there is none."""
    notes: tuple[str, ...] = ()
    """Why a number is missing."""


def pooled_smd(
    before: FloatArray, after: FloatArray, *, clusters: Sequence[object] | None = None, level: float = 0.95
) -> EffectSize:
    """(mean after - mean before) / sqrt((variance before + variance after) / 2), with variances of n - 1 (GEM, 4.2).

    Position i of both is the same sample, before and after something was done to it; one without both scores (NaN) is
    left out. ``clusters`` names each sample's task where a task has several: whole tasks are left out for the interval.
    """
    before, after = _column(before, "before"), _column(after, "after")
    if len(before) != len(after):
        raise UserError(f"{len(before)} scores before and {len(after)} after came; position i of both is one sample")
    both = ~(np.isnan(before) | np.isnan(after))
    codes, n = _codes(clusters, both)
    before, after = before[both], after[both]
    value, note = _smd(before, after)
    if value is None:
        return EffectSize(None, None, None, n, level, note)
    centre = np.median(np.concatenate([before, after]))
    before, after = before - centre, after - centre
    sums = _sums([np.ones_like(before), before, before**2, after, after**2], codes)

    def smd(s: FloatArray) -> FloatArray:
        spread = np.sqrt((_variance(s[:, 0], s[:, 1], s[:, 2]) + _variance(s[:, 0], s[:, 3], s[:, 4])) / 2)
        return (s[:, 3] - s[:, 1]) / s[:, 0] / np.where(spread > 0, spread, np.nan)

    return _with_interval(value, sums, smd, level)


def paired_d(differences: FloatArray, *, clusters: Sequence[object] | None = None, level: float = 0.95) -> EffectSize:
    """Mean difference / standard deviation of the differences (n - 1), NaN left out.

    The deviation shrinks with everything a difference was averaged over, so the value says how surely two sets of
    agents are told apart over tasks, not how far apart two responses lie.
    """
    differences = _column(differences, "differences")
    present = ~np.isnan(differences)
    codes, n = _codes(clusters, present)
    used = differences[present]
    note = _no_spread(used, "differences")
    if note is not None:
        return EffectSize(None, None, None, n, level, note)
    centre = np.median(used)
    sums = _sums([np.ones_like(used), used - centre, (used - centre) ** 2], codes)

    def standardised(s: FloatArray) -> FloatArray:
        spread = np.sqrt(_variance(s[:, 0], s[:, 1], s[:, 2]))
        return (centre + s[:, 1] / s[:, 0]) / np.where(spread > 0, spread, np.nan)

    return _with_interval(float(used.mean() / used.std(ddof=1)), sums, standardised, level)


def auc(first: FloatArray, second: FloatArray) -> float | None:
    """Probability that a value of the first exceeds one of the second, a tie counting half; NaN left out.

    None: one of them has no value.
    """
    first, second = (x[~np.isnan(x)] for x in (_column(first, "first"), _column(second, "second")))
    if not len(first) or not len(second):
        return None
    second = np.sort(second)
    below = np.searchsorted(second, first, side="left") + np.searchsorted(second, first, side="right")
    return float(below.sum() / (2 * len(first) * len(second)))


def compare_groups(
    values: FloatArray,
    first: Members,
    second: Members,
    **draws: Unpack[Draws],
) -> GroupComparison:
    """Columns ``first`` of ``values`` [tasks, agents] against columns ``second``; NaN marks a missing score.

    A group is a list of column numbers or a mask over columns; an agent in neither is left out. A group's mean on a
    task is over the scores present; a task on which one group has none is left out altogether.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise UserError(f"scores of shape {values.shape} came; a table [tasks, agents] is needed")
    one, other = _columns(first, values.shape[1], "first"), _columns(second, values.shape[1], "second")
    if shared := sorted(set(one.tolist()) & set(other.tolist())):
        raise UserError(f"agents in columns {shared} are in both groups; an agent is in one group or in neither")
    means = np.stack([_row_means(values[:, one]), _row_means(values[:, other])], axis=1)
    used = ~np.isnan(means).any(axis=1)
    differences = means[used, 0] - means[used, 1]
    (interval,) = task_intervals(differences[:, None], **draws)
    by_task = paired_d(differences, level=interval.level)
    of_first, of_second = (_present(values[used][:, columns]) for columns in (one, other))
    d_response, reason = _smd(of_second, of_first)
    notes = (interval.note, by_task.note and f"d_task: {by_task.note}", reason and f"d_response: {reason}")
    return GroupComparison(
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        d_task=by_task.value,
        d_response=d_response,
        auc=auc(of_first, of_second),
        n_tasks=interval.n,
        n_first=len(of_first),
        n_second=len(of_second),
        level=interval.level,
        method=interval.method,
        notes=tuple(note for note in notes if note),
    )


def _smd(before: FloatArray, after: FloatArray) -> tuple[float | None, str | None]:
    """The standardised mean difference of two sets of any sizes without NaN, or None and why there is none."""
    if len(before) < 2 or len(after) < 2:
        return None, f"no effect size: a side has n = {min(len(before), len(after))}, at least 2 are needed"
    if before.min() == before.max() and after.min() == after.max():
        return None, "no effect size: the scores of each side do not vary"
    spread = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / 2)
    return float((after.mean() - before.mean()) / spread), None


def _no_spread(used: FloatArray, what: str) -> str | None:
    if len(used) < 2:
        return f"no effect size: n = {len(used)}, at least 2 are needed"
    return f"no effect size: the {what} do not vary" if used.min() == used.max() else None


def _with_interval(
    value: float, sums: FloatArray, statistic: Callable[[FloatArray], FloatArray], level: float
) -> EffectSize:
    """The value with Student's t interval around it, its standard error from leaving each task out in turn."""
    if not 0 < level < 1:
        raise UserError(f"a level of {level} came; it lies between 0 and 1, such as 0.95")
    n = len(sums)
    if n == 1:
        return EffectSize(value, None, None, 1, level, "no interval: n = 1")
    with np.errstate(invalid="ignore", divide="ignore"):
        without = statistic(sums.sum(axis=0) - sums)
    if not np.isfinite(without).all():
        return EffectSize(value, None, None, n, level, "no interval: one task carries all the spread")
    error = np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2))
    half = float(stdtrit(n - 1, (1 + level) / 2) * error)
    return EffectSize(value, value - half, value + half, n, level)


def _variance(n: FloatArray, sums: FloatArray, squares: FloatArray) -> FloatArray:
    """Variance (n - 1) from sums of n values and of their squares; rounding counts as zero."""
    variance = (squares - sums**2 / n) / (n - 1)
    result: FloatArray = np.where(variance > NO_SPREAD * squares / n, variance, 0.0)
    return result


def _sums(columns: Sequence[FloatArray], codes: npt.NDArray[np.intp]) -> FloatArray:
    """The sum of each column in each cluster: [clusters, columns]."""
    return np.stack([np.bincount(codes, weights=column) for column in columns], axis=1)


def _codes(clusters: Sequence[object] | None, used: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], int]:
    """The cluster of each sample used, numbered from 0, and how many there are."""
    if clusters is None:
        return np.arange(int(used.sum())), int(used.sum())
    if len(clusters) != len(used):
        raise UserError(f"{len(clusters)} clusters came for {len(used)} scores; each score has one")
    number: dict[object, int] = {}
    codes = [number.setdefault(c, len(number)) for c, kept in zip(clusters, used, strict=True) if kept]
    return np.array(codes, dtype=np.intp), len(number)


def _column(scores: FloatArray, name: str) -> FloatArray:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1:
        raise UserError(f"{name}: scores of shape {scores.shape} came; one column of numbers is needed")
    if np.isinf(scores).any():
        raise UserError(f"{name}: an infinite score came; scores are finite numbers, or NaN where one is missing")
    return scores


def _columns(members: Members, agents: int, name: str) -> npt.NDArray[np.intp]:
    """Column numbers of a group given as a mask or as numbers."""
    given = np.asarray(members)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "biu":
        raise UserError(f"the {name} group is {members!r}; column numbers or a mask over the agents are needed")
    if given.dtype == bool:
        if len(given) != agents:
            raise UserError(f"the {name} group's mask has {len(given)} places for {agents} agents")
        given = np.flatnonzero(given)
        if not len(given):
            raise UserError(f"the {name} group's mask is all false; a group has at least one agent")
    if given.min() < 0 or given.max() >= agents:
        raise UserError(f"the {name} group names column {given.min()} or {given.max()}; 0 to {agents - 1} exist")
    if len(np.unique(given)) < len(given):
        raise UserError(f"the {name} group names a column twice: {given.tolist()}")
    return given.astype(np.intp)


def _row_means(scores: FloatArray) -> FloatArray:
    """Mean of the scores present in each row, NaN where there are none."""
    present = ~np.isnan(scores)
    counts = present.sum(axis=1)
    means = np.full(len(scores), np.nan)
    np.divide(np.where(present, scores, 0.0).sum(axis=1), counts, out=means, where=counts > 0)
    return means


def _present(scores: FloatArray) -> FloatArray:
    return scores[~np.isnan(scores)]
