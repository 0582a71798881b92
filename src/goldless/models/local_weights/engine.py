"""The engine: the walk over the prefix tree, packed sequences of it, and generation, on a torch network.

One call computes several nodes of the tree, each under the keys and values of its own path. So a shared part is
computed once, calls are well filled, and no position attends to a token outside its own past.
"""

from __future__ import annotations

import bisect
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import Check, FloatArray, LocalEngine, Pair, raising, read_scored
from goldless.models.local_weights.network import Network, Past, explained_memory, free_memory, total_memory
from goldless.models.local_weights.packing import Lengths, Pack, longest_branch, plan_packs
from goldless.models.local_weights.specification import Sharing
from goldless.models.prefix_tree import Node, build_tree

if TYPE_CHECKING:
    from goldless.models.local_weights.packed_network import PackedNetwork


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one call."""

    node: int
    """Maximum tokens of one sequence segment."""
    call: int
    """Maximum new tokens, including padding."""
    cache: int
    """Maximum positions of keys and values, including past and padding."""


PROCESSOR = Limits(node=512, call=512, cache=8192)
GRAPHICS_CARD = Limits(node=2048, call=4096, cache=65_536)
CACHE_SHARE = 0.04
"""Share of the GPU's memory for the keys and values of one call. Several times as much is used while branches wait."""


def limits_of(network: Network) -> Limits:
    """Limits for the network's device; they depend on the GPU, not on its load, so that numbers are reproducible."""
    limits = PROCESSOR
    if network.device.type == "cuda":
        room = int(CACHE_SHARE * total_memory(network.device))
        cache = min(GRAPHICS_CARD.cache, room // max(1, network.position_bytes))
        limits = replace(GRAPHICS_CARD, cache=cache)
    most = network.longest_call
    return limits if most is None else replace(limits, node=min(limits.node, most), call=min(limits.call, most))


class Ready:
    """Nodes of one tree depth that can be computed now, each with its past."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items: list[tuple[Node, Past]] = []
        self._tokens = self._positions = 0

    def __len__(self) -> int:
        """Number of waiting nodes."""
        return len(self._items)

    @property
    def fills_a_call(self) -> bool:
        """Whether there is enough for one call."""
        return self._tokens >= self._limits.call or self._positions >= self._limits.cache

    def add(self, node: Node, past: Past) -> None:
        """Add one, ordered by length."""
        bisect.insort(self._items, (node, past), key=_length)
        self._tokens += len(node.tokens)
        self._positions += node.end

    def take(self) -> list[tuple[Node, Past]]:
        """As many nodes of similar length, longest first, as one call fits; at least one."""
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
    """The engine with the requested sharing if the model supports it, and how it computes, for the identity.

    ``auto`` packs on a GPU. A dense mask is computed in full, so elsewhere the walk from node to node is faster.
    """
    if sharing == "cached" or (sharing == "auto" and network.device.type != "cuda"):
        return TorchEngine(network), network.settings
    settings = network.settings
    try:
        # FlexAttention is not in every release of torch that computes all the rest
        from goldless.models.local_weights.packed_network import open_packed  # noqa: PLC0415
        from goldless.models.local_weights.tree_attention import UnsupportedAttention  # noqa: PLC0415
    except ImportError as error:
        reason, shown = "this torch has no block-sparse attention", f"torch {torch.__version__}: {error}"
    else:
        try:
            packed = open_packed(network)
            return TorchEngine(network, packed=PackedScorer(packed)), {**settings, **packed.settings}
        except UnsupportedAttention as error:
            reason, shown = error.reason, str(error)
    warnings.warn(
        f"the model cannot be packed, so it is computed with the slower method ({settings['sharing']}): {shown}",
        stacklevel=2,
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

    def score(self, requests: Sequence[Pair], *, cancelled: Callable[[], bool] = lambda: False) -> list[FloatArray]:
        """Log p of each target token; a packed call makes itself ready while the device computes an earlier one."""
        if self.packed is None:
            return super().score(requests, cancelled=cancelled)
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        with explained_memory(self._weight_bytes):
            self.packed.score(requests, results, raising(cancelled), self._lock)
        return results

    def _score(self, requests: Sequence[Pair], results: list[FloatArray], check: Check) -> None:
        # the last token of a target is predicted, never read: it is computed only where the length of a text matters
        end = None if self._network.rotates_by_length else -1
        sequences = [context + target[:end] for context, target in requests]
        if self._network.shares:
            self._score_tree(build_tree(sequences, longest_node=self._limits.node), requests, results, check)
            return
        for i, sequence in enumerate(sequences):
            check()
            self._read([Node(0, sequence, [i])], self._network.run_alone(sequence), requests, results)

    def _score_tree(self, root: Node, requests: Sequence[Pair], results: list[FloatArray], check: Check) -> None:
        depths = [Ready(self._limits)]
        for node in root.children:
            depths[0].add(node, [])
        while any(depths):
            check()
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
        """Compute nodes together and read what is scored in them; returns their children, each with its past."""
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
        """Run the head on the positions whose next token is scored, and store the results."""

        def chosen(siblings: list[int], places: list[int], tokens: list[int]) -> list[float]:
            rows, columns = torch.tensor([siblings, places], device=states.device)
            return self._network.chosen_logprobs(states[rows, columns], tokens)

        read_scored(nodes, requests, results, chosen)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with self._lock, explained_memory(self._weight_bytes):
            yield

    def _follower(self, check: Check) -> Callable[[tuple[int, ...]], npt.NDArray[Any]]:
        network, whole = self._network, list[int]()
        cache = network.cache([[]]) if network.shares else None

        def behind(tokens: tuple[int, ...]) -> npt.NDArray[Any]:
            before = len(whole)
            whole.extend(tokens)
            if cache is None:
                check()
                states = network.run_alone(tuple(whole))
            else:
                for begin in range(before, len(whole), self._limits.node):
                    check()
                    states = network.run([tuple(whole[begin : begin + self._limits.node])], [begin], cache)
            logprobs: npt.NDArray[Any] = network.logprobs(states[0, -1:])[0].cpu().numpy()
            return logprobs

        return behind


# --- packed sequences --------------------------------------------------------------------------------------------


class Arriving:
    """Values on their way from the device, which goes on to what was given to it after them."""

    def __init__(self, values: Any) -> None:
        self._values, self._there = values, None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._there = torch.cuda.Event(blocking=True)
            self._there.record()

    def read(self) -> FloatArray:
        """The values, when they have arrived."""
        if self._there is not None:
            self._there.synchronize()
        found: FloatArray = self._values.numpy()
        return found


class PackedScorer:
    """Scores requests of any number of tasks in packed sequences."""

    def __init__(self, network: PackedNetwork, lengths: Lengths | None = None) -> None:
        self.network = network
        self._warned = False
        self.lengths = network.lengths if lengths is None else lengths
        """The lengths of its sequences: those of the network's plan, until memory runs out."""

    def score(
        self,
        requests: Sequence[Pair],
        results: Sequence[FloatArray],
        check: Check = lambda: None,
        device: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Fill in the log p of every target token of every request.

        ``device`` is held while sequences are given to the device, not while the first is planned and the last is read.
        """
        left = list(range(len(requests)))
        while left:
            done: set[int] = set()
            open_requests = [requests[i] for i in left]
            packs: Iterable[Pack] = plan_packs(open_requests, self.lengths)
            if longest_branch(open_requests) > self.lengths.longest:
                # where a text beyond the plan does not fit, that is found out before the rest is computed
                packs = sorted(packs, key=lambda pack: pack.length, reverse=True)
            short_of_memory, steps = None, iter(packs)
            first = list(itertools.islice(steps, 1))
            for pack, values in self._computed(itertools.chain(first, steps), check, device or nullcontext()):
                if values is None:
                    short_of_memory = pack
                    continue
                targets = [results[left[i]] for i in pack.requests]
                ends = np.cumsum([len(target) for target in targets])
                for target, found in zip(targets, np.split(values, ends[:-1]), strict=True):
                    target[:] = found
                done.update(left[i] for i in pack.requests)
            left = [i for i in left if i not in done]
            if short_of_memory is not None:
                self._halve(short_of_memory, longest_branch([requests[i] for i in left]))

    def _computed(
        self, packs: Iterable[Pack], check: Check, device: AbstractContextManager[Any]
    ) -> Iterator[tuple[Pack, FloatArray | None]]:
        """Packs with their values; None for the values, and no more packs, if memory ran out.

        Values are read one pack late, so that the next one is prepared while the device computes.
        """
        waiting: list[tuple[Pack, Arriving]] = []
        with device:
            for pack in packs:
                check()
                try:
                    values = self.network.logprobs(pack)
                except torch.OutOfMemoryError:
                    values = None
                if values is None:
                    # only now, when the failed pass holds nothing any more
                    torch.cuda.empty_cache()
                    yield pack, None
                    break
                waiting.append((pack, Arriving(values)))
                if len(waiting) > 1:
                    before, arriving = waiting.pop(0)
                    yield before, arriving.read()
        for pack, arriving in waiting:
            yield pack, arriving.read()

    def _halve(self, pack: Pack, longest: int) -> None:
        """Continue with shorter sequences. Raises if the longest request alone does not fit one."""
        half = pack.length // 2
        if half < longest or (self.lengths.shortest or 1) > half:
            needed = self.network.needed_bytes(self.lengths.holding(longest)) / 1e9
            free = free_memory(self.network.network.device) / 1e9
            raise PrerequisiteError(
                f"out of GPU memory: a text of {longest} tokens with its context needs about {needed:.1f} GB besides "
                f"the model's weights, and {free:.1f} GB are free. Use a smaller model or one with quantised weights "
                "(hf:NAME?weights=4bit), stop other programs on the GPU, or use the CPU (hf:NAME?device=cpu)"
            )
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"out of GPU memory for sequences of {pack.length} tokens, so they are halved. Other programs may "
                "be using part of it. In half precision, numbers may differ in their last digits from those of a "
                "run with all of the memory",
                stacklevel=2,
            )
        self.lengths = replace(self.lengths, longest=half)
