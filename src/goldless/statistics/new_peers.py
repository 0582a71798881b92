"""Intervals for peers like these: how far a score would move with other tasks and other peers.

The interval over tasks is about the peers that happened to be there. With x_tp the score on task t with peer p, crossed
random effects of tasks and peers give the mean over n tasks and k peers the variance

    s²(row means) / n + s²(column means) / k - s²(residuals) / (n k),

since the residuals are in both of the first two. The interval is Student's t with Satterthwaite's degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.statistics.bootstrap import Interval

FEWEST_PEERS = 2


@dataclass(frozen=True, slots=True)
class NewPeers:
    """The interval of a mean for peers like these."""

    low: float
    high: float
    se_tasks: float
    """Standard error over tasks."""
    se_peers: float
    """Standard error over peers."""
    peers: int


def new_peer_intervals(by_peer: FloatArray, intervals: list[Interval]) -> list[NewPeers | None]:
    """The interval of each agent's mean for peers like these; ``by_peer`` is [tasks, agents, peers], NaN for missing.

    No end is nearer to the mean than that of the interval for these peers. None: fewer than two tasks or peers.
    """
    return [_new_peers(by_peer[:, j, :], interval) for j, interval in enumerate(intervals)]


def _new_peers(scores: FloatArray, interval: Interval) -> NewPeers | None:
    present = ~np.isnan(scores)
    scores, present = scores[present.any(axis=1)], present[present.any(axis=1)]
    scores, present = scores[:, present.any(axis=0)], present[:, present.any(axis=0)]
    n, k = scores.shape
    if n < 2 or k < FEWEST_PEERS or interval.low is None or interval.high is None or interval.mean is None:
        return None
    filled = np.where(present, scores, 0.0)
    rows = filled.sum(axis=1) / present.sum(axis=1)
    around = np.where(present, scores - rows[:, None], 0.0)
    columns = around.sum(axis=0) / present.sum(axis=0)
    residuals = np.where(present, around - columns, 0.0)
    freedom = max(1, int(present.sum()) - n - k + 1)
    tasks, peers = rows.var(ddof=1) / n, columns.var(ddof=1) / k
    total = max(tasks, tasks + peers - (residuals**2).sum() / freedom / (n * k))
    if total == 0:
        return NewPeers(interval.low, interval.high, 0.0, 0.0, k)
    degrees = max(1.0, total**2 / (tasks**2 / (n - 1) + peers**2 / (k - 1)))
    half = float(stdtrit(degrees, (1 + interval.level) / 2) * np.sqrt(total))
    return NewPeers(
        low=min(interval.low, interval.mean - half),
        high=max(interval.high, interval.mean + half),
        se_tasks=float(np.sqrt(tasks)),
        se_peers=float(np.sqrt(peers)),
        peers=k,
    )
