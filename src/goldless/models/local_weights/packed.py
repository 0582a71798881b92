"""Scoring in packed prefix trees: one forward pass for many requests, and the head on its scored positions.

In a pack, a token's descendants directly follow it, so index k is an ancestor of index q, or q itself, exactly if
``k <= q < end of k's subtree``. A sliding window applies to the positions in the request, not to the indices in the
pack. On a GPU attention is block-sparse (FlexAttention): blocks that nothing sees are never computed, and the model's
layers are compiled, once per length. Elsewhere the mask is a plain table, and the rest as transformers computes it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from transformers import AttentionInterface

from goldless.arrays import BoolArray, IntArray
from goldless.models.cache import compiled_folder
from goldless.models.local_engine import HEAD_ELEMENTS, Cancelled, FloatArray, Pair, Stop
from goldless.models.local_weights.engine import TorchEngine
from goldless.models.local_weights.packing import Lengths, Pack, plan_packs

NAME = "goldless_tree"
"""The name of this attention in transformers."""
BLOCK = 128
"""Side of a block of the block-sparse mask."""
NO_WINDOW = 0
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


class UnsupportedAttention(Exception):  # noqa: N818 - it is caught here: the model is computed another way
    """The model needs more than this attention supports."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail``: the message of the part that failed, one line."""
        self.reason = reason
        super().__init__(f"{reason} ({detail})" if detail else reason)


class PackedScorer:
    """Scores requests of any number of tasks in packed sequences."""

    def __init__(self, engine: TorchEngine, windows: Sequence[int], *, compiled: bool | None = None) -> None:
        """``windows``: the sliding windows of the model's layers; no window is 0. ``compiled``: None: on a GPU."""
        self.engine = engine
        self._windows = sorted(set(windows))
        self._card = engine.device.type == "cuda"
        self._compiled = self._card if compiled is None else compiled
        self.lengths = Lengths(LONGEST_CPU, SHORTEST_CUDA if self._compiled else None)
        """The lengths of its sequences; on a GPU they are planned when the model is loaded."""
        self._block_masks: dict[int, BlockMasks] = {}
        self._forwards: list[tuple[Any, Callable[..., Any]]] = []
        self._choose: Callable[..., Any] = self._chosen
        if self._compiled:
            self._compile()

    def _compile(self) -> None:
        # torch itself writes its default, a temporary folder, into the environment
        if os.environ.get("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir()).startswith(tempfile.gettempdir()):
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(compiled_folder())
        self._choose = torch.compile(self._chosen, dynamic=False)
        count = self.engine.config.num_hidden_layers
        lists = (module for module in self.engine.body.modules() if isinstance(module, torch.nn.ModuleList))
        layers = next((list(found) for found in lists if len(found) == count), None)
        if layers is None:
            raise UnsupportedAttention("its layers are not found")
        # one compilation serves all layers of a kind: their weights are arguments
        kinds = {type(layer): torch.compile(type(layer).forward, dynamic=False) for layer in layers}
        self._forwards = [(layer, functools.partial(kinds[type(layer)], layer)) for layer in layers]

    @property
    def settings(self) -> dict[str, str]:
        return {
            "sharing": "packed prefix tree",
            "attention": "tree, block-sparse" if self._compiled else "tree, dense",
            # the neighbours of a text in its sequence decide how its last digits are rounded
            "longest sequence": f"{self.lengths.longest} tokens",
        }

    def score(
        self,
        requests: Sequence[Pair],
        *,
        cancelled: Stop = lambda: False,
        device: AbstractContextManager[Any] | None = None,
    ) -> list[FloatArray]:
        """The log p of every target token of every request.

        ``device`` is held while sequences are given to the device, not while the first is planned and the last is read.
        """
        results = [np.zeros(len(target), np.float32) for _, target in requests]
        packs = plan_packs(requests, self.lengths)
        planned = itertools.chain(list(itertools.islice(packs, 1)), packs)
        arriving: list[tuple[Pack, Any, Any]] = []
        with device or nullcontext():
            for pack in planned:
                if cancelled():
                    raise Cancelled
                values = self.logprobs(pack)
                there = torch.cuda.Event(blocking=True) if self._card else None
                arriving.append((pack, values.to("cpu", non_blocking=True), there))
                if there is not None:
                    there.record()
        for pack, values, there in arriving:
            if there is not None:  # the device goes on to what was given to it later
                there.synchronize()
            targets = [results[i] for i in pack.requests]
            ends = np.cumsum([len(target) for target in targets])
            for target, found in zip(targets, np.split(values.numpy(), ends[:-1]), strict=True):
                target[:] = found
        return results

    def plan_lengths(self, token_bytes: int) -> None:
        """Choose the longest sequence that fits the GPU besides the weights and what other programs use now."""
        device = self.engine.device
        free, total = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        # the logits that are there at once take 6 bytes each, in half precision and in float32
        logits = HEAD_ROWS * self.engine.vocabulary * 6
        room = MEMORY_SHARE * min(total - self.engine.weight_bytes, free) - logits
        longest = LONGEST_CUDA
        while longest > SHORTEST_CUDA and longest * token_bytes > room:
            longest //= 2
        self.lengths = Lengths(longest, SHORTEST_CUDA)

    def logprobs(self, pack: Pack) -> Any:
        """Log p of the pack's chosen tokens, in order, on the device; a GPU may still be computing them."""
        count = len(pack.rows)
        size = HEAD_ROWS if self._compiled else max(1, HEAD_ELEMENTS // self.engine.vocabulary)
        # compiled code is for one number of rows: the last piece is filled up
        padded = -(-count // size) * size if self._compiled else count
        with torch.inference_mode():
            states = self.states(pack)
            rows, chosen = self._there(padded, pack.rows, pack.chosen)
            pieces = [
                self._choose(states[rows[begin : begin + size]], chosen[begin : begin + size])
                for begin in range(0, padded, size)
            ]
            return torch.cat(pieces)[:count]

    def states(self, pack: Pack) -> Any:
        """Hidden states of the packed tokens: [length, size]."""
        tokens, positions = self._there(pack.length, pack.tokens, pack.positions)[:, None]
        with self._compiled_layers():
            return _run(self.engine, tokens, positions, self._masks(pack))[0]

    def _masks(self, pack: Pack) -> dict[int, Any]:
        if not self._compiled:
            return {window: dense_mask(pack, window).to(self.engine.device) for window in self._windows}
        if pack.length not in self._block_masks:
            self._block_masks[pack.length] = BlockMasks(pack.length, self._windows, self.engine.device)
        return self._block_masks[pack.length].of(pack)

    def _chosen(self, states: Any, tokens: Any) -> Any:
        logits = self.engine.logits(states).float()
        return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(-1)

    def _there(self, length: int, *rows: Any) -> Any:
        """Rows of numbers, filled up with zeros, copied to the device without waiting for it."""
        filled = np.zeros((len(rows), length), np.int64)
        for place, row in zip(filled, rows, strict=True):
            place[: len(row)] = row
        source = torch.from_numpy(filled)
        return source.pin_memory().to(self.engine.device, non_blocking=True) if self._card else source

    @contextlib.contextmanager
    def _compiled_layers(self) -> Iterator[None]:
        """Layers are compiled during the block; afterwards unchanged, for writing and for caches of keys and values."""
        if not self._compiled:
            yield
            return
        from torch._dynamo import config as compiler  # noqa: PLC0415 - slow to import, and not needed on the CPU

        for layer, forward in self._forwards:
            layer.forward = forward
        try:
            with compiler.patch(recompile_limit=RECOMPILE_LIMIT):
                yield
        finally:
            for layer, _ in self._forwards:
                del layer.forward


def _run(engine: TorchEngine, tokens: Any, positions: Any, masks: Mapping[int, Any]) -> Any:
    """States of a model's body under our attention, by the masks of its windows."""
    config = engine.config
    own = config._attn_implementation  # noqa: SLF001 - transformers' own layers read this name at every call
    config._attn_implementation = NAME  # noqa: SLF001
    try:
        output = engine.body(input_ids=tokens, position_ids=positions, use_cache=False, tree_masks=masks)
    finally:
        config._attn_implementation = own  # noqa: SLF001
    return output.last_hidden_state


# --- trying the model --------------------------------------------------------------------------------------------


def open_packed(engine: TorchEngine) -> PackedScorer:
    """The scorer in packed sequences, tested on a few tokens. Raises UnsupportedAttention where it does not work.

    The reason is the same in every run, because it is in the model's identity; the detail is only shown.
    """
    if not engine.has_apart_head:
        raise UnsupportedAttention("its head cannot be run apart")
    if engine.rotates_by_length:
        raise UnsupportedAttention("its positions are scaled by a text's length")
    on_card, probe = engine.device.type == "cuda", engine.probe
    # a small tree of two tasks, one with two branches
    requests = [(probe[:8], probe[8:12]), (probe[:8], probe[12:]), (probe[4:9], probe[9:16])]
    try:
        with torch.inference_mode():
            (pack,) = plan_packs(requests, Lengths(SHORTEST_CUDA))
            scorer = PackedScorer(engine, _windows(engine, pack))
            (pack,) = plan_packs(requests, Lengths(SHORTEST_CUDA, SHORTEST_CUDA if on_card else None))
            found = scorer.logprobs(pack).tolist()
            if on_card:
                scorer.plan_lengths(_token_bytes(scorer, pack))
    except torch.OutOfMemoryError:
        raise
    except UnsupportedAttention as error:
        raise UnsupportedAttention(f"its attention is of another kind: {error.reason}") from error
    except Exception as error:  # an architecture or a compiler fails in its own way
        detail = next(iter(str(error).strip().splitlines()), "")
        raise UnsupportedAttention(f"tree attention failed: {type(error).__name__}", detail) from error
    if engine.differ(found, [requests[i] for i in pack.requests]):
        raise UnsupportedAttention("tree attention gives other values")
    return scorer


def _windows(engine: TorchEngine, pack: Pack) -> list[int]:
    """The sliding window of each layer, as the layers pass it to the attention."""
    asked: list[int] = []

    class Masks(dict[int, Any]):
        def __getitem__(self, window: int) -> Any:
            asked.append(window)
            return dense_mask(pack, window).to(engine.device)

    config = engine.config
    tokens, positions = torch.from_numpy(np.stack([pack.tokens, pack.positions])).to(engine.device)[:, None]
    _run(engine, tokens, positions, Masks())
    window = getattr(config, "sliding_window", None) or NO_WINDOW
    count = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * count
    if asked != [{"full_attention": NO_WINDOW, "sliding_attention": window}.get(kind) for kind in kinds]:
        raise UnsupportedAttention("not every layer says which window it keeps")
    return asked


def _token_bytes(scorer: PackedScorer, pack: Pack) -> int:
    """Memory of one token of a sequence, from a pass that is already compiled."""
    device = scorer.engine.device
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    scorer.states(pack)
    torch.cuda.synchronize(device)
    return max(1, int((torch.cuda.max_memory_allocated(device) - before) / pack.length))


# --- attention inside a tree -------------------------------------------------------------------------------------


def tree_attention(
    _module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    tree_masks: Mapping[int, Any] | None = None,
    **others: Any,
) -> tuple[Any, None]:
    """Attention of one layer, as transformers calls it: [batch, tokens, heads, head size], and no weights."""
    # attention that another model adds to the scores or to their sum would be lost silently
    unknown = [name for name in ("s_aux", "position_bias", "head_mask") if others.get(name) is not None]
    if tree_masks is None or attention_mask is not None or unknown or query.shape[-2] != key.shape[-2]:
        raise UnsupportedAttention(", ".join(unknown) or "the masks do not reach the attention")
    mask = tree_masks[sliding_window or NO_WINDOW]
    block_sparse, groups = isinstance(mask, BlockMask), query.shape[1] // key.shape[1]
    # the block-sparse kernel shares keys among heads where their number is a power of two
    if not block_sparse or groups & (groups - 1):
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)

    def capped(score: Any, *_place: Any) -> Any:
        return softcap * torch.tanh(score / softcap)

    if block_sparse:
        cap, shared = None if softcap is None else capped, query.shape[1] != key.shape[1]
        mixed = flex_attention(query, key, value, score_mod=cap, block_mask=mask, scale=scaling, enable_gqa=shared)
    elif softcap is None:
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
    else:
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        scores = torch.where(mask, capped(scores), -torch.inf)
        mixed = scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, tree_attention)


def dense_mask(pack: Pack, window: int = NO_WINDOW) -> Any:
    """The positions that each position sees, as booleans: [1, 1, length, length]."""
    ends, positions = _padded(pack)
    index = np.arange(pack.length)
    seen = (index[None, :] <= index[:, None]) & (index[:, None] < ends[None, :])
    if window:
        seen &= positions[:, None] - positions[None, :] < window
    return torch.from_numpy(seen)[None, None]


def _padded(pack: Pack) -> tuple[IntArray, IntArray]:
    """Ends and positions up to the pack's length; padding sees only itself, so that its softmax is a number."""
    index = np.arange(len(pack.tokens), pack.length)
    return np.concatenate([pack.ends, index + 1]), np.concatenate([pack.positions, np.zeros_like(index)])


class BlockMasks:
    """The block-sparse masks of all packs of one length, in memory that is reused for every pack.

    The masks stay the same objects, so what was compiled for a length serves all its packs.
    """

    def __init__(self, length: int, windows: Sequence[int], device: Any) -> None:
        def zeros(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        size = length // BLOCK
        self._ends, self._positions = zeros(length), zeros(length)
        self._by_window = {
            window: BlockMask.from_kv_blocks(
                *(zeros(1, 1, size), zeros(1, 1, size, size), zeros(1, 1, size), zeros(1, 1, size, size)),
                BLOCK_SIZE=BLOCK,
                mask_mod=self._rule(window),
                seq_lengths=(length, length),
            )
            for window in windows
        }

    def _rule(self, window: int) -> Callable[[Any, Any, Any, Any], Any]:
        ends, positions = self._ends, self._positions

        def descends(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query < ends[key])

        def descends_in_window(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query < ends[key]) & (positions[query] - positions[key] < window)

        return descends_in_window if window else descends

    def of(self, pack: Pack) -> dict[int, BlockMask]:
        """The mask per kind of layer; no window is 0."""
        ends, positions = _padded(pack)
        _put(self._ends, ends)
        _put(self._positions, positions)
        for window, mask in self._by_window.items():
            some, whole = _blocks(ends.reshape(-1, BLOCK), positions.reshape(-1, BLOCK), window)
            for counts, indices, chosen in (
                (mask.kv_num_blocks, mask.kv_indices, some),
                (mask.full_kv_num_blocks, mask.full_kv_indices, whole),
            ):
                _put(counts, chosen.sum(1))
                # the chosen blocks' numbers come first, in order
                _put(indices, np.argsort(~chosen, axis=1, kind="stable"))
        return self._by_window


def _blocks(ends: IntArray, positions: IntArray, window: int) -> tuple[BoolArray, BoolArray]:
    """The blocks to compute under the mask, and those that are fully visible: [query blocks, key blocks] each."""
    first = np.arange(0, ends.size, BLOCK)
    earlier = first[None, :] < first[:, None]
    some = earlier & (ends.max(1)[None, :] > first[:, None])
    whole = earlier & (ends.min(1)[None, :] >= first[:, None] + BLOCK)
    if window:
        some &= positions.min(1)[:, None] - positions.max(1)[None, :] < window
        whole &= positions.max(1)[:, None] - positions.min(1)[None, :] < window
    return (some & ~whole) | np.eye(len(first), dtype=bool), whole


def _put(tensor: Any, values: npt.NDArray[Any]) -> None:
    """Write values into a tensor without waiting for the device."""
    source = torch.from_numpy(values.astype(np.int32)).reshape(tensor.shape)
    if tensor.device.type == "cuda":
        source = source.pin_memory()
    tensor.copy_(source, non_blocking=True)
