"""One forward pass over a packed sequence of prefix trees, and the head on its scored positions.

On a GPU the model's layers are compiled, once per sequence length, and attention is block-sparse.
Elsewhere everything is as transformers computes it, under a dense mask.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from goldless.models.cache import compiled_folder
from goldless.models.local_engine import HEAD_ELEMENTS
from goldless.models.local_weights.network import Network, free_memory, total_memory, without_gradients
from goldless.models.local_weights.packing import Lengths, Pack, plan_packs
from goldless.models.local_weights.tree_attention import NAME, NO_WINDOW, BlockMasks, UnsupportedAttention, dense_mask

if TYPE_CHECKING:
    from goldless.models.local_engine import Pair

HEAD_ROWS = 2048
"""Scored positions per batch of logits on a GPU."""
SHORTEST_CUDA = 1024
LONGEST_CUDA = 65_536
LONGEST_CPU = 1024
"""Longer ones would be filled better, but a dense mask is computed in full."""
MEMORY_SHARE = 0.9
"""Share of the available memory that is planned with; the rest is for fragmentation."""
RECOMPILE_LIMIT = 64
"""Every length, and every kind of layer, is one compilation; torch's own limit is 8."""


class PackedNetwork:
    """What the packed engine needs of a transformers model."""

    def __init__(self, network: Network, windows: Sequence[int], *, compiled: bool | None = None) -> None:
        """``windows``: the sliding windows of the model's layers; no window is 0. ``compiled``: on a GPU."""
        self.network = network
        self.token_bytes = 0
        """Memory per additional token of a sequence on a GPU, measured on the shortest one."""
        self._windows = sorted(set(windows))
        self._card = network.device.type == "cuda"
        self._compiled = self._card if compiled is None else compiled
        self.lengths = Lengths(LONGEST_CPU, SHORTEST_CUDA if self._compiled else None)
        """The lengths of its sequences; on a GPU they are planned once, when the model is loaded."""
        self._block_masks: dict[int, BlockMasks] = {}
        self._layers = _Layers(network) if self._compiled else None
        self._choose: Callable[..., Any] = self._chosen
        if self._compiled:
            _keep_compiled_code()
            self._choose = torch.compile(self._chosen, dynamic=False)

    @property
    def settings(self) -> dict[str, str]:
        """How it computes, for the identity."""
        return {
            "sharing": "packed prefix tree",
            "attention": "tree, block-sparse" if self._compiled else "tree, dense",
            # the neighbours of a text in its sequence decide how its last digits are rounded
            "longest sequence": f"{self.lengths.longest} tokens",
        }

    def plan_lengths(self, token_bytes: int) -> None:
        """Choose the longest sequence that fits the GPU besides the weights and what other programs use now."""
        self.token_bytes = token_bytes
        device = self.network.device
        room = MEMORY_SHARE * min(total_memory(device) - self.network.weight_bytes, free_memory(device))
        longest = LONGEST_CUDA
        while longest > SHORTEST_CUDA and self.needed_bytes(longest) > room:
            longest //= 2
        self.lengths = Lengths(longest, SHORTEST_CUDA)

    def needed_bytes(self, length: int) -> int:
        """Memory besides the weights for a sequence of a length."""
        # the logits that are there at once take 6 bytes each, in half precision and in float32
        return length * self.token_bytes + HEAD_ROWS * self.network.vocabulary * 6

    @without_gradients
    def logprobs(self, pack: Pack) -> Any:
        """Log p of the pack's chosen tokens, in order, on the device; a GPU may still be computing them."""
        return self._read(self.states(pack), pack)

    def states(self, pack: Pack) -> Any:
        """Hidden states of the packed tokens: [length, size]."""
        ids = np.zeros((2, pack.length), np.int64)
        ids[0, : len(pack.tokens)], ids[1, : len(pack.tokens)] = pack.tokens, pack.positions
        tokens, positions = self._there(ids)[:, None]
        compiled = contextlib.nullcontext() if self._layers is None else self._layers.compiled()
        with _tree_attention(self.network.config), compiled:
            output = self.network.body(
                input_ids=tokens, position_ids=positions, use_cache=False, tree_masks=self._masks(pack)
            )
        return output.last_hidden_state[0]

    def _masks(self, pack: Pack) -> dict[int, Any]:
        if not self._compiled:
            return {window: dense_mask(pack, window).to(self.network.device) for window in self._windows}
        if pack.length not in self._block_masks:
            self._block_masks[pack.length] = BlockMasks(pack.length, self._windows, self.network.device)
        masks = self._block_masks[pack.length]
        masks.fill(pack)
        return masks.by_window

    def _read(self, states: Any, pack: Pack) -> Any:
        count = len(pack.rows)
        size = HEAD_ROWS if self._compiled else max(1, HEAD_ELEMENTS // self.network.vocabulary)
        # compiled code is for one number of rows: the last piece is filled up
        padded = -(-count // size) * size if self._compiled else count
        both = np.zeros((2, padded), np.int64)
        both[0, :count], both[1, :count] = pack.rows, pack.chosen
        rows, chosen = self._there(both)
        pieces = [
            self._choose(states[rows[begin : begin + size]], chosen[begin : begin + size])
            for begin in range(0, padded, size)
        ]
        return torch.cat(pieces)[:count]

    def _chosen(self, states: Any, tokens: Any) -> Any:
        logits = self.network.logits(states).float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(-1)

    def _there(self, values: Any) -> Any:
        """Copy numbers to the device without waiting for it."""
        source = torch.from_numpy(values)
        return source.pin_memory().to(self.network.device, non_blocking=True) if self._card else source


class _Layers:
    """The layers of a model, which can be compiled for a while."""

    def __init__(self, network: Network) -> None:
        lists = [module for module in network.body.modules() if isinstance(module, torch.nn.ModuleList)]
        self._layers = next((list(found) for found in lists if len(found) == network.config.num_hidden_layers), [])
        if not self._layers:
            raise UnsupportedAttention("its layers are not found")
        # one compilation serves all layers of a kind: their weights are arguments
        kinds = {type(layer): torch.compile(type(layer).forward, dynamic=False) for layer in self._layers}
        self._forwards = [functools.partial(kinds[type(layer)], layer) for layer in self._layers]

    @contextlib.contextmanager
    def compiled(self) -> Iterator[None]:
        """Compiled during the block; afterwards unchanged, for writing and for caches of keys and values."""
        from torch._dynamo import config as compiler  # noqa: PLC0415 - slow to import, and not needed on the CPU

        for layer, forward in zip(self._layers, self._forwards, strict=True):
            layer.forward = forward
        try:
            with compiler.patch(recompile_limit=RECOMPILE_LIMIT):
                yield
        finally:
            for layer in self._layers:
                del layer.forward


class _Recorded(dict[int, Any]):
    """Masks made as they are asked for; keeps the windows that the layers name, in order."""

    def __init__(self, pack: Pack, device: Any) -> None:
        super().__init__()
        self._pack, self._device = pack, device
        self.asked: list[int] = []

    def __getitem__(self, window: int) -> Any:
        self.asked.append(window)
        return dense_mask(self._pack, window).to(self._device)


def open_packed(network: Network) -> PackedNetwork:
    """The network for packed sequences, tested on a few tokens. Raises UnsupportedAttention where it does not work.

    The reason is the same in every run, because it is in the model's identity; the detail is only shown.
    """
    if not network.has_apart_head:
        raise UnsupportedAttention("its head cannot be run apart")
    if network.rotates_by_length:
        raise UnsupportedAttention("its positions are scaled by a text's length")
    try:
        packed = PackedNetwork(network, _windows(network))
        pack, requests = _probe_pack(network.probe, SHORTEST_CUDA if network.device.type == "cuda" else None)
        found = packed.logprobs(pack).tolist()
        if network.device.type == "cuda":
            packed.plan_lengths(_token_bytes(packed, pack))
    except torch.OutOfMemoryError:
        raise
    except UnsupportedAttention as error:
        raise UnsupportedAttention(f"its attention is of another kind: {error.reason}") from error
    except Exception as error:  # an architecture or a compiler fails in its own way
        detail = next(iter(str(error).strip().splitlines()), "")
        raise UnsupportedAttention(f"tree attention failed: {type(error).__name__}", detail) from error
    alone = [p for i in pack.requests for p in _alone(network, requests[i])]
    if any(abs(a - b) >= network.noise_nats for a, b in zip(found, alone, strict=True)):
        raise UnsupportedAttention("tree attention gives other values")
    return packed


@without_gradients
def _windows(network: Network) -> list[int]:
    """The sliding window of each layer, as the layers pass it to the attention."""
    pack, _ = _probe_pack(network.probe, None)
    masks = _Recorded(pack, network.device)
    ids = torch.from_numpy(np.stack([pack.tokens, pack.positions])).to(network.device)[:, None]
    with _tree_attention(network.config):
        network.body(input_ids=ids[0], position_ids=ids[1], use_cache=False, tree_masks=masks)
    config = network.config
    window = getattr(config, "sliding_window", None) or NO_WINDOW
    count = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * count
    if masks.asked != [{"full_attention": NO_WINDOW, "sliding_attention": window}.get(kind) for kind in kinds]:
        raise UnsupportedAttention("not every layer says which window it keeps")
    return masks.asked


def _probe_pack(probe: Sequence[int], shortest: int | None) -> tuple[Pack, list[Pair]]:
    """A small tree of two tasks, one with two branches."""
    tokens = tuple(probe)
    requests = [(tokens[:8], tokens[8:12]), (tokens[:8], tokens[12:]), (tokens[4:9], tokens[9:16])]
    (pack,) = plan_packs(requests, Lengths(SHORTEST_CUDA, shortest))
    return pack, requests


def _alone(network: Network, request: Pair) -> list[float]:
    context, target = request
    states = network.run_alone(context + target[:-1])[0, len(context) - 1 :]
    return network.chosen_logprobs(states, target)


@without_gradients
def _token_bytes(packed: PackedNetwork, pack: Pack) -> int:
    """Memory of one token of a sequence, from a pass that is already compiled."""
    device = packed.network.device
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    packed.states(pack)
    torch.cuda.synchronize(device)
    return max(1, int((torch.cuda.max_memory_allocated(device) - before) / pack.length))


@contextlib.contextmanager
def _tree_attention(config: Any) -> Iterator[None]:
    """Make the model use our attention during the block."""
    own = config._attn_implementation  # noqa: SLF001 - transformers' own layers read this name at every call
    config._attn_implementation = NAME  # noqa: SLF001
    try:
        yield
    finally:
        config._attn_implementation = own  # noqa: SLF001


def _keep_compiled_code() -> None:
    """Let torch keep compiled code in goldless's own folder, unless the user set another one."""
    # torch writes its default folder into the environment by itself, so it is not always the user who did
    unset: list[str | None] = [None]
    with contextlib.suppress(ImportError):
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir  # noqa: PLC0415 - not in every release

        unset.append(str(default_cache_dir()))
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR") in unset:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(compiled_folder())
