"""Packing: which tokens are computed together in one sequence, and where the scored positions are in it.

Requests in the order of their tokens share most with their neighbours: after its predecessor, each adds only what
follows their common beginning. A token's descendants thus directly follow it, and a position may attend to an earlier
one exactly if it is inside that one's subtree. What does not fit a sequence continues in the next one, under a copy of
its path. What is in which sequence follows from the requests and the lengths alone, never from timing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from goldless.arrays import IntArray
from goldless.models.local_engine import Pair, common_length

WORTH_FILLING = 0.75
"""The rest goes into one more sequence of the next length up if it fills this share of it; otherwise a shorter
one is filled first.
"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths a packed sequence may have: few, because every length is compiled once."""

    longest: int
    shortest: int | None = None
    """Lengths are this one and its doubles; None: any length up to the longest, as long as its content."""

    def holding(self, tokens: int) -> int:
        """The smallest length that fits this many tokens, also beyond the longest."""
        if self.shortest is None:
            return tokens
        length = self.shortest
        while length < tokens:
            length *= 2
        return length

    def for_rest(self, tokens: int, least: int) -> int:
        """The length of the next sequence, with this many tokens left and ``least`` in the next request alone."""
        length = self.longest if tokens >= self.longest else self.holding(tokens)
        if self.shortest is not None and length > self.shortest and tokens < WORTH_FILLING * length:
            length //= 2
        return max(length, self.holding(least))


@dataclass(frozen=True, slots=True)
class Pack:
    """One sequence of packed requests, padded to its length."""

    length: int
    tokens: IntArray
    """Token ids, without the padding."""
    positions: IntArray
    """Position of each token in its own request."""
    ends: IntArray
    """For each token, the index after its subtree: later tokens before it are its descendants."""
    requests: tuple[int, ...]
    """The requests that are scored here."""
    rows: IntArray
    """Indices of the tokens whose next token is scored, request by request in the target's order."""
    chosen: IntArray
    """The scored tokens, in the same order."""


def plan_packs(requests: Sequence[Pair], lengths: Lengths) -> Iterator[Pack]:
    """Sequences with every request's tokens once or, below a cut, twice; the last target token is not read."""
    texts = [context + target[:-1] for context, target in requests]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    shared = [0, *(common_length(texts[a], texts[b]) for a, b in itertools.pairwise(order))]
    new = [len(texts[i]) - common for i, common in zip(order, shared, strict=False)]
    first, rest = 0, sum(new)
    while first < len(order):
        used = len(texts[order[first]])
        length = lengths.for_rest(rest + shared[first], used)
        end = first + 1
        while end < len(order) and used + new[end] <= length:
            used += new[end]
            end += 1
        rest -= sum(new[first:end])
        # the plan may have left room: a shorter sequence is taken where one holds the same
        yield _pack(requests, order[first:end], [0, *shared[first + 1 : end]], min(length, lengths.holding(used)))
        first = end


def _pack(requests: Sequence[Pair], order: Sequence[int], shared: Sequence[int], length: int) -> Pack:
    tokens: list[int] = []
    positions: list[int] = []
    chosen: list[int] = []
    rows: list[IntArray] = []
    ends = np.zeros(length, np.int64)
    path = np.zeros(0, np.int64)  # where the tokens of the current request are
    for i, common in zip(order, shared, strict=True):
        context, target = requests[i]
        ends[path[common:]] = len(tokens)
        added = (context + target[:-1])[common:]
        path = np.concatenate([path[:common], np.arange(len(tokens), len(tokens) + len(added))])
        tokens += added
        positions += range(common, len(path))
        rows.append(path[len(context) - 1 :])
        chosen += target
    ends[path] = len(tokens)
    return Pack(
        length=length,
        tokens=np.array(tokens, np.int64),
        positions=np.array(positions, np.int64),
        ends=ends[: len(tokens)],
        requests=tuple(order),
        rows=np.concatenate(rows),
        chosen=np.array(chosen, np.int64),
    )
