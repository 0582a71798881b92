"""The peer graph: which agents predict which, beyond what each predicts and is predicted in general.

Mean scores of agents (rows) with peers (columns) are fitted by a level for each agent and one for each peer; what is
left over links two agents. A block is some agents that share more with each other than any of them does with anyone
else, and more than their levels explain: it may have nothing to do with the tasks. Whether the block or the others are
right cannot be read off scores, so nobody is accused; what is told is how the block would rank without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.audit.finding import listed
from goldless.grouped import mean_in_order, sd_in_order
from goldless.records import Finding

LEAST_AGENTS = 4
"""With fewer there is nothing beyond the levels of agents and peers."""
CLEAR = 3.0
"""Standard errors that a link or the difference of a block must exceed."""
ROUNDING = 1e-9
"""A remainder below this share of the largest mean is rounding: where all tasks agree there is no other error."""
MORE = 1.5
"""Each two agents of a block share this many times what any of them shares with others (AlpacaEval's models: 1.1)."""
FAR = 2.5
"""A link is far above the others at this many times the next one (a single one of five agents has 3 times)."""
MOST_KNOWN = 0.8
"""Share of the pairs of agents that must have met: 200 agents with eight drawn peers each on 50 tasks have .87."""
OUTSIDE = 0.1
"""Others share something where it is at least this share of what a block shares inside."""


@dataclass(frozen=True)
class PeerLink:
    """Two agents that predict each other more than their levels explain."""

    first: str
    second: str
    excess: float
    """Mean score of the two directions less what the levels explain."""
    standard_error: float


@dataclass(frozen=True)
class Block:
    """Agents that share more with each other than with anyone else."""

    agents: tuple[str, ...]
    inside: float
    """Mean score of its agents with each other."""
    outside: float
    """Highest mean score of one of them with another agent."""
    ranks: tuple[int, ...]
    """Their ranks by mean score with all others."""
    ranks_without: tuple[int, ...]
    """Their ranks by mean score with agents outside the block, beside the others' as they are."""


@dataclass(frozen=True)
class PeerGraph:
    """The agents that predict each other under one metric."""

    agents: tuple[str, ...]
    links: tuple[PeerLink, ...]
    blocks: tuple[Block, ...]


def peer_graph(pairs: pl.DataFrame, agents: Sequence[str]) -> PeerGraph | None:
    """The graph of a metric's pair scores (task, agent, peer, score); None where there are too few agents or scores.

    Where peers are drawn, two agents may never meet: their levels stand for their mean.
    """
    if len(agents) < LEAST_AGENTS or 2 * pairs.height < len(agents) * (len(agents) - 1):
        return None
    means, errors = _both_directions(pairs, agents)
    off = ~np.eye(len(agents), dtype=bool)
    known = off & ~np.isnan(means)
    if known.sum() < MOST_KNOWN * off.sum():
        return None
    levels = _levels(means, known)
    # of two agents that were not drawn together nothing is known beyond their levels
    means, errors = np.where(known, means, levels), np.where(known, errors, np.inf)
    excess = means - levels
    rounding = ROUNDING * np.abs(means[off]).max()
    links = [
        PeerLink(agents[i], agents[j], float(excess[i, j]), float(errors[i, j]))
        for i, j in combinations(range(len(agents)), 2)
        if excess[i, j] > max(CLEAR * errors[i, j], rounding)
    ]
    links.sort(key=lambda link: -float(f"{link.excess:.9g}"))  # links that differ by rounding stay in the agents' order
    return PeerGraph(tuple(agents), tuple(links), _blocks(means, errors, agents))


def graph_findings(metric: str, unit: str, graph: PeerGraph, shown: Mapping[str, int] | None = None) -> list[Finding]:
    """One for each block that ranks otherwise without what its agents share with each other, or is one far link.

    ``shown``: the ranks that the agents have, where their closest peers are left out.
    """
    found = []
    for block in graph.blocks:
        ranks = block.ranks if shown is None else tuple(shown[agent] for agent in block.agents)
        if any(without > rank for without, rank in zip(block.ranks_without, ranks, strict=True)):
            told = f"Without that they rank {_ordinals(block.ranks_without)} instead of {_ordinals(ranks)}. "
        elif any(rank > with_all for rank, with_all in zip(ranks, block.ranks, strict=True)):
            told = (
                f"It is left out of their scores, as every agent's closest peer is; with it they would rank "
                f"{_ordinals(block.ranks)} instead of {_ordinals(ranks)}. "
            )
        elif _is_far_link(graph, block):
            told = "Their ranks are the same without that. "
        else:
            continue
        why = "They may have copied, colluded or come from one model."
        if 2 * len(block.agents) >= len(graph.agents):
            why = "They are half of the agents or more, so this can be agreement as well as collusion."
        shared = (
            f"Under {metric}, {listed(block.agents)} share {block.inside:.3g} {unit} with each other and at most "
            f"{block.outside:.2g} with anyone else. {told}{why}"
        )
        found.append(Finding("link", block.agents, shared, (metric,)))
    return found


def _is_far_link(graph: PeerGraph, block: Block) -> bool:
    """True if a block is the two agents of a link that is far above all others."""
    closest = block == graph.blocks[0] and bool(graph.links)
    if not closest or {graph.links[0].first, graph.links[0].second} != set(block.agents):
        return False
    return len(graph.links) == 1 or graph.links[0].excess >= FAR * graph.links[1].excess


def _ordinals(ranks: tuple[int, ...]) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return listed([f"{rank}{'th' if rank % 100 in (11, 12, 13) else endings.get(rank % 10, 'th')}" for rank in ranks])


def _both_directions(pairs: pl.DataFrame, agents: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Mean over tasks and both directions of every two agents, and its standard error; NaN where there is none."""
    by_pair = (
        pairs.lazy()
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
    number = {agent: place for place, agent in enumerate(agents)}
    means, errors = (np.full((len(agents), len(agents)), np.nan) for _ in range(2))
    for first, second, mean, sd, n in by_pair.iter_rows():
        if first in number and second in number:
            i, j = number[first], number[second]
            means[i, j] = means[j, i] = mean
            errors[i, j] = errors[j, i] = np.inf if sd is None else sd / np.sqrt(n)
    return means, errors


def _levels(means: FloatArray, known: BoolArray) -> FloatArray:
    """The part of a symmetric table that one level for each agent explains, by least squares over the known pairs."""
    size = len(means)
    first, second = np.nonzero(np.triu(known, 1))
    design = np.zeros((len(first), size))
    design[np.arange(len(first)), first] = design[np.arange(len(first)), second] = 1.0
    level, *_ = np.linalg.lstsq(design, means[first, second], rcond=None)
    return level[:, None] + level[None, :]


def _blocks(means: FloatArray, errors: FloatArray, agents: Sequence[str]) -> tuple[Block, ...]:
    """The largest groups that clearly share more inside than across, while others share something as well.

    Otherwise the group may be the only agents that answer.
    """
    from scipy.cluster.hierarchy import linkage  # noqa: PLC0415 - slow to import, and few runs have links
    from scipy.spatial.distance import squareform  # noqa: PLC0415 - as above

    size = len(agents)
    filled = np.where(np.eye(size, dtype=bool), 0.0, means)
    distance = squareform(np.nanmax(filled) - filled, checks=False)
    members: list[tuple[int, ...]] = [(place,) for place in range(size)]
    for left, right, *_ in linkage(distance, "average"):
        members.append(members[int(left)] + members[int(right)])
    found: list[Block] = []
    taken: set[int] = set()
    for group in sorted(members, key=len, reverse=True):
        if not 2 <= len(group) <= size - 2 or taken & set(group):
            continue
        rest = [place for place in range(size) if place not in group]
        cross = means[np.ix_(group, rest)]
        inner, others = (_pairs(places) for places in (group, rest))
        inside, outside = float(means[inner].mean()), float(cross.max())
        error = float(np.sqrt((errors[inner] ** 2).mean() + errors[np.ix_(group, rest)].flat[cross.argmax()] ** 2))
        known = ~np.eye(size, dtype=bool)
        known[np.ix_(group, group)] = False
        explained = float(_levels(means, known)[inner].mean())
        least = float(means[inner].min())
        apart = least > MORE * outside and min(least - outside, inside - explained) > CLEAR * error
        something = OUTSIDE * inside
        # beside a majority the others must share more than across: they may just be the ones that say little
        shared = (
            means[others].max() > something
            if 2 * len(group) <= size
            else means[others].mean() > max(something, outside)
        )
        if apart and shared:
            taken |= set(group)
            ranks = _ranks(filled, group)
            found.append(Block(tuple(agents[place] for place in group), inside, outside, *ranks))
    return tuple(sorted(found, key=lambda block: -block.inside))


def _pairs(places: Sequence[int]) -> tuple[IntArray, IntArray]:
    first, second = zip(*combinations(places, 2), strict=True)
    return np.array(first), np.array(second)


def _ranks(filled: FloatArray, group: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks of a group's agents with all peers, and with those outside the group."""
    size, inner = len(filled), list(group)
    scores = filled.sum(axis=1) / (size - 1)
    without = scores.copy()
    without[inner] = (filled[inner].sum(axis=1) - filled[np.ix_(inner, inner)].sum(axis=1)) / (size - len(inner))
    first, second = (tuple(1 + int((given > given[i]).sum()) for i in inner) for given in (scores, without))
    return first, second
