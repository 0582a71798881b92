"""Intervals by resampling tasks: responses to one task are not independent, tasks are.

Tasks are drawn with replacement; a resample is stored as the number of times each task was drawn.

Of more than 20,000 tasks, groups of equal size are drawn, and flipped as one, so that time and memory stay bounded.
Sums over a group are sums over tasks, so a statistic of the study is the same with groups as without. A draw of groups
varies like a draw of tasks: for independent tasks, the variance of a group's sum is that of a task's times its size.
Sign flips are as exact: a sum of symmetric differences is symmetric.

A correlation over all responses, or a reliability, is not a mean over tasks. Its interval comes from its values with
each task left out in turn: value + (n - 1) (mean of the values without a task - value without task t) has the value as
its mean over tasks and, to first order, its spread (Tukey's pseudo-values, centred). The interval is that of this mean,
by the same studentised bootstrap over tasks.

A share is the mean over all judgements, Σ S_t / Σ N_t with the sum S_t of N_t judgements on task t. Its interval is
that of the mean over tasks of share + (S_t - share N_t) / mean N, which has the same value and, to first order, the
same spread, and so allows for judgements of one task being alike. Where all judgements are 0, or all are 1, resampling
sees no spread, and the interval is Wilson's with one trial per task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypedDict, Unpack

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from goldless.arrays import FloatArray, IntArray
from goldless.errors import UserError
from goldless.statistics.additive import scores_over_tasks
from goldless.statistics.skewness import further, skewness

ELEMENTS_AT_ONCE = 1 << 21
"""Draws kept in memory at a time: about 50 MB, and few enough matrix products that their overhead does not count."""


class Draws(TypedDict, total=False):
    """Settings of resampling tasks; every function that computes intervals takes these keyword arguments."""

    seed: int
    """Default: 0."""
    resamples: int
    """Default: 10,000."""
    level: float
    """Default: 0.95."""


LEVEL = 0.95
USUAL: Draws = {"seed": 0, "resamples": 10_000, "level": LEVEL}


# --- what is drawn ---------------------------------------------------------------------------------------------------

MOST_TASKS = 20_000
"""Up to this many tasks, each is drawn on its own."""
GROUPS = 10_000


def task_groups(tasks: int, *, seed: int) -> IntArray | None:
    """The group of each task; None: there are few enough tasks to draw each on its own."""
    if tasks <= MOST_TASKS:
        return None
    return np.random.default_rng((seed, tasks)).permutation(np.arange(tasks) % GROUPS)


def group_sums(rows: FloatArray, groups: IntArray) -> FloatArray:
    """Sums of each row [rows, tasks] over the groups: [rows, groups]."""
    return np.stack([np.bincount(groups, weights=row, minlength=GROUPS) for row in rows])


def groups_name(tasks: int) -> dict[str, str]:
    """The signature's part about groups; nothing where each task is drawn on its own."""
    return {"task-groups": str(GROUPS)} if tasks > MOST_TASKS else {}


def draw_counts(tasks: int, *, seed: int, resamples: int) -> Iterator[FloatArray]:
    """Blocks [some resamples, tasks] of how often each task was drawn, ``resamples`` rows in all.

    Row r counts row r of ``numpy.random.default_rng(seed).integers(tasks, size=(resamples, tasks))``, whatever the size
    of a block. Sums over all resamples are then one matrix product. (Counting drawn integers is several times faster
    than drawing the counts from a multinomial distribution, and gives the same distribution.)
    """
    if resamples < 1:
        raise UserError(f"resamples must be at least 1, got {resamples}. Try 10000")
    if seed < 0:
        raise UserError(f"seed must be a whole number of at least 0, got {seed}")
    random = np.random.default_rng(seed)
    step = max(1, ELEMENTS_AT_ONCE // max(1, tasks))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = random.integers(tasks, size=(rows, tasks))
        drawn += (np.arange(rows) * tasks)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * tasks).reshape(rows, tasks).astype(np.float64)


def summable(terms: FloatArray) -> FloatArray:
    """Terms [rows, tasks] as multiples of a power of two that is so large that draws from a row add up exactly.

    An exact sum is the same in any order, so products with counts do not depend on the number of threads. What is cut
    off is at most about 1e-16 of a row's largest term for every task.
    """
    largest = np.abs(terms).max(axis=1, keepdims=True, initial=np.finfo(np.float64).tiny)
    unit = np.exp2(np.ceil(np.log2(largest * max(1, terms.shape[1]))) - 52)
    rounded: FloatArray = np.round(terms / unit) * unit
    return rounded


# --- means over tasks ------------------------------------------------------------------------------------------------

Method = Literal["bootstrap-t", "t", "exact", "wilson", "percentile", "sign-flips"]
"""``bootstrap-t``: at each end the farther of the studentised bootstrap and Student's t. ``exact``: of scores at their
limits, such as 0 and 1, or all the same. ``wilson``: of judgements that are all 0, or all 1.
``sign-flips``: of a difference of two agents, all that their sign-flip test does not reject."""
Limits = tuple[float, float]
"""The smallest and the largest score that there can be."""
TAIL = 2.0
"""Factor of the skewness of so few tasks: 88% of the intervals of five lognormal scores then hold the mean."""
FEW_TASKS = 10
"""With fewer tasks the interval is Student's t: too few different resamples exist to estimate a distribution."""
FARTHEST = 2.0
"""Resampled values of t are clipped at this multiple of Student's quantile."""
NO_SPREAD = 1e-12
"""A resampled variance below this share of the variance of the scores is rounding: all drawn scores are equal."""
MEANS_AT_ONCE = 1 << 23


FLAT = "no interval: all tasks give the same value"


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float | None = None
    """None: not defined, ``note`` says why."""
    low: float | None = None
    """None: no interval, ``note`` says why."""
    high: float | None = None
    n: int = 0
    """Tasks used; of a share, judgements."""
    level: float = LEVEL
    note: str | None = None
    method: Method | None = None
    """The method of the interval; None: there is none."""
    n_tasks: int = 0
    """Of a share: the tasks that its judgements are on."""

    @property
    def numbers(self) -> tuple[float | None, float | None, float | None]:
        """The value and both ends of the interval."""
        return self.value, self.low, self.high

    def excludes(self, value: float) -> bool:
        """True if there is an interval, and the value is outside."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def within(self, lowest: float, highest: float) -> Self:
        """The same with ends within these; without ends where they are one: tasks that agree show no spread."""
        if self.low is None or self.high is None:
            return self
        if self.low == self.high:
            return replace(self, low=None, high=None, method=None, note=self.note or FLAT)
        return replace(self, low=max(lowest, min(highest, self.low)), high=max(lowest, min(highest, self.high)))


ABSENT = Estimate()
"""Of nothing."""


def task_intervals(
    values: FloatArray,
    *,
    limits: Limits | None = None,
    tails: bool = False,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> list[Estimate]:
    """Mean and interval of each column of ``values`` [tasks, agents], where NaN marks a missing score.

    From ten tasks on, tasks are drawn with replacement, the same draw for all agents, and the interval is
    mean - q se, with q the quantiles of (resampled mean - mean) / (resampled se): the studentised bootstrap, or
    "bootstrap-t" (Efron 1981). Unlike a percentile interval it allows for skewed scores. Where few tasks carry all the
    spread, draws without them run off towards infinity, so q is clipped at twice Student's t. Under heavy tails it is
    too short, so no end is nearer to the mean than Student's t puts it. With two to nine tasks the interval is
    Student's t; with ``tails`` the end on the side of a tail is further out (``skewness.further``). The tasks of the
    table decide, not those of each agent, so all agents have the same kind of interval.

    ``limits``: those of the scores, where they have some. Of scores that are all at their limits the interval is the
    exact one of a share (Clopper and Pearson 1934), and equal scores elsewhere have one as well: few tasks that agree
    say little about the others. ``tails``: whether scores may have a tail, for which few tasks allow.
    """
    values = np.asarray(values, dtype=np.float64)
    if np.isinf(values).any():
        raise UserError("scores must be finite numbers, or NaN where one is missing, got an infinite score")
    if not 0 < level < 1:
        raise UserError(f"level must be between 0 and 1, got {level}. Try 0.95")
    present = ~np.isnan(values)
    values, counts = values[present.any(axis=1)], present.sum(axis=0)
    method: Method = "bootstrap-t" if len(values) >= FEW_TASKS else "t"
    student: FloatArray = stdtrit(np.maximum(counts, 2) - 1, (1 + level) / 2)
    ends = np.stack([-student, student])
    if method == "t" and tails:
        skew, n = skewness(values), np.maximum(counts, 2).astype(np.float64)
        low, high = (np.minimum(further(student, side * skew, n, TAIL), FARTHEST * student) for side in (-1, 1))
        ends = np.stack([-low, high])
    many = np.flatnonzero(counts >= 2) if method == "bootstrap-t" else np.empty(0, np.intp)
    step = max(1, MEANS_AT_ONCE // max(1, resamples))
    for begin in range(0, len(many), step):
        some = many[begin : begin + step]
        studentised = _studentised_means(values[:, some], FARTHEST * student[some], seed=seed, resamples=resamples)
        low, high = _quantiles(studentised, level)
        ends[:, some] = np.minimum(low, -student[some]), np.maximum(high, student[some])
    return [_estimate(values[:, j], ends[:, j], level, method, limits) for j in range(values.shape[1])]


def score_intervals(values: FloatArray, *, limits: Limits | None = None, **draws: Unpack[Draws]) -> list[Estimate]:
    """The score of each agent over all tasks with its interval: that of the tasks it has, moved; all within limits."""
    found = []
    lowest, highest = limits or (-np.inf, np.inf)
    intervals = task_intervals(values, limits=limits, tails=True, **draws)
    for one, score in zip(intervals, np.clip(scores_over_tasks(values), lowest, highest).tolist(), strict=True):
        by = score - (one.value or 0.0)
        low, high = (None if end is None else min(highest, max(lowest, end + by)) for end in (one.low, one.high))
        found.append(one if one.value is None else replace(one, value=score, low=low, high=high))
    return found


def interval_name(level: float, limits: Limits | None = None, *, tails: bool = False) -> str:
    """The method of intervals, for signatures."""
    few = "skew-t" if tails else "t"
    exact = ",exact-at-limits" * (limits is not None)
    return f"tasks-bootstrap-t-or-t-{level:g}({few}-under-{FEW_TASKS}{exact})"


def _estimate(column: FloatArray, ends: FloatArray, level: float, method: Method, limits: Limits | None) -> Estimate:
    used = column[~np.isnan(column)]
    n = len(used)
    if n == 0:
        return Estimate(None, None, None, 0, level, "no task was scored")
    equal = used.min() == used.max()
    mean = float(used[0] if equal else used.mean())  # the sum of equal numbers, divided, is not always that number
    if n == 1:
        return Estimate(mean, None, None, 1, level, "no interval: n = 1")
    if limits is not None and (equal or np.isin(used, limits).all()):
        return Estimate(mean, *exact_ends(used, limits, level), n, level, method="exact")
    error = 0.0 if equal else used.std(ddof=1) / np.sqrt(n)
    return Estimate(mean, float(mean - ends[1] * error), float(mean - ends[0] * error), n, level, method=method)


def exact_ends(used: FloatArray, limits: Limits, level: float) -> tuple[float, float]:
    """The ends for scores that are all at their limits, or all the same.

    Where n tasks agree, the other score may be that of up to 1 - alpha^(1/n) of all tasks, with alpha for each end.
    """
    lowest, highest = limits
    n, tail = len(used), (1 - level) / 2
    if used.min() == used.max():
        same, unseen = float(used[0]), 1 - tail ** (1 / n)
        return same - unseen * (same - lowest), same + unseen * (highest - same)
    high = int((used == highest).sum())
    low_share, high_share = betaincinv(high, n - high + 1, tail), betaincinv(high + 1, n - high, 1 - tail)
    width = highest - lowest
    return float(lowest + width * low_share), float(lowest + width * high_share)


def _studentised_means(values: FloatArray, limits: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """(Resampled mean - mean) / its resampled standard error, within the limits: [agents, resamples]."""
    tasks, agents = values.shape
    present = ~np.isnan(values)
    # scores less their mean in standard deviations, zero where one is missing: sums of squares lose no digits
    deviations = np.where(present, values - np.nanmean(values, axis=0), 0.0)
    spread = np.sqrt((deviations**2).sum(axis=0) / present.sum(axis=0))
    scores = (deviations / np.where(spread > 0, spread, 1.0)).T
    groups = task_groups(tasks, seed=seed)
    complete = groups is None and bool(present.all())
    # all sums a resample needs, one above the other: one matrix product with the counts gives them for many resamples
    parts = [scores, scores**2, *([] if complete else [present.T.astype(np.float64)])]
    terms = summable(np.vstack(parts if groups is None else [group_sums(part, groups) for part in parts]))
    studentised = np.empty((agents, resamples))
    begin = 0
    for counts in draw_counts(terms.shape[1], seed=seed, resamples=resamples):
        sums = terms @ counts.T
        drawn = np.float64(tasks) if complete else sums[2 * agents :]
        end = begin + len(counts)
        block = _studentise(sums[:agents], sums[agents : 2 * agents], drawn)
        np.clip(block, -limits[:, None], limits[:, None], out=studentised[:, begin:end])
        begin = end
    return studentised


def _studentise(sums: FloatArray, squares: FloatArray, drawn: FloatArray | np.float64) -> FloatArray:
    """Mean / standard error of draws with these sums; infinite without spread, NaN for a draw of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / drawn
        variances = squares / drawn - means**2
        flat = variances < NO_SPREAD
        studentised: FloatArray = means * np.sqrt((drawn - 1) / variances)
    # equal scores away from the mean are infinitely far from it in their own spread; on the mean they are nowhere else
    away = np.abs(means[flat]) > np.sqrt(NO_SPREAD)
    studentised[flat] = np.where(away, np.copysign(np.inf, means[flat]), 0.0)
    return studentised


def _quantiles(studentised: FloatArray, level: float) -> FloatArray:
    """The two ends of each row, between neighbours in proportion: [2, agents]."""
    ordered = np.sort(studentised, axis=1)
    # a draw that happens to hold none of an agent's tasks has no mean; NaN is sorted last
    held = ordered.shape[1] - np.isnan(ordered).sum(axis=1)
    position = np.array([[(1 - level) / 2], [(1 + level) / 2]]) * (held - 1)
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, held - 1)
    row = np.arange(len(ordered))
    ends: FloatArray = ordered[row, below] + (position - below) * (ordered[row, above] - ordered[row, below])
    return ends


# --- statistics that are no means over tasks -------------------------------------------------------------------------

ONE_BY_ONE = 200
"""Up to this many tasks, each is left out on its own; beyond, a hundredth of them at a time."""
LEFT_OUT_GROUPS = 100


def groups_left_out(task: IntArray) -> tuple[IntArray, int]:
    """The group in which each row is left out, numbered from 0, and the number of tasks.

    Rows of one task are in one group: a group is one task up to 200 tasks, else every hundredth task.
    """
    names, code = np.unique(task, return_inverse=True)
    return (code if len(names) <= ONE_BY_ONE else code % LEFT_OUT_GROUPS).astype(np.int64), len(names)


def left_out_intervals(
    values: Sequence[float] | FloatArray,
    without: FloatArray,
    *,
    n_tasks: int,
    lowest: float = -1.0,
    highest: float = 1.0,
    **draws: Unpack[Draws],
) -> list[Estimate]:
    """The interval of each value, from its values [groups, values] without each group of tasks.

    Ends are clipped to ``lowest`` and ``highest``. A value of NaN is not defined and has no interval.
    """
    given = np.asarray(values, dtype=np.float64)
    bad = np.isnan(given) | np.isnan(without).any(axis=0)
    pulled = np.where(bad, 0.0, given + (len(without) - 1) * (without.mean(axis=0) - without))
    found = []
    for value, one, undefined in zip(given.tolist(), task_intervals(pulled, **draws), bad, strict=True):
        if np.isnan(value):
            found.append(Estimate(None, None, None, n_tasks, one.level, "not defined"))
        elif undefined:
            note = "no interval: not defined without one of the tasks"
            found.append(Estimate(value, None, None, n_tasks, one.level, note))
        else:
            found.append(replace(one.within(lowest, highest), value=value, n=n_tasks))
    return found


def task_shares(values: FloatArray, task: IntArray, *, lowest: float = 0.0, **draws: Unpack[Draws]) -> list[Estimate]:
    """Mean of each row of values [judges, judgements], NaN left out, with intervals within ``lowest`` and 1.

    ``task`` [judgements] names the task of each column; all rows share the same resampled tasks.
    """
    names, code = np.unique(task, return_inverse=True)
    present = ~np.isnan(values)
    linear = np.full((len(names), len(values)), np.nan)
    for row, kept in enumerate(present):
        counts = np.bincount(code[kept], minlength=len(names)).astype(np.float64)
        on = counts > 0
        if on.any():
            mean = values[row, kept].mean()
            sums = np.bincount(code[kept], weights=values[row, kept], minlength=len(names))
            linear[on, row] = mean + (sums[on] - mean * counts[on]) / counts[on].mean()
    shares = []
    for row, one in enumerate(task_intervals(linear, **draws)):
        used = values[row, present[row]]
        if not len(used):
            shares.append(Estimate(None, None, None, 0, one.level, "nothing was judged"))
            continue
        mean, n = float(used.mean()), len(used)
        if used.min() == used.max() and mean in {lowest, 1.0}:
            low, high = (lowest + (1 - lowest) * end for end in wilson(mean == 1, one.n, level=one.level))
            shares.append(Estimate(mean, low, high, n, one.level, method="wilson", n_tasks=one.n))
        else:
            shares.append(replace(one.within(lowest, 1.0), value=mean, n=n, n_tasks=one.n))
    return shares


def wilson(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share of n independent trials."""
    z = float(ndtri((1 + level) / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    return max(0.0, centre - half), min(1.0, centre + half)
