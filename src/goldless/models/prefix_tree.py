"""Requests as a prefix tree: those that begin alike share their beginning.

The tree is built from the token ids, so a shared part is computed once, whatever it is (instructions,
synopsis, candidate), and every position sees exactly the tokens it would see if its request were scored alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SHORTEST_SHARED = 32
"""A shared segment is repeated in its branches if that adds fewer tokens than this: an extra step costs as much."""
LONGEST_NODE = 384
"""A longer segment is cut into a chain, to limit the memory of attention."""


@dataclass(slots=True)
class Node:
    """A segment of tokens on a path from the root."""

    start: int
    """Position of its first token."""
    tokens: tuple[int, ...]
    requests: list[int]
    """Indices of the sequences that pass through it."""
    children: list[Node] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


def build_tree(
    sequences: Sequence[tuple[int, ...]], *, shortest_shared: int = SHORTEST_SHARED, longest_node: int = LONGEST_NODE
) -> Node:
    """The prefix tree of token sequences, under a root that has no tokens."""
    order = sorted((i for i, sequence in enumerate(sequences) if sequence), key=sequences.__getitem__)
    root = Node(0, (), order, [Node(0, (), group) for group in _by_next_token(sequences, order, 0)])
    open_nodes = list(root.children)
    while open_nodes:
        node = open_nodes.pop()
        first, last = sequences[node.requests[0]], sequences[node.requests[-1]]
        node.tokens = first[node.start : _common_length(first, last, node.start)]
        rest = [i for i in node.requests if len(sequences[i]) > node.end]
        node.children = [Node(node.end, (), group) for group in _by_next_token(sequences, rest, node.end)]
        open_nodes.extend(node.children)
    stack = [root]
    while stack:
        node = stack.pop()
        node.children = [kept for child in node.children for kept in _dissolved(child, shortest_shared)]
        stack.extend(node.children)
    for node in walk(root):
        if len(node.tokens) > longest_node:
            below = Node(node.start + longest_node, node.tokens[longest_node:], list(node.requests), node.children)
            node.tokens, node.children = node.tokens[:longest_node], [below]
    return root


def walk(root: Node) -> Iterator[Node]:
    """Every node with tokens, parents first; children added during the walk are visited too."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.tokens:
            yield node
        stack.extend(reversed(node.children))


def computed_tokens(root: Node) -> int:
    """Tokens that go through the model."""
    return sum(len(node.tokens) for node in walk(root))


def _common_length(a: tuple[int, ...], b: tuple[int, ...], start: int) -> int:
    limit = min(len(a), len(b))
    while start < limit and a[start] == b[start]:
        start += 1
    return start


def _by_next_token(sequences: Sequence[tuple[int, ...]], requests: list[int], position: int) -> Iterator[list[int]]:
    """Requests in order, grouped by the token they have at a position."""
    group: list[int] = []
    for request in requests:
        if group and sequences[group[0]][position] != sequences[request][position]:
            yield group
            group = []
        group.append(request)
    if group:
        yield group


def _dissolved(node: Node, shortest: int) -> list[Node]:
    """The node or, where repeating its tokens in its branches adds fewer than an extra step costs, these branches."""
    through = {i for child in node.children for i in child.requests}
    ending = [i for i in node.requests if i not in through]
    branches = len(node.children) + bool(ending)
    if not node.children or len(node.tokens) * (branches - 1) >= shortest:
        return [node]
    parts = [
        part
        for child in node.children
        for part in _dissolved(Node(node.start, node.tokens + child.tokens, child.requests, child.children), shortest)
    ]
    return parts + ([Node(node.start, node.tokens, ending)] if ending else [])
