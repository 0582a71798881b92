"""The engine: the walk over the prefix tree, and generation, on a torch network.

One call computes several siblings of the tree under the keys and values of their common path. So a shared part is
computed once, and no position attends to a token that is not its own past.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from goldless.models.local_engine import Cancelled, Pair, draw, wanted_positions
from goldless.models.local_weights.network import Network, Past, explained_memory
from goldless.models.prefix_tree import Node, build_tree

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is computed at once."""

    node: int
    """Longest stretch of one sequence, in tokens."""
    call: int
    """Most new tokens, padding included."""
    cache: int
    """Most positions of keys and values, past and padding included."""


PROCESSOR = Limits(node=512, call=512, cache=16_384)
GRAPHICS_CARD = Limits(node=2048, call=8192, cache=32_768)
"""An 8-billion-parameter model keeps 128 KiB a position in half precision: 4 GiB a call."""


class TorchEngine:
    """Computes log-probabilities and continuations of token ids."""

    def __init__(self, network: Network, limits: Limits | None = None) -> None:
        self._network = network
        self._limits = limits or (PROCESSOR if network.device.type == "cpu" else GRAPHICS_CARD)
        if network.longest_call is not None:
            most = network.longest_call
            self._limits = Limits(min(self._limits.node, most), min(self._limits.call, most), self._limits.cache)
        self._lock = threading.Lock()

    def score(
        self,
        requests: Sequence[Pair],
        *,
        cancelled: Callable[[], bool] = lambda: False,
        share: bool = True,
    ) -> list[FloatArray]:
        """The log p of each target token given context and earlier target tokens, for every (context, target).

        ``share=False`` computes every request from scratch: the reference that benchmarks and canaries compare with.
        """
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        # the last token of a target is predicted, never read: it need not be computed
        sequences = [context + target[:-1] for context, target in requests]
        with self._lock, explained_memory():
            if share and self._network.shares:
                self._score_tree(build_tree(sequences, longest_node=self._limits.node), requests, results, cancelled)
            else:
                for i, sequence in enumerate(sequences):
                    if cancelled():
                        raise Cancelled
                    node = Node(0, sequence, [i])
                    self._read([node], self._network.run_alone(sequence), requests, results)
        return results

    def _score_tree(
        self, root: Node, requests: Sequence[Pair], results: list[FloatArray], cancelled: Callable[[], bool]
    ) -> None:
        stack: list[tuple[list[Node], Past]] = [(pack, []) for pack in self._packs(root.children)]
        while stack:
            if cancelled():
                raise Cancelled
            nodes, past = stack.pop()
            cache = self._network.cache(past, len(nodes))
            self._read(nodes, self._network.run([node.tokens for node in nodes], cache), requests, results)
            for row, node in enumerate(nodes):
                if node.children:
                    path = self._network.path(cache, row, node.end)
                    stack.extend((pack, path) for pack in self._packs(node.children))

    def _packs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        """Siblings in groups of like length that fill a call."""
        pack: list[Node] = []
        for node in sorted(nodes, key=lambda n: len(n.tokens)):
            rows = len(pack) + 1
            if pack and (rows * len(node.tokens) > self._limits.call or rows * node.end > self._limits.cache):
                yield pack
                pack = []
            pack.append(node)
        if pack:
            yield pack

    def _read(self, nodes: Sequence[Node], states: Any, requests: Sequence[Pair], results: list[FloatArray]) -> None:
        """Run the head on the positions whose next token is scored, and put the results where they belong."""
        wanted = list(wanted_positions(nodes, requests))
        if not wanted:
            return
        read = states[[w.sibling for w in wanted], [w.place for w in wanted]]
        values = self._network.chosen_logprobs(read, [w.token for w in wanted])
        for w, value in zip(wanted, values, strict=True):
            results[w.request][w.offset] = value

    def generate(
        self,
        context: tuple[int, ...],
        *,
        most: int,
        stop: frozenset[int],
        temperature: float = 0.0,
        seed: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, float]]:
        """Tokens that continue the context, each with its log p, up to ``most`` or until a stop token (not given)."""
        random = np.random.default_rng(seed)
        with self._lock, explained_memory():
            follow = self._follower(cancelled)
            new = context
            for _ in range(most):
                state = follow(new)
                token, logprob = draw(self._network.logprobs(state)[0].cpu().numpy(), temperature, random)
                if token in stop:
                    return
                yield token, logprob
                new = (token,)

    def _follower(self, cancelled: Callable[[], bool]) -> Callable[[tuple[int, ...]], Any]:
        """A function that takes the tokens of one sequence piece by piece and gives the last state of each piece."""
        if not self._network.shares:
            whole: list[int] = []

            def from_scratch(tokens: tuple[int, ...]) -> Any:
                if cancelled():
                    raise Cancelled
                whole.extend(tokens)
                return self._network.run_alone(tuple(whole))[0, -1:]

            return from_scratch

        cache = self._network.cache([], 1)

        def behind(tokens: tuple[int, ...]) -> Any:
            states = None
            for begin in range(0, len(tokens), self._limits.node):
                if cancelled():
                    raise Cancelled
                states = self._network.run([tokens[begin : begin + self._limits.node]], cache)[0, -1:]
            return states

        return behind
