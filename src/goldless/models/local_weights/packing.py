"""Packing: which tokens of which prefix trees are computed together, and where the scored positions are in them.

Requests of many tasks become one prefix tree. Its branches are laid out in sequences of limited length, depth first, so
that a node's whole subtree directly follows it: a position may then attend to an earlier one exactly if it is
inside that one's subtree. A tree that is larger than a sequence continues in the next one under a copy of the path from
the root. What is in which sequence follows from the requests and the lengths alone, never from timing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Branch:
    """A path from the root to a node at which requests end."""

    path: tuple[Node, ...]
    requests: tuple[int, ...]
    """Requests that end at its last node."""

    @property
    def tokens(self) -> int:
        """Tokens of the whole path."""
        return self.path[-1].end

    def shared(self, other: Branch) -> int:
        """Tokens of the path shared with another branch."""
        common = 0
        for mine, theirs in zip(self.path, other.path, strict=False):
            if mine is not theirs:
                break
            common = mine.end
        return common


def plan_packs(requests: Sequence[Pair], lengths: Lengths) -> Iterator[Pack]:
    """Sequences with every request's tokens once or, below a cut, twice; the last target token is not read."""
    sequences = [context + target[:-1] for context, target in requests]
    branches = list(_branches(build_tree(sequences, shortest_shared=1, longest_node=sys.maxsize)))
    new = [branch.tokens - (branch.shared(branches[i - 1]) if i else 0) for i, branch in enumerate(branches)]
    rest, first = sum(new), 0
    while first < len(branches):
        under_copy = rest + branches[first].tokens - new[first]
        length = lengths.for_rest(under_copy, branches[first].tokens)
        end = _cut(branches, new, first, length)
        yield _pack(branches[first:end], requests, lengths.holding, length)
        rest -= sum(new[first:end])
        first = end


def longest_branch(requests: Sequence[Pair]) -> int:
    """Tokens of the longest path: no packed sequence can be shorter."""
    return max((len(context) + len(target) - 1 for context, target in requests), default=0)


def _branches(root: Node) -> Iterator[Branch]:
    """Every path at whose end a request ends, depth first."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(child, ()) for child in reversed(root.children)]
    while stack:
        node, above = stack.pop()
        path = (*above, node)
        through = {request for child in node.children for request in child.requests}
        ending = tuple(request for request in node.requests if request not in through)
        if ending:
            yield Branch(path, ending)
        stack.extend((child, path) for child in reversed(node.children))


def _cut(branches: Sequence[Branch], new: Sequence[int], first: int, length: int) -> int:
    """The branch before which the sequence that begins with ``first`` ends.

    Of all positions this one wastes least: empty space, and path that the next sequence must repeat.
    """
    used = branches[first].tokens
    best, least = first + 1, sys.maxsize
    for i in range(first + 1, len(branches)):
        wasted = length - used + branches[i].tokens - new[i]
        if wasted <= least:
            best, least = i, wasted
        used += new[i]
        if used > length:
            return best
    return len(branches)


def _pack(branches: Sequence[Branch], requests: Sequence[Pair], holding: Callable[[int], int], length: int) -> Pack:
    """The branches as one sequence."""
    tokens: list[int] = []
    starts: dict[int, int] = {}
    positions: list[IntArray] = []
    ends: list[int] = []
    rows: list[IntArray] = []
    chosen: list[tuple[int, ...]] = []
    open_nodes: list[Node] = []

    def close(down_to: int) -> None:
        for node in reversed(open_nodes[down_to:]):
            ends[starts[id(node)] : starts[id(node)] + len(node.tokens)] = [len(tokens)] * len(node.tokens)
        del open_nodes[down_to:]

    for branch in branches:
        kept = sum(mine is theirs for mine, theirs in zip(branch.path, open_nodes, strict=False))
        close(kept)
        for node in branch.path[kept:]:
            starts[id(node)] = len(tokens)
            positions.append(np.arange(node.start, node.end, dtype=np.int64))
            tokens.extend(node.tokens)
            ends.extend([0] * len(node.tokens))
            open_nodes.append(node)
        for request in branch.requests:
            context, target = requests[request]
            rows.append(_rows(branch.path, starts, len(context) - 1, len(context) + len(target) - 1))
            chosen.append(target)
    close(0)
    # the plan may have left room: a shorter sequence is taken where one holds the same
    return Pack(
        length=min(length, holding(len(tokens))),
        tokens=np.array(tokens, np.int64),
        positions=np.concatenate(positions),
        ends=np.array(ends, np.int64),
        requests=tuple(request for branch in branches for request in branch.requests),
        rows=np.concatenate(rows),
        chosen=np.concatenate([np.array(target, np.int64) for target in chosen]),
    )


def _rows(path: Sequence[Node], starts: dict[int, int], first: int, last: int) -> IntArray:
    """Where the positions from ``first`` to before ``last`` of a path are in the sequence."""
    parts = [
        np.arange(max(first, node.start), min(last, node.end), dtype=np.int64) - node.start + starts[id(node)]
        for node in path
        if node.end > first and node.start < last
    ]
    return np.concatenate(parts)
