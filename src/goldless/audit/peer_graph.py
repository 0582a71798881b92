"""The peer graph: which agents predict which, beyond what each predicts and is predicted in general.

Mean scores of agents (rows) with peers (columns) are fitted by a level for each agent and one for each peer; what is
left over links two agents. A block of agents that predict each other and no one else raises an alarm: they may share
something that has nothing to do with the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from goldless.arrays import FloatArray
from goldless.audit.finding import Finding, listed
from goldless.files import Frames, frames
from goldless.grouped import mean_in_order, sd_in_order, sum_in_order

LEAST_AGENTS = 4
"""With fewer there is nothing beyond the levels of agents and peers."""
CLEAR = 3.0
"""Standard errors that a link or the difference of a block must exceed."""
ROUNDING = 1e-9
"""What is left over is rounding below this share of the largest mean: where all tasks agree there is no other error."""
OUTSIDE = 0.1
"""A block predicts no one else where it shares at most this much with others of what it shares inside."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two agents that predict each other more than their levels explain."""

    first: str
    second: str
    excess: float
    """Mean score of the two directions less what the levels explain."""
    standard_error: float


@dataclass(frozen=True, slots=True)
class Block:
    """Agents that predict each other and no one else."""

    agents: tuple[str, ...]
    inside: float
    """Mean score of its agents with each other."""
    outside: float
    """Mean score between its agents and all others."""


@dataclass(frozen=True, slots=True)
class PeerGraph:
    """What agents predict of each other under one metric."""

    agents: tuple[str, ...]
    links: tuple[Link, ...]
    blocks: tuple[Block, ...]


def peer_graph(pairs: Frames, agents: Sequence[str]) -> PeerGraph | None:
    """The graph of a metric's pair scores (task, agent, peer, score); None where there are too few agents or scores."""
    if len(agents) < LEAST_AGENTS:
        return None
    means, errors = _both_directions(pairs, agents)
    off = ~np.eye(len(agents), dtype=bool)
    if np.isnan(means[off]).any():
        return None
    excess = means - _levels(means)
    rounding = ROUNDING * np.abs(means[off]).max()
    links = [
        Link(agents[i], agents[j], float(excess[i, j]), float(errors[i, j]))
        for i, j in combinations(range(len(agents)), 2)
        if excess[i, j] > max(CLEAR * errors[i, j], rounding)
    ]
    links.sort(key=lambda link: -float(f"{link.excess:.9g}"))  # links that differ by rounding stay in the agents' order
    return PeerGraph(tuple(agents), tuple(links), _blocks(means, errors, agents))


def graph_findings(metric: str, unit: str, graph: PeerGraph) -> list[Finding]:
    """The alarm of a metric's peer graph, where it has closed blocks."""
    if not graph.blocks:
        return []
    blocks = "; ".join(
        f"{listed(block.agents)} ({block.inside:.3g} {unit}, {block.outside:.2g} with others)" for block in graph.blocks
    )
    return [
        Finding(
            "closed-block",
            tuple(agent for block in graph.blocks for agent in block.agents),
            f"Under {metric} some agents predict each other and no one else: {blocks}. They may have colluded, or "
            "share phrases that do not depend on the task.",
            (metric,),
        )
    ]


def _both_directions(pairs: Frames, agents: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Mean over tasks and both directions of every two agents, and its standard error; NaN where there is none."""
    number = {agent: place for place, agent in enumerate(agents)}
    found = _combined([_by_pair(rows) for rows in frames(pairs)])
    means, errors = (np.full((len(agents), len(agents)), np.nan) for _ in range(2))
    for first, second, mean, sd, n in found.iter_rows():
        if first in number and second in number:
            i, j = number[first], number[second]
            means[i, j] = means[j, i] = mean
            errors[i, j] = errors[j, i] = np.inf if sd is None else sd / np.sqrt(n)
    return means, errors


def _by_pair(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean, standard deviation and number over the tasks of both directions, for every two agents."""
    return (
        rows.lazy()
        .drop_nulls("score")
        .select("task", "score", pl.col("agent", "peer").cast(pl.String))
        .filter(pl.col("agent") != pl.col("peer"))
        .with_columns(first=pl.min_horizontal("agent", "peer"), second=pl.max_horizontal("agent", "peer"))
        .group_by("first", "second", "task", maintain_order=True)
        .agg(mean_in_order(pl.col("score")))
        .group_by("first", "second")
        .agg(mean=mean_in_order(pl.col("score")), sd=sd_in_order(pl.col("score")), n=pl.len())
        .collect()
    )


def _combined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The same over all parts, each of other tasks (Chan, Golub and LeVeque 1979)."""
    if len(parts) == 1:
        return parts[0]
    n, mean = pl.col("n"), pl.col("mean")
    whole_mean = sum_in_order(n * mean) / n.sum()
    squares = sum_in_order(pl.col("sd").fill_null(0.0) ** 2 * (n - 1) + n * (mean - whole_mean) ** 2)
    return (
        pl.concat(parts)
        .with_columns(n.cast(pl.Int64))
        .group_by("first", "second")
        .agg(whole_mean.alias("mean"), pl.when(n.sum() > 1).then((squares / (n.sum() - 1)).sqrt()).alias("sd"), n.sum())
    )


def _levels(means: FloatArray) -> FloatArray:
    """What one level for each agent explains of a symmetric table without its diagonal, by least squares."""
    size = len(means)
    first, second = np.triu_indices(size, 1)
    design = np.zeros((len(first), size))
    design[np.arange(len(first)), first] = design[np.arange(len(first)), second] = 1.0
    level, *_ = np.linalg.lstsq(design, means[first, second], rcond=None)
    return level[:, None] + level[None, :]


def _agree(group: tuple[int, ...], means: FloatArray, errors: FloatArray, within: float) -> bool:
    """Whether two agents outside the group predict each other: otherwise the group may be the only ones that answer."""
    rest = [place for place in range(len(means)) if place not in group]
    return any(
        means[i, j] > max(CLEAR * errors[i, j], OUTSIDE * within)
        for i, j in combinations(rest, 2)
        if not np.isnan(means[i, j])
    )


def _blocks(means: FloatArray, errors: FloatArray, agents: Sequence[str]) -> tuple[Block, ...]:
    """The largest groups of at most half of the agents that predict themselves and no one else."""
    size = len(agents)
    filled = np.where(np.eye(size, dtype=bool), 0.0, means)
    distance = squareform(np.nanmax(filled) - filled, checks=False)
    members: list[tuple[int, ...]] = [(place,) for place in range(size)]
    found: list[Block] = []
    taken: set[int] = set()
    for left, right, *_ in linkage(distance, "average"):
        members.append(members[int(left)] + members[int(right)])
    for group in sorted(members, key=len, reverse=True):
        if len(group) < 2 or 2 * len(group) > size or taken & set(group):
            continue
        inside = np.ix_(group, group)
        outside = np.ix_(group, [place for place in range(size) if place not in group])
        own = ~np.eye(len(group), dtype=bool)
        within, across = float(means[inside][own].mean()), float(means[outside].mean())
        error = float(np.sqrt((errors[inside][own] ** 2).mean() + (errors[outside] ** 2).mean()))
        if within - across > CLEAR * error and across <= OUTSIDE * within and _agree(group, means, errors, within):
            taken |= set(group)
            found.append(Block(tuple(agents[place] for place in group), within, across))
    return tuple(sorted(found, key=lambda block: -block.inside))
