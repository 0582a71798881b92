"""Engines: log-probabilities and continuations of token ids, computed over the prefix tree of all requests.

The tree is built from the token ids, so a shared part is computed once, whatever it is (instructions, synopsis,
candidate): one call computes several siblings under the keys and values of their common path. Every position sees
exactly the tokens it would see if its request were scored alone.
"""

from __future__ import annotations

import itertools
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

HEAD_ELEMENTS = 1 << 22
"""Maximum logits at once: 16 MiB in float32."""
SHORTEST_SHARED = 32
"""A shared segment is repeated in its branches if that adds fewer tokens than this: an extra step costs as much."""
LONGEST_NODE = 384
"""A longer segment is cut into a chain, to limit the memory of attention."""

FloatArray = npt.NDArray[np.float32]
Tokens = tuple[int, ...]
Pair = tuple[Tokens, Tokens]
"""Token ids of a context and of the target that follows it."""
Stop = Callable[[], bool]
"""True if the caller wants to stop; asked between steps."""


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
    """Number of tokens two sequences share at their beginning, of which ``start`` are known to be equal."""
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


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked to stop
    """The caller wants to stop."""


class LocalEngine(ABC):
    """Computes one call at a time; what it needs of a network is ``_run``, ``_chosen`` and ``_logprobs``."""

    def __init__(self, *, call_tokens: int, call_positions: int = sys.maxsize, shares: bool = True) -> None:
        """``call_tokens``: new tokens of a call. ``call_positions``: these with their past, in all rows.

        ``shares``: False computes every sequence from its beginning, alone.
        """
        self.shares = shares
        self.reads_last = False
        """True if the last token of a target is computed, too: it is predicted and never read."""
        self._call_tokens = call_tokens
        self._call_positions = call_positions
        self._lock = threading.Lock()

    def score(self, requests: Sequence[Pair], *, cancelled: Stop = lambda: False) -> list[FloatArray]:
        """Log p of each target token given context and earlier target tokens, for every (context, target)."""
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        end = None if self.reads_last else -1
        root = build_tree(
            [context + target[:end] for context, target in requests],
            shortest_shared=SHORTEST_SHARED if self.shares else sys.maxsize,
            longest_node=self._call_tokens if self.shares else sys.maxsize,
        )
        stack: list[tuple[list[Node], Any]] = [(siblings, None) for siblings in self._calls(root)]
        with self._computing():
            while stack:
                if cancelled():
                    raise Cancelled
                nodes, past = stack.pop()
                states, extended = self._run([node.tokens for node in nodes], past)
                self._read(nodes, states, requests, results)
                for row, node in enumerate(nodes):
                    if node.children:
                        path = extended(row)
                        stack.extend((siblings, path) for siblings in self._calls(node))
        return results

    def generate(
        self,
        context: tuple[int, ...],
        *,
        most: int,
        stop: frozenset[int],
        temperature: float = 0.0,
        seed: int | None = None,
        cancelled: Stop = lambda: False,
    ) -> Iterator[tuple[int, float]]:
        """Tokens that continue the context, each with its log p, up to ``most`` or before a stop token."""
        random = np.random.default_rng(seed)
        size = self._call_tokens if self.shares else sys.maxsize
        past: Any = None
        new = context
        with self._computing():
            for _ in range(most):
                for begin in range(0, len(new), size):
                    if cancelled():
                        raise Cancelled
                    states, extended = self._run([new[begin : begin + size]], past)
                    past = extended(0)
                logprobs = self._logprobs(states[-1:]).astype(np.float64)
                # the largest of (log p / temperature + Gumbel noise) is a draw from the tempered distribution
                noise = random.gumbel(size=logprobs.shape) if temperature > 0 else 0
                token = int(np.argmax(logprobs / (temperature or 1) + noise))
                if token in stop:
                    return
                yield token, float(logprobs[token])
                new = (token,)

    @abstractmethod
    def _run(self, rows: Sequence[tuple[int, ...]], past: Any) -> tuple[Any, Callable[[int], Any]]:
        """States of new tokens, row after row without padding, and a function of a row: the past with its tokens."""

    @abstractmethod
    def _chosen(self, states: Any, tokens: Sequence[int]) -> Iterable[float]:
        """Log p of one token after each state."""

    @abstractmethod
    def _logprobs(self, state: Any) -> npt.NDArray[np.floating[Any]]:
        """Log p of every token after one state."""

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with self._lock:
            yield

    def _calls(self, parent: Node) -> Iterator[list[Node]]:
        """The node's children in groups of similar length that fill a call."""
        siblings: list[Node] = []
        tokens = 0
        for node in sorted(parent.children, key=lambda child: len(child.tokens)):
            tokens += len(node.tokens)
            positions = (len(siblings) + 1) * node.end
            if siblings and (not self.shares or tokens > self._call_tokens or positions > self._call_positions):
                yield siblings
                siblings, tokens = [], len(node.tokens)
            siblings.append(node)
        if siblings:
            yield siblings

    def _read(
        self, nodes: Sequence[Node], states: Any, requests: Sequence[Pair], results: Sequence[FloatArray]
    ) -> None:
        """Store log p of every token that is scored after a position of these nodes."""
        rows: list[int] = []
        tokens: list[int] = []
        places: list[FloatArray] = []
        first = 0  # the row of the node's first token
        for node in nodes:
            for request in node.requests:
                context, target = requests[request]
                begin, end = max(node.start, len(context) - 1), min(node.end, len(context) + len(target) - 1)
                scored = slice(begin - len(context) + 1, max(begin, end) - len(context) + 1)
                rows += range(first + begin - node.start, first + end - node.start)
                tokens += target[scored]
                places.append(results[request][scored])
            first += len(node.tokens)
        if tokens:
            values = iter(self._chosen(states[rows], tokens))
            for place in places:
                place[:] = list(itertools.islice(values, len(place)))
