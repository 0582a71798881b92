"""Standings: agents in order of their mean, each with its interval and the agents it is better than.

Agents are compared by paired differences over common tasks, with a test corrected for multiple comparisons. An agent's
score on a task is the mean over its peers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.statistics.bootstrap import USUAL, Draws, Interval, task_intervals

EXACT_UP_TO = 13
"""Up to this many tasks, all sign flips are tried (8,192); beyond, ``permutations`` random ones."""
ELEMENTS_AT_ONCE = 1 << 23


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two agents compared on the tasks where both have a score."""

    first: str
    second: str
    difference: float | None
    """Mean of first minus second; None: no common task."""
    p: float | None
    """Two-sided sign-flip permutation test; None: fewer than two common tasks."""
    p_holm: float | None
    """Corrected for all comparisons made (Holm)."""
    n: int
    """Common tasks."""


def compare_all(
    agents: Sequence[str], values: FloatArray, *, seed: int = 0, permutations: int = 10_000
) -> list[Comparison]:
    """Compare every pair of agents, in order; ``values`` is [tasks, agents] with NaN where a score is missing.

    Random sign flips are the same for all pairs.
    """
    found = []
    pairs = list(itertools.combinations(range(len(agents)), 2))
    step = max(1, ELEMENTS_AT_ONCE // max(1, len(values)))
    for begin in range(0, len(pairs), step):
        some = np.array(pairs[begin : begin + step])
        differences = values[:, some[:, 0]] - values[:, some[:, 1]]
        ps = sign_flip_ps(differences, seed=seed, permutations=permutations)
        for (i, j), column, p in zip(some, differences.T, ps, strict=True):
            both = column[~np.isnan(column)]
            mean = float(both.mean()) if len(both) else None
            found.append(Comparison(agents[i], agents[j], mean, p, None, len(both)))
    corrected = holm([c.p for c in found])
    return [replace(c, p_holm=p) for c, p in zip(found, corrected, strict=True)]


def sign_flip_p(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> float | None:
    """Two-sided p of a mean difference of zero: how often flipped signs give a mean at least as far from zero."""
    return sign_flip_ps(differences[:, None], seed=seed, permutations=permutations)[0]


def sign_flip_ps(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> list[float | None]:
    """The p of each column of differences [tasks, pairs], NaN where a pair has no common score; None: too few tasks.

    Random sign flips are the same for all columns.
    """
    counts = np.sum(~np.isnan(differences), axis=0)
    ps: list[float | None] = [None] * len(counts)
    for column in np.flatnonzero((counts >= 2) & (counts <= EXACT_UP_TO)):
        ps[column] = _exact_p(differences[~np.isnan(differences[:, column]), column])
    many = np.flatnonzero(counts > EXACT_UP_TO)
    if len(many):
        as_far = _random_flips(differences[:, many], seed=seed, permutations=permutations)
        for column, count in zip(many, as_far, strict=True):
            ps[column] = (int(count) + 1) / (permutations + 1)
    return ps


def _exact_p(differences: FloatArray) -> float:
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(differences))))
    as_far = np.abs(signs @ differences) >= _nearly(np.abs(differences.sum()))
    return float(as_far.mean())


def _random_flips(differences: FloatArray, *, seed: int, permutations: int) -> npt.NDArray[np.int64]:
    """How many random flips give each column a sum at least as far from zero as its own."""
    filled = np.nan_to_num(differences)  # zero of either sign adds nothing
    observed = _nearly(np.abs(filled.sum(axis=0)))
    random = np.random.default_rng(seed)
    as_far = np.zeros(differences.shape[1], np.int64)
    step = max(1, ELEMENTS_AT_ONCE // max(differences.shape))
    for begin in range(0, permutations, step):
        flips = random.random((min(step, permutations - begin), len(differences)))
        as_far += np.sum(np.abs(np.where(flips < 0.5, -1.0, 1.0) @ filled) >= observed, axis=0)
    return as_far


def _nearly(distance: FloatArray) -> FloatArray:
    # sums in another order differ in the last digit: an equal mean must count as equal
    return distance * (1 - 1e-9)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; entries without p stay None and do not count."""
    order = sorted((i for i, p in enumerate(ps) if p is not None), key=lambda i: ps[i] or 0.0)
    corrected: list[float | None] = [None] * len(ps)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * (ps[i] or 0.0)))
        corrected[i] = running
    return corrected


SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """One agent's row in the standings."""

    agent: str
    rank: int | None
    """None: no score."""
    interval: Interval
    better_than: tuple[str, ...]
    """Agents it beats on common tasks, corrected for multiple comparisons."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Agents by score, highest first, and the comparison of every pair."""

    rows: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]


def standings(
    values: npt.NDArray[np.float64],
    agents: Sequence[str],
    **draws: Unpack[Draws],
) -> Standings:
    """The standings of a table of response scores [tasks, agents], NaN where one is missing."""
    intervals = dict(zip(agents, task_intervals(values, **draws), strict=True))
    how: Draws = {**USUAL, **draws}
    comparisons = compare_all(agents, values, seed=how["seed"], permutations=how["resamples"])
    beaten = _beaten(comparisons)
    order = sorted(agents, key=lambda agent: _order(intervals[agent]))
    rows = [
        Standing(
            agent,
            None if intervals[agent].mean is None else place,
            intervals[agent],
            tuple(other for other in order if (agent, other) in beaten),
        )
        for place, agent in enumerate(order, 1)
    ]
    return Standings(tuple(rows), tuple(comparisons))


def _order(interval: Interval) -> tuple[bool, float]:
    return interval.mean is None, -(interval.mean or 0.0)


def _beaten(comparisons: Sequence[Comparison]) -> set[tuple[str, str]]:
    """Pairs of a better and a worse agent."""
    sure = [c for c in comparisons if c.difference is not None and c.p_holm is not None and c.p_holm < SIGNIFICANT]
    return {(c.first, c.second) if (c.difference or 0.0) > 0 else (c.second, c.first) for c in sure}


Codes = npt.NDArray[np.integer]


def score_table(task: Codes, agent: Codes, score: FloatArray, *, tasks: int, agents: int) -> FloatArray:
    """Mean score [tasks, agents] of rows (task, agent, score), with tasks and agents numbered from 0.

    NaN scores are missing and left out; where no score is left, the mean is NaN.
    """
    task, agent, score = np.asarray(task), np.asarray(agent), np.asarray(score, dtype=np.float64)
    if not task.shape == agent.shape == score.shape or score.ndim != 1:
        raise UserError(
            "task, agent and score must be columns of the same length, "
            f"got shapes {task.shape}, {agent.shape} and {score.shape}"
        )
    for name, codes, count in (("task", task, tasks), ("agent", agent, agents)):
        if len(codes) and not (codes.min() >= 0 and codes.max() < count):
            raise UserError(f"{name} numbers must be 0 to {count - 1}, got {codes.min()} to {codes.max()}")
    cell = task.astype(np.intp) * agents + agent
    present = ~np.isnan(score)
    if not present.all():
        cell, score = cell[present], score[present]
    sums = np.bincount(cell, weights=score, minlength=tasks * agents)
    counts = np.bincount(cell, minlength=tasks * agents)
    means = np.full(tasks * agents, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.reshape(tasks, agents)
