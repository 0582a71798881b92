"""Standings: agents in order of their mean, each with its interval and whom it is better than."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.statistics.bootstrap import Interval, task_intervals
from goldless.statistics.comparisons import Comparison, compare_all

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """One agent."""

    agent: str
    rank: int | None
    """None: no score."""
    interval: Interval
    better_than: tuple[str, ...]
    """Agents it beats on common tasks, corrected for many comparisons."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Agents by score, highest first, and every two of them compared."""

    rows: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]


def standings(
    values: npt.NDArray[np.float64],
    agents: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Standings:
    """The standings of a table of response scores [tasks, agents], NaN where one is missing."""
    intervals = dict(zip(agents, task_intervals(values, seed=seed, resamples=resamples, level=level), strict=True))
    comparisons = compare_all(agents, values, seed=seed, permutations=resamples)
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
