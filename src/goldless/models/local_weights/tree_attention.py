"""Attention inside packed prefix trees: a position sees its own ancestors and itself.

Branches are laid out depth first, so index k is an ancestor of index q, or q itself, exactly if
``k <= q < end of k's subtree``. A sliding window applies to the positions in the request, not to the indices in the
packed sequence. On a GPU the mask is block-sparse (FlexAttention): fully masked blocks are never
computed. Elsewhere it is a plain boolean table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from transformers import AttentionInterface

from goldless.arrays import BoolArray, IntArray
from goldless.models.local_weights.packing import Pack

NAME = "goldless_tree"
"""The name of this attention in transformers."""
BLOCK = 128
"""Side of a block of the block-sparse mask."""
NO_WINDOW = 0


class UnsupportedAttention(Exception):  # noqa: N818 - it is caught here: the model is computed another way
    """The model needs more than this attention supports."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail``: the message of the part that failed, one line."""
        self.reason = reason
        super().__init__(f"{reason} ({detail})" if detail else reason)


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
    attend = _block_sparse if isinstance(mask, BlockMask) else _dense
    return attend(query, key, value, mask, scaling=scaling, softcap=softcap).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, tree_attention)


def _dense(query: Any, key: Any, value: Any, mask: Any, *, scaling: float | None, softcap: float | None) -> Any:
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if softcap is None:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = torch.where(mask, softcap * torch.tanh(scores / softcap), -torch.inf)
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value


def _block_sparse(query: Any, key: Any, value: Any, mask: Any, *, scaling: float | None, softcap: float | None) -> Any:
    def capped(score: Any, *_place: Any) -> Any:
        return softcap * torch.tanh(score / softcap)

    groups = query.shape[1] // key.shape[1]
    # the kernel shares keys among heads only where their number is a power of two
    if groups & (groups - 1):
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return flex_attention(
        query,
        key,
        value,
        score_mod=None if softcap is None else capped,
        block_mask=mask,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def dense_mask(pack: Pack, window: int = NO_WINDOW) -> Any:
    """Which position sees which, as booleans: [1, 1, length, length]."""
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


def blocks(pack: Pack, window: int = NO_WINDOW) -> tuple[BoolArray, BoolArray]:
    """Which blocks must be computed under the mask, and which are fully visible: [query blocks, key blocks] each."""
    ends, positions = (part.reshape(-1, BLOCK) for part in _padded(pack))
    first = np.arange(0, pack.length, BLOCK)
    earlier = first[None, :] < first[:, None]
    some = earlier & (ends.max(1)[None, :] > first[:, None])
    whole = earlier & (ends.min(1)[None, :] >= first[:, None] + BLOCK)
    if window:
        some &= positions.min(1)[:, None] - positions.max(1)[None, :] < window
        whole &= positions.max(1)[:, None] - positions.min(1)[None, :] < window
    return (some & ~whole) | np.eye(len(first), dtype=bool), whole


class BlockMasks:
    """The block-sparse masks of all packs of one length, in memory that is reused for every pack.

    The masks stay the same objects, so what was compiled for a length serves all its packs.
    """

    def __init__(self, length: int, windows: Sequence[int], device: Any) -> None:
        self._ends = torch.zeros(length, dtype=torch.int32, device=device)
        self._positions = torch.zeros(length, dtype=torch.int32, device=device)
        self.by_window = {window: _empty(length, self._rule(window), device) for window in windows}
        """The mask per kind of layer; no window is 0."""

    def _rule(self, window: int) -> Callable[[Any, Any, Any, Any], Any]:
        ends, positions = self._ends, self._positions

        def descends(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query < ends[key])

        def descends_in_window(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
            return (key <= query) & (query < ends[key]) & (positions[query] - positions[key] < window)

        return descends_in_window if window else descends

    def fill(self, pack: Pack) -> None:
        ends, positions = _padded(pack)
        _put(self._ends, ends)
        _put(self._positions, positions)
        for window, mask in self.by_window.items():
            some, whole = blocks(pack, window)
            for counts, indices, chosen in (
                (mask.kv_num_blocks, mask.kv_indices, some),
                (mask.full_kv_num_blocks, mask.full_kv_indices, whole),
            ):
                _put(counts, chosen.sum(1))
                # the chosen blocks' numbers come first, in order
                _put(indices, np.argsort(~chosen, axis=1, kind="stable"))


def _empty(length: int, rule: Callable[..., Any], device: Any) -> BlockMask:
    size = length // BLOCK
    counts = [torch.zeros((1, 1, size), dtype=torch.int32, device=device) for _ in range(2)]
    indices = [torch.zeros((1, 1, size, size), dtype=torch.int32, device=device) for _ in range(2)]
    return BlockMask.from_kv_blocks(
        counts[0],
        indices[0],
        counts[1],
        indices[1],
        BLOCK_SIZE=BLOCK,
        mask_mod=rule,
        seq_lengths=(length, length),
    )


def _put(tensor: Any, values: npt.NDArray[Any]) -> None:
    """Write values into a tensor without waiting for the device."""
    source = torch.from_numpy(values.astype(np.int32)).reshape(tensor.shape)
    if tensor.device.type == "cuda":
        source = source.pin_memory()
    tensor.copy_(source, non_blocking=True)
