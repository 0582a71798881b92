"""Standings: agents in order of their score, each with its intervals and the agents it is better than.

*Intervals for peers like these*: how far a score would move with other tasks and other peers. The interval over tasks
is about the peers that happened to be there. With x_tp the score on task t with peer p, crossed random effects of tasks
and peers give the mean over n tasks and k peers the variance

    s²(row means) / n + s²(column means) / k - s²(residuals) / (n k),

since the residuals are in both of the first two. The interval is Student's t with Satterthwaite's degrees of freedom;
its end on the side of a tail of the peers is further out. Of three peers too little is known: where their effects are
exponential, 86% of the intervals hold the mean (``benchmarks/method/decisions.py --only peers``), so there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from goldless.arrays import FloatArray
from goldless.statistics.answering import Until, with_outlook
from goldless.statistics.bootstrap import ABSENT, USUAL, Draws, Estimate, Limits, score_intervals, task_intervals
from goldless.statistics.comparisons import Compare, Comparison, all_pairs, compare_pairs, compare_with, pairs_with
from goldless.statistics.other_peers import FEWEST_PEERS, with_sign_kept
from goldless.statistics.skewness import further, skewness

TAIL = 3.0
"""Factor of the skewness of peers: with exponential effects 91% of the intervals then hold the mean."""


@dataclass(frozen=True)
class Missing:
    """Substitutes for missing scores in the worst case."""

    share: FloatArray
    """[tasks, agents]: the share of each score that is there; 0: the score is missing, 1: it is whole."""
    lowest: float
    highest: float


@dataclass(frozen=True)
class LeaderboardRow:
    """One agent."""

    rank: int | None
    """None: no score."""
    agent: str
    group: str | None = None
    estimate: Estimate = ABSENT
    """The score over tasks."""
    asked: int = 0
    """Pairs that should have been scored."""
    used: int = 0
    """Pairs that were scored."""
    better_than: tuple[str, ...] | None = None
    """Agents it beats on common tasks, corrected for multiple comparisons; None: not tested."""
    between_prompts: float | None = None
    """Standard deviation of the score between prompts; None if there was only one."""
    new_peers: Estimate | None = None
    """The score for peers like these, of which a file keeps the ends; None: scores are not means over peers."""
    worst: Estimate | None = None
    """The ends if all that is missing were lowest, and highest, likewise; None: nothing is missing."""

    @property
    def score(self) -> float | None:
        return self.estimate.value

    @property
    def missing(self) -> int:
        return self.asked - self.used


@dataclass(frozen=True)
class Standings:
    """Agents by score, highest first, and the comparisons made."""

    rows: tuple[LeaderboardRow, ...]
    comparisons: tuple[Comparison, ...]
    peers: int | None = None
    """The most peers that an agent was scored with; None: scores are not over peers."""


def standings(
    values: npt.NDArray[np.float64],
    agents: Sequence[str],
    *,
    by_peer: FloatArray | None = None,
    compare: Compare = "all",
    baseline: str | None = None,
    until: Until | None = None,
    missing: Missing | None = None,
    limits: Limits | None = None,
    **draws: Unpack[Draws],
) -> Standings:
    """The standings of a table of response scores [tasks, agents], NaN where one is missing.

    ``by_peer`` [tasks, agents, peers]: the scores that response scores are over. ``compare``: every pair, or the leader
    with each other agent; ``baseline``: that agent with each other one. ``until``: the pairs of a question, by a
    confidence sequence, since the data decided how many tasks there are. ``limits``: those of the scores.
    """
    found = score_intervals(values, limits=limits, **draws)
    intervals = dict(zip(agents, found, strict=True))
    order = sorted(agents, key=lambda agent: (intervals[agent].value is None, -(intervals[agent].value or 0.0)))
    how: Draws = {**USUAL, **draws}
    leads = compare == "leader" and baseline is None and bool(order) and intervals[order[0]].value is not None
    one = order[0] if leads else baseline
    if until is not None:
        comparisons = until.compare(agents, all_pairs(values))
    elif one is not None:
        comparisons = compare_with(agents, values, one, leads=leads, seed=how["seed"], permutations=how["resamples"])
        comparisons = with_outlook(comparisons, pairs_with(values, agents.index(one)))
    else:
        pairs = all_pairs(values)
        comparisons = compare_pairs(agents, pairs, seed=how["seed"], permutations=how["resamples"])
        comparisons = with_outlook(comparisons, pairs)
    if by_peer is not None:
        comparisons = with_sign_kept(comparisons, agents, by_peer, how["seed"])
    places = {agent: place for place, agent in enumerate(order)}
    beaten: dict[str, list[str]] = {}
    for made in comparisons:
        if made.better is not None and made.worse is not None:
            beaten.setdefault(made.better, []).append(made.worse)
    new_peers = {} if by_peer is None else dict(zip(agents, new_peer_intervals(by_peer, found), strict=True))
    worst = _worst(values, agents, missing, limits, **draws)

    def within(one: Estimate | None) -> Estimate | None:
        return one if one is None or limits is None else one.within(*limits)

    rows = []
    for place, agent in enumerate(order, 1):
        mine = intervals[agent]
        rows.append(
            LeaderboardRow(
                rank=None if mine.value is None else place,
                agent=agent,
                estimate=mine,
                better_than=tuple(sorted(beaten.get(agent, ()), key=places.__getitem__)),
                new_peers=within(new_peers.get(agent)),
                worst=within(None if agent not in worst else replace(mine, low=worst[agent][0], high=worst[agent][1])),
            )
        )
    peers = None if by_peer is None else int((~np.isnan(by_peer)).any(axis=0).sum(axis=1).max(initial=0))
    return Standings(tuple(rows), tuple(comparisons), peers)


def _worst(
    values: FloatArray, agents: Sequence[str], missing: Missing | None, limits: Limits | None, **draws: Unpack[Draws]
) -> dict[str, tuple[float, float]]:
    """The ends with everything that is missing at its lowest, and at its highest, for agents that lack something."""
    if missing is None:
        return {}
    scored = ~np.isnan(values).all(axis=1)
    share = missing.share[scored]
    some = np.flatnonzero((share < 1).any(axis=0))
    share, known = share[:, some], np.nan_to_num(values[scored][:, some])
    low, high = (
        task_intervals(share * known + (1 - share) * end, limits=limits, tails=True, **draws)
        for end in (missing.lowest, missing.highest)
    )
    return {
        agents[int(j)]: (least.low, most.high)
        for j, least, most in zip(some, low, high, strict=True)
        if least.low is not None and most.high is not None
    }


def new_peer_intervals(by_peer: FloatArray, intervals: list[Estimate]) -> list[Estimate | None]:
    """The interval of each agent's mean for peers like these; ``by_peer`` is [tasks, agents, peers], NaN for missing.

    No end is nearer to the mean than that of the interval for these peers. None: fewer than two tasks or four peers.
    """
    return [_new_peers(by_peer[:, j, :], interval) for j, interval in enumerate(intervals)]


def _new_peers(scores: FloatArray, interval: Estimate) -> Estimate | None:
    present = ~np.isnan(scores)
    scores, present = scores[present.any(axis=1)], present[present.any(axis=1)]
    scores, present = scores[:, present.any(axis=0)], present[:, present.any(axis=0)]
    n, k = scores.shape
    if n < 2 or k < FEWEST_PEERS or interval.low is None or interval.high is None or interval.value is None:
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
        return interval
    degrees = max(1.0, total**2 / (tasks**2 / (n - 1) + peers**2 / (k - 1)))
    t, many = stdtrit(degrees, (1 + interval.level) / 2), np.array([float(k)])
    skew = skewness(columns[:, None]) * min(peers / total, 1.0) ** 1.5
    below, above = (float(further(t, side * skew, many, TAIL)[0] * np.sqrt(total)) for side in (1, -1))
    return replace(
        interval, low=min(interval.low, interval.value - below), high=max(interval.high, interval.value + above)
    )


Codes = npt.NDArray[np.integer]


def score_table(task: Codes, agent: Codes, score: FloatArray, *, tasks: int, agents: int) -> FloatArray:
    """Mean score [tasks, agents] of rows (task, agent, score), with tasks and agents numbered from 0.

    NaN scores are missing and left out; where no score is left, the mean is NaN.
    """
    present = ~np.isnan(score)
    cell, score = (task.astype(np.intp) * agents + agent)[present], score[present]
    sums = np.bincount(cell, weights=score, minlength=tasks * agents)
    counts = np.bincount(cell, minlength=tasks * agents)
    means = np.full(tasks * agents, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.reshape(tasks, agents)
