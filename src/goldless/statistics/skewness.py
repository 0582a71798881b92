"""Bounds on how far skewness lets Student's t overstate a mean.

Where scores have a long tail on one side, few tasks often have none of it: their mean lies away from the tail, their
spread is too small, and t overstates. By Johnson's expansion (Journal of the American Statistical Association 73, 1978)
the value that t exceeds with a given probability is larger there by g / √n (1/6 + t² / 3), with the skewness g. That of
a small sample is far too small, so it counts 2 + 50 / n times: with that, and not with less, errors are as rare as
promised where one agent has lognormal scores (``benchmarks/method/decisions.py``). The other side counts nothing.

A tail of which nothing is seen cannot be allowed for: of losses on one task in ten, ten tasks miss a third.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from goldless.arrays import FloatArray, IntArray

MANY_TASKS = 5_000
"""From here on skewness no longer counts."""
FEWEST_TASKS = 3


def skewness(values: FloatArray) -> FloatArray:
    """Of each column [tasks, columns] without NaN; 0 where there are too few values or no spread."""
    n, second, third = _moments(values)
    return _unbiased(n, second, third)


def pair_skewness(
    differences: FloatArray, first: IntArray, second: IntArray, beside: FloatArray | None = None
) -> FloatArray:
    """Of the differences [tasks, pairs] of all pairs of agents, or of some pairs with what all give ``beside_others``.

    Of more than two agents each one's third moment is taken from its scores less the mean of the others', which has
    less noise than a single difference; that of a pair is the difference of the two.
    """
    agents = int(max(first.max(initial=0), second.max(initial=0))) + 1
    if len(differences) >= MANY_TASKS:
        return np.zeros(len(first))
    if agents < 3 or (beside is None and len(first) != agents * (agents - 1) // 2):
        return skewness(differences)
    third = _moments(beside_others([(first, second, differences)], agents) if beside is None else beside)[2]
    n, spread, _ = _moments(differences)
    return _unbiased(n, spread, third[first] - third[second])


def beside_others(blocks: Iterable[tuple[IntArray, IntArray, FloatArray]], agents: int) -> FloatArray:
    """[tasks, agents]: the mean of each agent's differences to the others, from all pairs in blocks; NaN: none."""
    counts, sums = 0.0, 0.0
    for first, second, differences in blocks:
        columns, ones = np.arange(len(first)), np.ones(len(first))
        of_first, of_second = (csr_array((ones, (columns, side)), (len(first), agents)) for side in (first, second))
        counts = counts + (~np.isnan(differences)).astype(np.float64) @ (of_first + of_second)
        sums = sums + np.nan_to_num(differences) @ (of_first - of_second)
    found = np.full(np.shape(counts), np.nan)
    np.divide(sums, counts, out=found, where=np.asarray(counts) > 0)
    return found


def _moments(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Number, second and third central moment of each column."""
    there = ~np.isnan(values)
    n = there.sum(axis=0).astype(np.float64)
    some = np.maximum(n, 1)
    around = np.where(there, values - np.nan_to_num(values).sum(axis=0) / some, 0.0)
    return n, (around**2).sum(axis=0) / some, (around**3).sum(axis=0) / some


def _unbiased(n: FloatArray, second: FloatArray, third: FloatArray) -> FloatArray:
    """The skewness, corrected for small samples."""
    found = np.zeros(n.shape)
    spread = np.sqrt(np.maximum(second, 0.0)) ** 3
    enough = (n >= FEWEST_TASKS) & (n < MANY_TASKS) & (spread > 0)
    np.divide(third * np.sqrt(n * np.maximum(n - 1, 0)), spread * np.maximum(n - 2, 1), out=found, where=enough)
    return found


def further(t: FloatArray, skew: FloatArray, n: FloatArray, times: float | None = None) -> FloatArray:
    """The value t must exceed where Student's distribution says t, for a mean above zero; ``skew`` below zero counts.

    ``times``: how often the skewness counts; None: 2 + 50 / n times.
    """
    return np.asarray(t + _weight(skew, n, times) * (1 / 6 + t**2 / 3))


def nearer(t: FloatArray, skew: FloatArray, n: FloatArray, times: FloatArray | None = None) -> FloatArray:
    """The t without skewness that counts for as much as one that is at least zero: what ``further`` takes to it."""
    weight = _weight(skew, n, times)
    beyond = np.maximum(t - weight / 6, 0.0)
    # the root of the quadratic in the form that loses no digits where there is hardly any skewness
    return np.asarray(2 * beyond / (1 + np.sqrt(1 + 4 / 3 * weight * beyond)))


def believed(
    n: FloatArray, mean: FloatArray, sd: FloatArray, skew: FloatArray, times: FloatArray | None = None
) -> FloatArray:
    """Means nearer to zero by what skewness may have added to them; ``times`` as in ``further``."""
    error = sd / np.sqrt(np.maximum(n, 1.0))
    t = np.zeros(np.shape(mean))
    np.divide(np.abs(mean), error, out=t, where=error > 0)
    return np.where(error > 0, np.sign(mean) * nearer(t, skew * np.sign(mean), n, times) * error, mean)


def pair_times(n: FloatArray) -> FloatArray:
    """Times that the skewness of a single pair counts, where its own p and its interval decide."""
    return np.asarray(3 + 80 / np.maximum(n, 1.0))


def _weight(skew: FloatArray, n: FloatArray, times: float | FloatArray | None = None) -> FloatArray:
    some = np.maximum(n, 1.0)
    return np.asarray((2 + 50 / some if times is None else times) * np.maximum(-skew, 0.0) / np.sqrt(some))
