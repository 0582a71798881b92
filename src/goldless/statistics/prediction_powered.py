"""Means on the people's scale from few labels: prediction-powered estimates over tasks.

With labels u and proxies s on n labelled tasks, and proxies v on N unlabelled ones (PPI++, arXiv 2311.01453):

    mean = mean(u) + λ (mean(v) - mean(s)),  λ = N / (n + N) Σ⁻¹ Cov(proxies, u),  Σ: covariance of all proxies
    variance = Var(u - λ s) / n + λ Var(v) λ / N

The estimate is valid whatever the proxies are worth, as long as the labelled tasks are a random draw. λ is fitted to
few labels, so the first variance has n - 1 - k degrees of freedom with k proxies, and the interval is Student's t with
Satterthwaite's degrees of freedom.

Tasks that were drawn later with unequal chances π (see ``draw_by_size``) are a round of their own. With a prediction f
fitted to the labels known before, the round's mean over all T tasks is (Σ known u + Σ others f + Σ drawn (u - f) / π) /
T, which is unbiased given what was known before. Rounds are averaged by their numbers of labels; given the tasks, their
errors are uncorrelated, so the variances add up (Hájek's for a round with unequal chances).

The share of good responses by a binary judge is corrected for its errors: a judge that passes the share p of n
unlabelled responses, with sensitivity q1 on m1 labelled good and specificity q0 on m0 labelled bad responses, sees
p = θ q1 + (1 - θ) (1 - q0), so θ = (p + q0 - 1) / (q0 + q1 - 1) (Rogan, Gladen 1978). The interval allows for the
errors of p, q0 and q1 together, with counts moved away from 0 and 1 (arXiv 2511.21140).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.errors import UserError
from goldless.statistics.bootstrap import Estimate, Limits, exact_ends

FEWEST = 2
"""Least tasks with labels, and without."""
RANK = 1e-9
"""Proxies whose standardised covariance has an eigenvalue below this are collinear."""


@dataclass(frozen=True, eq=False)
class Round:
    """Tasks that were drawn to be labelled, with unequal chances."""

    task: IntArray
    """Numbers of the tasks."""
    chance: FloatArray
    """The chance of each to be drawn, above 0 and at most 1."""


@dataclass(frozen=True, eq=False)
class PoweredMean:
    """A mean over tasks, estimated from labels and proxies."""

    estimate: Estimate
    """``n``: labelled tasks."""
    error: float
    """Standard error."""
    degrees: float
    """Degrees of freedom of the interval."""
    unlabelled: int
    weights: FloatArray
    """λ, one per proxy."""
    label_mean: float
    """The mean of the labels alone."""
    label_variance: float
    """Variance of the labels over tasks."""
    residual_variance: float
    """Variance of labels less λ times proxies, over tasks."""

    @property
    def mean(self) -> float:
        return float(self.estimate.value or 0.0)

    @property
    def labels_worth(self) -> float:
        """The number of labelled tasks that would give the same variance without proxies."""
        return self.label_variance / self.error**2 if self.error > 0 else float(self.estimate.n)

    @property
    def p(self) -> float:
        """Two-sided p of a mean of zero."""
        if self.error == 0:
            # equal labels on every task: no smaller p than flipping their signs would give
            return 1.0 if self.mean == 0 else 2.0 ** (1 - self.estimate.n)
        return float(2 * stdtr(self.degrees, -abs(self.mean) / self.error))

    def labels_to_decide(self, alpha: float) -> int | None:
        """Labelled tasks that exclude a mean of zero if the mean stays as it is; None: all are not enough.

        With m of the T tasks labelled the variance is about residual (1 / m - 1 / T) + Var(u) / T.
        """
        total = self.estimate.n + self.unlabelled
        counts = np.arange(self.estimate.n, total + 1)
        # proxies do not reduce the variance below what they explain, nor raise it above that of the labels
        residual = min(self.residual_variance, self.label_variance)
        variance = residual * (1 / counts - 1 / total) + self.label_variance / total
        enough = stdtrit(np.maximum(counts - 1 - len(self.weights), 1), 1 - alpha / 2) ** 2 * variance < self.mean**2
        return int(counts[np.argmax(enough)]) if enough.any() else None

    def tasks_to_decide(self, alpha: float) -> int | None:
        """The number of tasks, all labelled, that would exclude a mean of zero; None: no number, the mean is zero."""
        if self.mean == 0:
            return None
        return math.ceil(float(stdtrit(1e6, 1 - alpha / 2)) ** 2 * self.label_variance / self.mean**2)


def powered_mean(
    labels: FloatArray,
    proxies: FloatArray,
    *,
    rounds: Sequence[Round] = (),
    limits: Limits | None = None,
    level: float = 0.95,
) -> PoweredMean:
    """Estimate the mean label over all tasks.

    ``labels`` [tasks], NaN where a task has none; ``proxies`` [tasks, k], complete. ``rounds``: tasks drawn with
    unequal chances, in the order they were drawn; the other labelled tasks are a random draw. ``limits``: those of the
    labels, for the interval where all are equal.
    """
    labels, proxies = np.asarray(labels, np.float64), np.asarray(proxies, np.float64)
    known = ~np.isnan(labels)
    first = known.copy()
    for one in rounds:
        first[one.task] = False
    check_counts(int(first.sum()), int((~first).sum()), proxies.shape[1])
    u, s, v = labels[first], proxies[first], proxies[~first]
    n, unlabelled, k = len(u), len(v), proxies.shape[1]
    together = np.atleast_2d(np.cov(proxies, rowvar=False)).reshape(k, k)
    shared = (s - s.mean(axis=0)).T @ (u - u.mean()) / (n - 1)
    # a proxy may be constant for one agent, or repeat another there: the shortest solution gives it no own weight
    weights = unlabelled / (n + unlabelled) * (np.linalg.pinv(together, rcond=RANK, hermitian=True) @ shared)
    rank = int(np.linalg.matrix_rank(together, tol=RANK * max(np.trace(together), 1e-300), hermitian=True))
    rest, free = u - s @ weights, n - 1 - rank
    residual = float(np.sum((rest - rest.mean()) ** 2) / free)
    mean = float(u.mean() + (v.mean(axis=0) - s.mean(axis=0)) @ weights)
    variances = [(residual / n, float(free)), (float(np.var(v @ weights, ddof=1)) / unlabelled, unlabelled - 1.0)]
    if rounds:
        mean, variances = _with_rounds(labels, proxies, first, rounds, mean=mean, degrees=free)
    total = sum(value for value, _ in variances)
    parts = sum(value**2 / degrees for value, degrees in variances)
    degrees = total**2 / parts if parts > 0 else float(free)
    half = float(stdtrit(degrees, (1 + level) / 2)) * math.sqrt(total)
    low, high = mean - half, mean + half
    if total == 0 and limits is not None:
        low, high = exact_ends(labels[known], limits, level)
    return PoweredMean(
        estimate=Estimate(mean, low, high, int(known.sum()), level),
        error=math.sqrt(total),
        degrees=degrees,
        unlabelled=int((~known).sum()),
        weights=weights,
        label_mean=float(u.mean()),
        label_variance=float(u.var(ddof=1)),
        residual_variance=residual,
    )


def check_counts(labelled: int, unlabelled: int, proxies: int) -> None:
    """Refuse too few tasks for an estimate with this many proxies."""
    least = max(FEWEST, proxies + 2)
    if labelled < least:
        some = f"{proxies} prox{'y' if proxies == 1 else 'ies'}"
        raise UserError(
            f"at least {least} labelled tasks are needed with {some}, got {labelled}. Label more tasks, or name fewer "
            "metrics and reviewers"
        )
    if unlabelled < FEWEST:
        raise UserError(
            f"at least {FEWEST} tasks without labels are needed, got {unlabelled}. Where all tasks are labelled, the "
            "labels' own means are the estimate: use goldless agree"
        )


def check_proxies(proxies: FloatArray, names: Sequence[str]) -> None:
    """Refuse proxies [values, k] that are constant or collinear."""
    constant = [name for name, column in zip(names, proxies.T, strict=True) if column.min() == column.max()]
    if constant:
        raise UserError(
            f"{', '.join(constant)}: the same score for all responses, which predicts nothing. Leave it out"
        )
    values, vectors = np.linalg.eigh(np.atleast_2d(np.corrcoef(proxies, rowvar=False)))
    if values[0] < RANK:
        involved = [name for name, part in zip(names, vectors[:, 0], strict=True) if abs(part) > 1e-3]
        raise UserError(f"{', '.join(involved)}: collinear, one follows from the others. Leave one out")


def _with_rounds(
    labels: FloatArray,
    proxies: FloatArray,
    first: BoolArray,
    rounds: Sequence[Round],
    *,
    mean: float,
    degrees: int,
) -> tuple[float, list[tuple[float, float]]]:
    """The mean over all rounds, and its variances with their degrees of freedom."""
    total, n = len(labels), int(first.sum())
    counts = [n, *(len(one.task) for one in rounds)]
    shares = np.array(counts) / sum(counts)
    rest = labels[first] - _predicted(labels, proxies, first)[first]
    fit = float(rest @ rest / max(1, n - 1 - proxies.shape[1]))
    own = max(0.0, fit * (1 / n - 1 / total))
    variances = [
        (float(labels[first].var(ddof=1)) / total, float(n - 1)),
        (float(shares[0]) ** 2 * own, float(degrees)),
    ]
    mean, known = float(shares[0]) * mean, first.copy()
    for share, one in zip(shares[1:].tolist(), rounds, strict=True):
        predicted = _predicted(labels, proxies, known)
        rest = labels[one.task] - predicted[one.task]
        mean += share * float(labels[known].sum() + predicted[~known].sum() + (rest / one.chance).sum()) / total
        variances.append((share**2 * _hajek(rest, one.chance) / total**2, float(max(1, len(rest) - 1))))
        known[one.task] = True
    return mean, variances


def _predicted(labels: FloatArray, proxies: FloatArray, known: BoolArray) -> FloatArray:
    """The least-squares prediction of every label from the known ones."""
    centre = proxies[known].mean(axis=0)
    scale = np.maximum(proxies.std(axis=0), 1e-300)
    design = np.column_stack([np.ones(len(labels)), (proxies - centre) / scale])
    fitted: FloatArray = design @ np.linalg.lstsq(design[known], labels[known], rcond=RANK)[0]
    return fitted


def _hajek(rest: FloatArray, chance: FloatArray) -> float:
    """Hájek's variance of the sum of rest / chance over a draw of fixed size; certain tasks add nothing."""
    open_ = 1 - chance
    if len(rest) < 2 or open_.sum() <= 0:
        return float((open_ * (rest / chance) ** 2).sum())
    scaled = rest / chance
    centre = (open_ * scaled).sum() / open_.sum()
    return float(len(rest) / (len(rest) - 1) * (open_ * (scaled - centre) ** 2).sum())


# --- which tasks to label next ---------------------------------------------------------------------------------------


def expected_errors(labels: FloatArray, proxies: FloatArray) -> FloatArray:
    """The error to be expected of each unlabelled task's prediction [tasks], NaN for labelled ones.

    Half of it is the root mean square error over all labelled tasks, half that of the nearest ones: the square root of
    their number, by the distance of standardised proxies.
    """
    known = ~np.isnan(labels)
    squares = (labels - _predicted(labels, proxies, known))[known] ** 2
    spread = proxies.std(axis=0)
    scaled = proxies / np.where(spread > 0, spread, 1.0)
    near = math.ceil(math.sqrt(len(squares)))
    found = np.full(len(labels), np.nan)
    for task in np.flatnonzero(~known):
        distance = ((scaled[known] - scaled[task]) ** 2).sum(axis=1)
        nearest = np.argsort(distance, kind="stable")[:near]
        found[task] = (math.sqrt(squares[nearest].mean()) + math.sqrt(squares.mean())) / 2
    return found


def draw_by_size(sizes: FloatArray, count: int, *, seed: int) -> Round:
    """Draw ``count`` tasks with chances proportional to their sizes, at most 1; NaN: not to be drawn.

    Systematic sampling in random order: the draw has exactly this number of tasks and these chances.
    """
    open_ = np.flatnonzero(~np.isnan(sizes))
    chance = _chances(sizes[open_], count)
    random = np.random.default_rng(seed)
    order = random.permutation(len(open_))
    ends = np.cumsum(chance[order])
    # the sum is a whole number but for rounding
    places = np.searchsorted(ends, np.arange(count) + random.random(), side="right").clip(max=len(ends) - 1)
    drawn = np.sort(order[np.unique(places)])
    return Round(open_[drawn].astype(np.int64), chance[drawn])


def _chances(sizes: FloatArray, count: int) -> FloatArray:
    """Proportional to the sizes, capped at 1, with the given sum."""
    sizes = np.where(sizes > 0, sizes, 0.0)
    if np.count_nonzero(sizes) < count:
        sizes = np.ones_like(sizes)
    certain = np.zeros(len(sizes), np.bool_)
    while True:
        chance = np.where(certain, 1.0, sizes * (count - certain.sum()) / max(sizes[~certain].sum(), 1e-300))
        beyond = ~certain & (chance >= 1)
        if not beyond.any():
            return np.asarray(chance, np.float64)
        certain |= beyond


# --- a binary judge --------------------------------------------------------------------------------------------------


def corrected_share(
    *, passed: int, n: int, good_passed: int, good: int, bad_failed: int, bad: int, level: float = 0.95
) -> Estimate:
    """Correct the share of ``passed`` out of ``n`` unlabelled responses by the judge's errors on labelled ones.

    ``good_passed`` of the ``good`` labelled ones passed, ``bad_failed`` of the ``bad`` ones failed. Not defined where
    the judge is no better than chance.
    """
    if min(n, good, bad) < 1:
        note = f"needs unlabelled, labelled good and labelled bad responses, got {n}, {good} and {bad}"
        return Estimate(None, None, None, n, level, f"none: a corrected share {note}")
    p, q1, q0 = passed / n, good_passed / good, bad_failed / bad
    if q0 + q1 <= 1:
        note = f"sensitivity {q1:.2f} and specificity {q0:.2f} must add up to more than 1"
        why = f"none: the judge is no better than chance on the labelled responses: {note}"
        return Estimate(None, None, None, n, level, why)
    z = float(ndtri((1 + level) / 2))
    # moved towards the middle: a judge without an error among five is not known to make none
    size, m0, m1 = n + z**2, bad + 2, good + 2
    a, b0, b1 = (passed + z**2 / 2) / size, (bad_failed + 1) / m0, (good_passed + 1) / m1
    gain = b0 + b1 - 1
    low, high = 0.0, 1.0
    if gain > 0:
        theta = min(1.0, max(0.0, (a + b0 - 1) / gain))
        wrong0, wrong1 = b0 * (1 - b0) / m0, b1 * (1 - b1) / m1
        centre = theta + 2 * z**2 * (theta * wrong1 - (1 - theta) * wrong0)
        error = math.sqrt(a * (1 - a) / size + (1 - theta) ** 2 * wrong0 + theta**2 * wrong1) / gain
        low, high = max(0.0, min(1.0, centre - z * error)), max(0.0, min(1.0, centre + z * error))
    return Estimate(min(1.0, max(0.0, (p + q0 - 1) / (q0 + q1 - 1))), low, high, n, level)
