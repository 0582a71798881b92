"""The engine: the walk over the prefix tree, and generation, on a torch network.

One call computes several nodes of the tree, each under the keys and values of its own path. So a shared part is
computed once, calls are well filled, and no position attends to a token that is not its own past.
"""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch

from goldless.models.local_engine import Cancelled, FloatArray, LocalEngine, Pair, wanted_positions
from goldless.models.local_weights.network import Network, Past, explained_memory
from goldless.models.local_weights.specification import Sharing
from goldless.models.prefix_tree import Node, build_tree

if TYPE_CHECKING:
    from goldless.models.local_weights.packed_scoring import PackedScorer


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is computed at once."""

    node: int
    """Longest stretch of one sequence, in tokens."""
    call: int
    """Most new tokens, padding included."""
    cache: int
    """Most positions of keys and values, past and padding included."""


PROCESSOR = Limits(node=512, call=512, cache=8192)
GRAPHICS_CARD = Limits(node=2048, call=4096, cache=65_536)
CACHE_SHARE = 0.04
"""Share of a graphics card's memory for the keys and values of one call. A few times as much is held while branches
wait for their turn."""


def limits_of(network: Network) -> Limits:
    """What fits the network's device; depends on the card, not on what else it does, so that numbers repeat."""
    limits = PROCESSOR
    if network.device.type == "cuda":
        room = int(CACHE_SHARE * torch.cuda.get_device_properties(network.device).total_memory)
        cache = min(GRAPHICS_CARD.cache, room // max(1, network.position_bytes))
        limits = replace(GRAPHICS_CARD, cache=cache)
    most = network.longest_call
    return limits if most is None else replace(limits, node=min(limits.node, most), call=min(limits.call, most))


class Ready:
    """Nodes of one depth of the tree that can be computed now, each with the past it stands under."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items: list[tuple[Node, Past]] = []
        self._tokens = self._positions = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._items)

    @property
    def fills_a_call(self) -> bool:
        """Whether there is enough for one call."""
        return self._tokens >= self._limits.call or self._positions >= self._limits.cache

    def add(self, node: Node, past: Past) -> None:
        """Put one in its place by length."""
        bisect.insort(self._items, (node, past), key=_length)
        self._tokens += len(node.tokens)
        self._positions += node.end

    def take(self) -> list[tuple[Node, Past]]:
        """As many of like length, the longest first, as one call holds; at least one."""
        pack: list[tuple[Node, Past]] = []
        longest, before = _length(self._items[-1]), 0
        while self._items:
            rows, before = len(pack) + 1, max(before, self._items[-1][0].start)
            if pack and (rows * longest > self._limits.call or rows * (before + longest) > self._limits.cache):
                break
            node, past = self._items.pop()
            pack.append((node, past))
            self._tokens -= len(node.tokens)
            self._positions -= node.end
        return pack


def _length(item: tuple[Node, Past]) -> int:
    return len(item[0].tokens)


def open_engine(network: Network, sharing: Sharing = "auto") -> tuple[TorchEngine, dict[str, str]]:
    """The engine that shares in the wanted way where the model can do it, and how it computes, for the identity.

    ``auto`` packs on a graphics card. A dense mask is computed whole, so elsewhere the walk from node to node is
    the faster way.
    """
    if sharing == "cached" or (sharing == "auto" and network.device.type != "cuda"):
        return TorchEngine(network), network.settings
    settings = network.settings
    try:
        # FlexAttention is not in every release of torch that computes all the rest
        from goldless.models.local_weights.packed_network import PackedNetwork, open_packed  # noqa: PLC0415
        from goldless.models.local_weights.packed_scoring import PackedScorer  # noqa: PLC0415
    except ImportError as error:
        reason, shown = "this torch has no block-sparse attention", f"torch {torch.__version__}: {error}"
    else:
        packed = open_packed(network)
        if isinstance(packed, PackedNetwork):
            return TorchEngine(network, packed=PackedScorer(packed)), {**settings, **packed.settings}
        reason, shown = packed.reason, str(packed)
    warnings.warn(
        f"the model is not packed, so it is computed the slower way ({settings['sharing']}): {shown}", stacklevel=2
    )
    return TorchEngine(network), {**settings, "sharing": f"{settings['sharing']}; not packed: {reason}"}


class TorchEngine(LocalEngine):
    """Computes log-probabilities and continuations of token ids."""

    def __init__(self, network: Network, limits: Limits | None = None, *, packed: PackedScorer | None = None) -> None:
        """``packed`` computes shared trees in packed sequences; without it, they are walked node by node."""
        super().__init__()
        self._network = network
        self._limits = limits or limits_of(network)
        self.packed = packed
        self._weight_bytes = network.weight_bytes

    def _score(
        self, requests: Sequence[Pair], results: list[FloatArray], cancelled: Callable[[], bool], *, share: bool
    ) -> None:
        if share and self.packed is not None:
            self.packed.score(requests, results, cancelled)
            return
        # the last token of a target is predicted, never read: it is computed only where the length of a text matters
        end = None if self._network.rotates_by_length else -1
        sequences = [context + target[:end] for context, target in requests]
        if share and self._network.shares:
            self._score_tree(build_tree(sequences, longest_node=self._limits.node), requests, results, cancelled)
            return
        for i, sequence in enumerate(sequences):
            if cancelled():
                raise Cancelled
            self._read([Node(0, sequence, [i])], self._network.run_alone(sequence), requests, results)

    def _score_tree(
        self, root: Node, requests: Sequence[Pair], results: list[FloatArray], cancelled: Callable[[], bool]
    ) -> None:
        depths = [Ready(self._limits)]
        for node in root.children:
            depths[0].add(node, [])
        while any(depths):
            if cancelled():
                raise Cancelled
            # the deepest that fill a call, so that little is held; where none does, the shallowest, to get more
            full = [depth for depth, ready in enumerate(depths) if ready.fills_a_call]
            depth = full[-1] if full else next(depth for depth, ready in enumerate(depths) if ready)
            if depth + 1 == len(depths):
                depths.append(Ready(self._limits))
            for node, past in self._run(depths[depth].take(), requests, results):
                depths[depth + 1].add(node, past)

    def _run(
        self, pack: Sequence[tuple[Node, Past]], requests: Sequence[Pair], results: list[FloatArray]
    ) -> Iterator[tuple[Node, Past]]:
        """Compute nodes together and read what is scored in them; gives their children, each with its past."""
        nodes = [node for node, _ in pack]
        cache = self._network.cache([past for _, past in pack])
        starts = [node.start for node in nodes]
        states = self._network.run([node.tokens for node in nodes], starts, cache)
        self._read(nodes, states, requests, results)
        for row, node in enumerate(nodes):
            if node.children:
                before = max(starts)
                path = self._network.path(cache, row, before - node.start, before + len(node.tokens))
                yield from ((child, path) for child in node.children)

    def _read(self, nodes: Sequence[Node], states: Any, requests: Sequence[Pair], results: list[FloatArray]) -> None:
        """Run the head on the positions whose next token is scored, and put the results where they belong."""
        wanted = list(wanted_positions(nodes, requests))
        if not wanted:
            return
        rows, columns = torch.tensor([(w.sibling, w.place) for w in wanted], device=states.device).T
        read = states[rows, columns]
        values = self._network.chosen_logprobs(read, [w.token for w in wanted])
        for w, value in zip(wanted, values, strict=True):
            results[w.request][w.offset] = value

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with self._lock, explained_memory(self._weight_bytes):
            yield

    def _follower(self, cancelled: Callable[[], bool]) -> Callable[[tuple[int, ...]], npt.NDArray[Any]]:
        last = self._last_state_alone(cancelled) if not self._network.shares else self._last_state(cancelled)
        return lambda tokens: self._network.logprobs(last(tokens))[0].cpu().numpy()

    def _last_state_alone(self, cancelled: Callable[[], bool]) -> Callable[[tuple[int, ...]], Any]:
        whole: list[int] = []

        def from_scratch(tokens: tuple[int, ...]) -> Any:
            if cancelled():
                raise Cancelled
            whole.extend(tokens)
            return self._network.run_alone(tuple(whole))[0, -1:]

        return from_scratch

    def _last_state(self, cancelled: Callable[[], bool]) -> Callable[[tuple[int, ...]], Any]:
        cache, position = self._network.cache([[]]), 0

        def behind(tokens: tuple[int, ...]) -> Any:
            nonlocal position
            states = None
            for begin in range(0, len(tokens), self._limits.node):
                if cancelled():
                    raise Cancelled
                piece = tokens[begin : begin + self._limits.node]
                states = self._network.run([piece], [position], cache)[0, -1:]
                position += len(piece)
            return states

        return behind
