"""Effect sizes: how far apart two sets of scores are, in standard deviations or as a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.statistics.additive import contrast_by_task
from goldless.statistics.bootstrap import Draws, Estimate, task_intervals

NO_SPREAD = 1e-12
"""A variance below this share of the mean square is rounding."""
SAME = 1e-10
"""Values that lie within this share of the largest differ by rounding."""


CHOSEN_BY_DATA = "no interval: --until chose the tasks by their scores. Score all tasks for one"


@dataclass(frozen=True)
class GroupComparison:
    """The first group of agents compared with the second."""

    difference: Estimate
    """Mean of the first group's scores - mean of the second's; a score is over all tasks, as on the leaderboard."""
    d_task: float | None
    """Difference / its standard deviation over tasks. Averaging over agents inflates it: read the next two first."""
    d_response: float | None
    """Standardised mean difference of single responses."""
    auc: float | None
    """Probability that a response of the first group scores above one of the second, ties half."""
    auc_by_task: Estimate
    """The same probability for two responses to one task, as the mean over tasks."""
    n_first: int
    """Responses of the first group used."""
    n_second: int
    notes: tuple[str, ...] = ()
    """Reasons why a number is missing."""

    def of_chosen_tasks(self) -> GroupComparison:
        """Return the same without intervals: they hold for a number of tasks that is fixed beforehand."""
        difference, auc_by_task = (
            replace(estimate, low=None, high=None, method=None, note=CHOSEN_BY_DATA)
            for estimate in (self.difference, self.auc_by_task)
        )
        notes = (CHOSEN_BY_DATA, *self.notes)
        return replace(self, difference=difference, auc_by_task=auc_by_task, notes=notes)


def pooled_smd(
    before: FloatArray, after: FloatArray, *, clusters: Sequence[object] | None = None, level: float = 0.95
) -> Estimate:
    """(mean after - mean before) / sqrt((variance before + variance after) / 2), with variances of n - 1 (GEM, 4.2).

    Position i is the same sample in both, before and after a change; samples without both scores (NaN) are left out.
    ``clusters`` names each sample's task where a task has several samples: the interval leaves out whole tasks.
    """
    both = ~(np.isnan(before) | np.isnan(after))
    codes, n = _codes(clusters, both)
    before, after = before[both], after[both]
    value, note = _smd(before, after)
    if value is None:
        return Estimate(None, None, None, n, level, note)
    centre = np.median(np.concatenate([before, after]))
    before, after = before - centre, after - centre

    def smd(s: FloatArray) -> FloatArray:
        spread = np.sqrt((_variance(s[:, 0], s[:, 1], s[:, 2]) + _variance(s[:, 0], s[:, 3], s[:, 4])) / 2)
        return (s[:, 3] - s[:, 1]) / s[:, 0] / np.where(spread > 0, spread, np.nan)

    return _with_interval(value, [before, before**2, after, after**2], codes, smd, level)


def paired_d(differences: FloatArray, *, clusters: Sequence[object] | None = None, level: float = 0.95) -> Estimate:
    """Mean difference / standard deviation of the differences (n - 1), NaN left out.

    The deviation shrinks with everything a difference was averaged over, so the value says how reliably tasks separate
    two sets of agents, not how far apart two responses are.
    """
    present = ~np.isnan(differences)
    codes, n = _codes(clusters, present)
    used = differences[present]
    if len(used) < 2:
        return Estimate(None, None, None, n, level, f"no effect size: n = {len(used)}, needs at least 2")
    if not _vary(used):
        return Estimate(None, None, None, n, level, "no effect size: the differences do not vary")
    centre = np.median(used)

    def standardised(s: FloatArray) -> FloatArray:
        spread = np.sqrt(_variance(s[:, 0], s[:, 1], s[:, 2]))
        return (centre + s[:, 1] / s[:, 0]) / np.where(spread > 0, spread, np.nan)

    value = float(used.mean() / used.std(ddof=1))
    return _with_interval(value, [used - centre, (used - centre) ** 2], codes, standardised, level)


def auc(first: FloatArray, second: FloatArray) -> float | None:
    """Probability that a value of the first exceeds one of the second, a tie counting half; NaN left out.

    None: one of them has no value.
    """
    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    if not len(first) or not len(second):
        return None
    second = np.sort(second)
    below = np.searchsorted(second, first, side="left") + np.searchsorted(second, first, side="right")
    return float(below.sum() / (2 * len(first) * len(second)))


def compare_groups(
    values: FloatArray, first: Sequence[int], second: Sequence[int], **draws: Unpack[Draws]
) -> GroupComparison:
    """Compare columns ``first`` of ``values`` [tasks, agents] with columns ``second``; NaN marks a missing score.

    A group is a list of column numbers. Missing scores shift no level: the difference is that of the groups' mean
    scores over all tasks, and single responses are compared on the tasks on which every member of both has a score. A
    member without any score counts for nothing.
    """
    has_scores = np.any(~np.isnan(values), axis=0).tolist()
    groups = [[agent for agent in group if has_scores[agent]] for group in (first, second)]
    differences = _group_differences(values, *groups)
    (interval,) = task_intervals(differences[:, None], tails=True, **draws)
    by_task = paired_d(differences, level=interval.level)
    complete = ~np.isnan(values[:, [*groups[0], *groups[1]]]).any(axis=1)
    auc_of_tasks = np.array([auc(row[groups[0]], row[groups[1]]) for row in values[complete]], dtype=np.float64)
    (auc_by_task,) = task_intervals(auc_of_tasks[:, None], limits=(0.0, 1.0), **draws)
    responses_of_first, responses_of_second = (values[complete][:, group].ravel() for group in groups)
    d_response, reason = _smd(responses_of_second, responses_of_first)
    notes = [interval.note, by_task.note and f"d_task: {by_task.note}", reason and f"d_response: {reason}"]
    left_out = len(differences) - int(complete.sum())
    if left_out:
        notes.append(
            f"d_response and AUC are over {int(complete.sum())} tasks; on {left_out} more, some member has no score"
        )
    return GroupComparison(
        difference=interval,
        d_task=by_task.value,
        d_response=d_response,
        auc=auc(responses_of_first, responses_of_second),
        auc_by_task=auc_by_task.within(0.0, 1.0),
        n_first=len(responses_of_first),
        n_second=len(responses_of_second),
        notes=tuple(note for note in notes if note),
    )


def _group_differences(values: FloatArray, first: Sequence[int], second: Sequence[int]) -> FloatArray:
    """Return what each task says about the difference of two groups' mean scores; nothing if one has no scores."""
    if not first or not second:
        return np.empty(0)
    contrast = np.zeros(values.shape[1])
    contrast[first] += 1 / len(first)
    contrast[second] -= 1 / len(second)
    return contrast_by_task(values, contrast)


def _smd(before: FloatArray, after: FloatArray) -> tuple[float | None, str | None]:
    """The standardised mean difference of two sets of any sizes without NaN, or None and why there is none."""
    if len(before) < 2 or len(after) < 2:
        return None, f"no effect size: one side has n = {min(len(before), len(after))}, needs at least 2"
    if not _vary(before) and not _vary(after):
        return None, "no effect size: the scores of each side do not vary"
    spread = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / 2)
    return float((after.mean() - before.mean()) / spread), None


def _vary(values: FloatArray) -> bool:
    return bool(np.ptp(values) > SAME * np.abs(values).max())


def _with_interval(
    value: float,
    columns: Sequence[FloatArray],
    codes: npt.NDArray[np.intp],
    statistic: Callable[[FloatArray], FloatArray],
    level: float,
) -> Estimate:
    """The value with Student's t interval around it, its standard error from leaving each task out in turn.

    ``statistic``: of rows with the number of samples and the sums of the columns; ``codes``: the task of each sample.
    """
    sums = np.stack([np.bincount(codes, weights=one) for one in (np.ones_like(columns[0]), *columns)], axis=1)
    n = len(sums)
    if n == 1:
        return Estimate(value, None, None, 1, level, "no interval: n = 1")
    with np.errstate(invalid="ignore", divide="ignore"):
        without = statistic(sums.sum(axis=0) - sums)
    if not np.isfinite(without).all():
        return Estimate(value, None, None, n, level, "no interval: one task carries all the spread")
    error = np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2))
    half = float(stdtrit(n - 1, (1 + level) / 2) * error)
    return Estimate(value, value - half, value + half, n, level)


def _variance(n: FloatArray, sums: FloatArray, squares: FloatArray) -> FloatArray:
    """Variance (n - 1) from sums of n values and of their squares; rounding counts as zero."""
    variance = (squares - sums**2 / n) / (n - 1)
    result: FloatArray = np.where(variance > NO_SPREAD * squares / n, variance, 0.0)
    return result


def _codes(clusters: Sequence[object] | None, used: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], int]:
    """The cluster of each sample used, numbered from 0, and how many there are."""
    if clusters is None:
        return np.arange(int(used.sum())), int(used.sum())
    number: dict[object, int] = {}
    codes = [number.setdefault(c, len(number)) for c, kept in zip(clusters, used, strict=True) if kept]
    return np.array(codes, dtype=np.intp), len(number)
