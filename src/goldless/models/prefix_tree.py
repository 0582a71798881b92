"""Requests as a prefix tree: those that begin alike share their beginning.

The tree is built from the token ids, so a shared part is computed once, whatever it is (instructions,
synopsis, candidate), and every position sees exactly the tokens it would see if its request were scored alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

SHORTEST_SHARED = 32
"""A shared segment is repeated in its branches if that adds fewer tokens than this: an extra step costs as much."""
LONGEST_NODE = 384
"""A longer segment is cut into a chain, to limit the memory of attention."""

Tokens = tuple[int, ...]


@dataclass(slots=True)
class Node:
    """A segment of tokens on a path from the root."""

    start: int
    """Position of its first token."""
    tokens: Tokens
    requests: list[int]
    """Indices of the sequences that pass through it."""
    children: list[Node] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


def build_tree(
    sequences: Sequence[Tokens], *, shortest_shared: int = SHORTEST_SHARED, longest_node: int = LONGEST_NODE
) -> Node:
    """The prefix tree of token sequences, under a root that has no tokens."""

    def branches(requests: list[int], position: int) -> list[list[int]]:
        """Requests by the token they have at a position; first those that end there."""
        return [
            list(group) for _, group in itertools.groupby(requests, lambda i: sequences[i][position : position + 1])
        ]

    root = Node(0, (), sorted((i for i, tokens in enumerate(sequences) if tokens), key=sequences.__getitem__))
    # parent, requests of a branch, where its segment starts, and up to where its requests are known to be equal
    waiting = [(root, group, 0, 0) for group in reversed(branches(root.requests, 0))]
    while waiting:
        parent, requests, start, equal = waiting.pop()
        first, last = sequences[requests[0]], sequences[requests[-1]]
        end = common_length(first, last, equal)
        groups = branches(requests, end)
        ending = [groups.pop(0)] if len(first) == end else []
        repeated = (end - start) * (len(groups) + len(ending) - 1)
        if groups and repeated < shortest_shared:
            waiting += [(parent, group, start, end) for group in reversed(groups + ending)]
            continue
        for begin in range(start, end, longest_node):
            node = Node(begin, first[begin : min(end, begin + longest_node)], requests)
            parent.children.append(node)
            parent = node
        waiting += [(parent, group, end, end) for group in reversed(groups)]
    return root


def common_length(a: Tokens, b: Tokens, start: int = 0) -> int:
    """How many tokens two sequences share at their beginning, of which ``start`` are known to be equal."""
    limit = min(len(a), len(b))
    while start < limit and a[start] == b[start]:
        start += 1
    return start


def computed_tokens(root: Node) -> int:
    """Tokens that go through the model."""
    nodes = [root]
    for node in nodes:
        nodes.extend(node.children)
    return sum(len(node.tokens) for node in nodes)
