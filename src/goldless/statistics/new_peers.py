"""Intervals for peers like these: how far a score would move with other tasks and other peers.

The interval over tasks is about the peers that happened to be there. With x_tp the score on task t with peer p, crossed
random effects of tasks and peers give the mean over n tasks and k peers the variance

    s²(row means) / n + s²(column means) / k - s²(residuals) / (n k),

since the residuals are in both of the first two. The interval is Student's t with Satterthwaite's degrees of freedom;
its end on the side of a tail of the peers is further out. Of three peers too little is known: where their effects are
exponential, 86 % of the intervals hold the mean (``benchmarks/decisions.py --only peers``), so there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.statistics.bootstrap import Interval
from goldless.statistics.skewness import further, skewness

FEWEST_PEERS = 4
TAIL = 3.0
"""How often the skewness of peers counts: with exponential effects 91 % of the intervals then hold the mean."""


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

    No end is nearer to the mean than that of the interval for these peers. None: fewer than two tasks or four peers.
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
    t, many = stdtrit(degrees, (1 + interval.level) / 2), np.array([float(k)])
    skew = skewness(columns[:, None]) * min(peers / total, 1.0) ** 1.5
    below, above = (float(further(t, side * skew, many, TAIL)[0] * np.sqrt(total)) for side in (1, -1))
    return NewPeers(
        low=min(interval.low, interval.mean - below),
        high=max(interval.high, interval.mean + above),
        se_tasks=float(np.sqrt(tasks)),
        se_peers=float(np.sqrt(peers)),
        peers=k,
    )
