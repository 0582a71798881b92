"""Packing: which tokens of which prefix trees are computed together, and where the scored positions are in them.

Requests of many tasks become one prefix tree. Its branches are laid out in sequences of limited length, depth first, so
that a node's whole subtree directly follows it: a position may then attend to an earlier one exactly if it is
inside that one's subtree. A tree that is larger than a sequence continues in the next one under a copy of the path from
the root. What is in which sequence follows from the requests and the lengths alone, never from timing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goldless.arrays import IntArray
from goldless.models.local_engine import Pair
from goldless.models.prefix_tree import Node, build_tree

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
        """The length of the next sequence, with this many tokens left and ``least`` in the next branch alone."""
        if tokens >= self.longest:
            return max(self.longest, self.holding(least))
        length = self.holding(tokens)
        if self.shortest is not None and length > self.shortest and tokens < WORTH_FILLING * length:
            length //= 2
        return max(length, self.holding(least))


@dataclass(frozen=True, slots=True)
class Pack:
    """One sequence of packed branches, padded to its length."""

    length: int
    tokens: IntArray
    """Token ids, without the padding."""
    positions: IntArray
    """Position of each token in its own request."""
    ends: IntArray
    """For each token, the index after its node's subtree: later tokens before it are its descendants."""
    requests: tuple[int, ...]
    """The requests that are scored here."""
    rows: IntArray
    """Indices of the tokens whose next token is scored, request by request in the target's order."""
    chosen: IntArray
    """The scored tokens, in the same order."""


class _Branch(NamedTuple):
    """A path from the root to a node at which requests end."""

    path: tuple[Node, ...]
    requests: list[int]
    """Requests that end at its last node."""
    tokens: int
    """Tokens of the whole path."""
    new: int
    """Those that the branch before it does not have."""


def plan_packs(requests: Sequence[Pair], lengths: Lengths) -> Iterator[Pack]:
    """Sequences with every request's tokens once or, below a cut, twice; the last target token is not read."""
    sequences = [context + target[:-1] for context, target in requests]
    branches = list(_branches(build_tree(sequences, shortest_shared=1, longest_node=sys.maxsize)))
    rest, first = sum(branch.new for branch in branches), 0
    while first < len(branches):
        tokens = branches[first].tokens
        length = lengths.for_rest(rest + tokens - branches[first].new, tokens)
        end = _cut(branches, first, length)
        yield _pack(branches[first:end], requests, lengths, length)
        rest -= sum(branch.new for branch in branches[first:end])
        first = end


def longest_branch(requests: Sequence[Pair]) -> int:
    """Tokens of the longest path: no packed sequence can be shorter."""
    return max((len(context) + len(target) - 1 for context, target in requests), default=0)


def _branches(root: Node) -> Iterator[_Branch]:
    """Every path at whose end a request ends, depth first."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(child, ()) for child in reversed(root.children)]
    before: tuple[Node, ...] = ()
    while stack:
        node, above = stack.pop()
        path = (*above, node)
        through = {request for child in node.children for request in child.requests}
        ending = [request for request in node.requests if request not in through]
        if ending:
            shared = _common(path, before)
            yield _Branch(path, ending, node.end, node.end - (path[shared - 1].end if shared else 0))
            before = path
        stack.extend((child, path) for child in reversed(node.children))


def _common(path: Sequence[Node], other: Sequence[Node]) -> int:
    """How many nodes two paths share; below the first that differs they share none."""
    return sum(mine is theirs for mine, theirs in zip(path, other, strict=False))


def _cut(branches: Sequence[_Branch], first: int, length: int) -> int:
    """The branch before which the sequence that begins with ``first`` ends.

    Of all positions this one wastes least: empty space, and path that the next sequence must repeat.
    """
    used = branches[first].tokens
    best, least = first + 1, sys.maxsize
    for i in range(first + 1, len(branches)):
        wasted = length - used + branches[i].tokens - branches[i].new
        if wasted <= least:
            best, least = i, wasted
        used += branches[i].new
        if used > length:
            return best
    return len(branches)


def _pack(branches: Sequence[_Branch], requests: Sequence[Pair], lengths: Lengths, length: int) -> Pack:
    tokens: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    rows: list[IntArray] = []
    chosen: list[int] = []
    open_nodes: list[Node] = []
    starts: list[int] = []
    """Where the open nodes begin."""

    def close(down_to: int) -> None:
        for node, start in zip(open_nodes[down_to:], starts[down_to:], strict=True):
            ends[start : start + len(node.tokens)] = [len(tokens)] * len(node.tokens)
        del open_nodes[down_to:], starts[down_to:]

    for branch in branches:
        kept = _common(branch.path, open_nodes)
        close(kept)
        for node in branch.path[kept:]:
            open_nodes.append(node)
            starts.append(len(tokens))
            tokens += node.tokens
            positions += range(node.start, node.end)
            ends += [0] * len(node.tokens)
        pieces = zip(open_nodes, starts, strict=True)
        places = np.concatenate([np.arange(start, start + len(node.tokens)) for node, start in pieces])
        for request in branch.requests:
            context, target = requests[request]
            rows.append(places[len(context) - 1 : len(context) + len(target) - 1])
            chosen += target
    close(0)
    return Pack(
        # the plan may have left room: a shorter sequence is taken where one holds the same
        length=min(length, lengths.holding(len(tokens))),
        tokens=np.array(tokens, np.int64),
        positions=np.array(positions, np.int64),
        ends=np.array(ends, np.int64),
        requests=tuple(request for branch in branches for request in branch.requests),
        rows=np.concatenate(rows),
        chosen=np.array(chosen, np.int64),
    )
