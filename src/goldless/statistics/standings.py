"""Standings: agents in order of their score, each with its intervals and the agents it is better than."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray
from goldless.errors import UserError
from goldless.statistics.answering import Until, with_outlook
from goldless.statistics.bootstrap import USUAL, Draws, Interval, Limits, score_intervals, task_intervals
from goldless.statistics.comparisons import Compare, Comparison, all_pairs, compare_pairs, compare_with, pairs_with
from goldless.statistics.new_peers import NewPeers, new_peer_intervals


@dataclass(frozen=True, slots=True)
class Missing:
    """What to take for missing scores in the worst case."""

    share: FloatArray
    """[tasks, agents]: the share of each score that is there; 0: the score is missing, 1: it is whole."""
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Standing:
    """One agent's row in the standings."""

    agent: str
    rank: int | None
    """None: no score."""
    interval: Interval
    better_than: tuple[str, ...]
    """Agents it beats on common tasks, corrected for multiple comparisons."""
    new_peers: NewPeers | None = None
    """The interval for peers like these; None: scores are not means over peers."""
    worst: tuple[float, float] | None = None
    """The ends of the interval if all that is missing were lowest, and highest; None: nothing is missing."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Agents by score, highest first, and the comparisons made."""

    rows: tuple[Standing, ...]
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
    order = sorted(agents, key=lambda agent: _order(intervals[agent]))
    how: Draws = {**USUAL, **draws}
    leads = compare == "leader" and baseline is None and bool(order) and intervals[order[0]].mean is not None
    one = order[0] if leads else baseline
    if until is not None:
        comparisons = until.compare(agents, all_pairs(values))
    elif one is not None:
        comparisons = compare_with(agents, values, one, leads=leads, seed=how["seed"], permutations=how["resamples"])
        comparisons = with_outlook(comparisons, agents, pairs_with(values, agents.index(one)))
    else:
        pairs = all_pairs(values)
        comparisons = compare_pairs(agents, pairs, seed=how["seed"], permutations=how["resamples"])
        comparisons = with_outlook(comparisons, agents, pairs)
    places = {agent: place for place, agent in enumerate(order)}
    beaten: dict[str, list[str]] = {}
    for made in comparisons:
        if made.better is not None:
            beaten.setdefault(made.better, []).append(made.second if made.better == made.first else made.first)
    new_peers = {} if by_peer is None else dict(zip(agents, new_peer_intervals(by_peer, found), strict=True))
    worst = _worst(values, agents, missing, limits, **draws)
    rows = [
        Standing(
            agent,
            None if intervals[agent].mean is None else place,
            intervals[agent],
            tuple(sorted(beaten.get(agent, ()), key=places.__getitem__)),
            new_peers.get(agent),
            worst.get(agent),
        )
        for place, agent in enumerate(order, 1)
    ]
    peers = None if by_peer is None else int((~np.isnan(by_peer)).any(axis=0).sum(axis=1).max(initial=0))
    return Standings(tuple(rows), tuple(comparisons), peers)


def _order(interval: Interval) -> tuple[bool, float]:
    return interval.mean is None, -(interval.mean or 0.0)


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
