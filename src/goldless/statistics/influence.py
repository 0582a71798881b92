"""Influence: how leaving a task out changes the agents' means and their ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray

TIED = 1e-12
"""Means that differ by less than this share of the largest are tied: sums in another order differ in the last digit."""


@dataclass(frozen=True)
class Influence:
    """The effect of one task on one agent's mean."""

    agent: str
    task: str
    change: float
    """Mean without the task minus mean with it."""
    rank: int
    """The agent's rank with the task: one more than the number of agents with a higher mean."""
    rank_without: int
    ranking_changes: bool
    """True if any agent's rank changes when the task is left out for all."""


def leave_one_out_changes(values: FloatArray) -> FloatArray:
    """Mean without each task minus mean with it: [tasks, agents], for scores of that shape with NaN where missing.

    Exact: (mean - score) / (n - 1), 0 where that is rounding. NaN where the agent has no score on the task, or on any
    other.
    """
    counts = np.sum(~np.isnan(values), axis=0)
    means = _means(values, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        changes: FloatArray = (means - values) / (counts - 1)
    changes[:, counts < 2] = np.nan
    changes[np.abs(changes) <= TIED * np.max(np.abs(values[~np.isnan(values)]), initial=0.0)] = 0.0
    return changes


def most_influential(values: FloatArray, tasks: Sequence[str], agents: Sequence[str], k: int = 10) -> list[Influence]:
    """The k largest changes of an agent's mean when a task is left out, largest first; fewer if there are fewer."""
    changes = leave_one_out_changes(values)
    means = _means(values, np.sum(~np.isnan(values), axis=0))
    ranks = _ranks(means)
    sizes = np.abs(changes).ravel()
    order = np.argsort(-sizes, kind="stable")[: min(k, int(np.sum(~np.isnan(sizes))))]
    found = []
    for task, agent in zip(*np.unravel_index(order, changes.shape), strict=True):
        # an agent that has no score on the task keeps its mean, one that has no other has none
        without = _ranks(np.where(np.isnan(values[task]), means, means + changes[task]))
        found.append(
            Influence(
                agent=agents[agent],
                task=tasks[task],
                change=float(changes[task, agent]),
                rank=int(ranks[agent]),
                rank_without=int(without[agent]),
                ranking_changes=not np.array_equal(ranks, without),
            )
        )
    return found


def _means(values: FloatArray, counts: npt.NDArray[np.int_]) -> FloatArray:
    means = np.full(values.shape[1], np.nan)
    np.divide(np.nansum(values, axis=0), counts, out=means, where=counts > 0)
    return means


def _ranks(means: FloatArray) -> npt.NDArray[np.int_]:
    """One more than the number of higher means; 0 for an agent without a mean."""
    scored = ~np.isnan(means)
    tolerance = TIED * np.max(np.abs(means[scored]), initial=0.0)
    lower = np.searchsorted(np.sort(means[scored]), means + tolerance, side="right")
    ranks: npt.NDArray[np.int_] = np.where(scored, scored.sum() - lower + 1, 0)
    return ranks
