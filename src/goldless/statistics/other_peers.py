"""Firmness of an order under other peers: the chance that a decided difference would keep its sign.

The level of all scores moves with the peers, since an easy peer is easy for everyone; what matters is whether the order
stays. For two agents let d_p be the mean difference of their scores with common peer p. As many peers are drawn with
replacement from the common ones, and the mean m* of their d_p is moved away from the mean m of all to

    m + √(2 h / (h - 1)) (m* - m)

for h peers: both these peers and the next ones are a sample. The share of draws with the decided sign is what is said
of the pair. It is about more peers of the same kind; newcomers of another kind are not covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goldless.arrays import FloatArray, IntArray
from goldless.statistics.comparisons import Comparison

FEWEST_PEERS = 4
"""With fewer common peers nothing is said."""
DRAWS = 300
PAIRS_AT_ONCE = 1 << 12


def with_sign_kept(
    comparisons: Sequence[Comparison], agents: Sequence[str], by_peer: FloatArray, seed: int = 0
) -> list[Comparison]:
    """The comparisons, each decided one with how likely its sign stays; ``by_peer`` is [tasks, agents, peers]."""
    decided = [one for one in comparisons if one.decided]
    number = {agent: place for place, agent in enumerate(agents)}
    better = np.array([number[str(one.better)] for one in decided], np.int64)
    worse = np.array([number[str(one.worse)] for one in decided], np.int64)
    known = iter(sign_kept(_means_with_peers(by_peer), better, worse, seed).tolist())
    return [replace(one, sign_kept=_known(next(known))) if one.decided else one for one in comparisons]


def _known(share: float) -> float | None:
    return None if np.isnan(share) else share


def _means_with_peers(by_peer: FloatArray) -> FloatArray:
    """[agents, peers]: mean scores over tasks, less what the task is worth to all with that peer; NaN: none."""
    means = np.full(by_peer.shape[1:], np.nan)
    for peer in range(by_peer.shape[2]):
        scores = by_peer[:, :, peer]
        present = ~np.isnan(scores)
        filled = np.where(present, scores, 0.0)
        of_task = filled.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        counts = present.sum(axis=0)
        sums = (filled - present * of_task[:, None]).sum(axis=0)
        np.divide(sums, counts, out=means[:, peer], where=counts > 0)
    return means


def sign_kept(means: FloatArray, better: IntArray, worse: IntArray, seed: int = 0) -> FloatArray:
    """The share of draws of other peers in which the better of each pair stays the better one.

    ``means`` [agents, peers]: mean scores with each peer. NaN where two agents have fewer than four peers in common.
    """
    found = np.full(len(better), np.nan)
    for begin in range(0, len(better), PAIRS_AT_ONCE):
        some = slice(begin, begin + PAIRS_AT_ONCE)
        gaps = means[better[some]] - means[worse[some]]
        common = ~np.isnan(gaps)
        counts = common.sum(axis=1)
        for h in np.unique(counts[counts >= FEWEST_PEERS]).tolist():
            rows = np.flatnonzero(counts == h)
            of_peers = gaps[rows][common[rows]].reshape(len(rows), h)
            mean = of_peers.mean(axis=1, keepdims=True)
            around = (of_peers - mean) @ _drawn_shares(h, seed).T
            found[begin + rows] = (mean + np.sqrt(2 * h / (h - 1)) * around > 0).mean(axis=1)
    return found


def _drawn_shares(peers: int, seed: int) -> FloatArray:
    """[draws, peers]: the share of each peer in a draw with replacement."""
    drawn = np.random.default_rng((seed, peers)).integers(peers, size=(DRAWS, peers))
    drawn += np.arange(DRAWS)[:, None] * peers
    return np.bincount(drawn.ravel(), minlength=DRAWS * peers).reshape(DRAWS, peers) / peers
