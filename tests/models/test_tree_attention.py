"""Attention inside packed trees: who sees whom, by blocks and by positions.

Expected values come from the definition, one pair of positions at a time, and from a plain softmax.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
pytest.importorskip("transformers", reason="needs the transformers extra")

from goldless.models.local_weights.packed import (  # noqa: E402
    BlockMasks,
    UnsupportedAttention,
    dense_mask,
    tree_attention,
)
from goldless.models.local_weights.packing import Lengths, Pack, plan_packs  # noqa: E402

pytestmark = pytest.mark.transformers


def packed_tree(seed: int = 0) -> Pack:
    """Three trees of uneven branches in a sequence of 1024, with padding behind them."""
    chance = np.random.default_rng(seed)

    def text(longest: int) -> tuple[int, ...]:
        return tuple(chance.integers(0, 90, chance.integers(2, longest)).tolist())

    requests = []
    for size in (290, 60, 30):
        root = tuple(chance.integers(0, 90, size).tolist())
        for _ in range(2):
            branch = root + text(30)
            requests += [(branch, text(25)) for _ in range(3)]
    (pack,) = plan_packs(requests, Lengths(1024, 1024))
    assert len(pack.tokens) < pack.length
    return pack


def sees(pack: Pack, query: int, key: int, window: int) -> bool:
    """The definition: the key is before the query and on its path, and not too far back in the request."""
    if max(query, key) >= len(pack.tokens):
        return query == key
    if not key <= query < pack.ends[key]:
        return False
    return not window or pack.positions[query] - pack.positions[key] < window


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [0, 40])
def test_both_kernels_give_a_plain_softmax_over_what_is_seen(softcap: float | None, window: int):
    pack, chance = packed_tree(), torch.Generator().manual_seed(0)
    query = torch.randn((1, 6, 1024, 16), generator=chance)
    key, value = (torch.randn((1, 2, 1024, 16), generator=chance) for _ in range(2))
    options = {"scaling": 0.3, "softcap": softcap, "sliding_window": window or None, "dropout": 0.0}
    scores = query @ key.repeat_interleave(3, 1).mT * 0.3
    scores = scores if softcap is None else torch.tanh(scores / softcap) * softcap
    seen = torch.tensor([[sees(pack, q, k, window) for k in range(pack.length)] for q in range(pack.length)])
    expected = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value.repeat_interleave(3, 1)
    block_masks = BlockMasks(1024, [window], torch.device("cpu")).of(pack)
    with warnings.catch_warnings():
        # uncompiled, the kernel says that it is slow
        warnings.simplefilter("ignore")
        for masks in ({window: dense_mask(pack, window)}, block_masks):
            found, _ = tree_attention(None, query, key, value, None, tree_masks=masks, **options)
            torch.testing.assert_close(found, expected.transpose(1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("more", [{"s_aux": 1}, {"position_bias": 1}, {"tree_masks": None}])
def test_what_this_attention_cannot_do_is_refused_not_left_out(more: dict):
    part = torch.zeros((1, 1, 4, 8))
    with pytest.raises(UnsupportedAttention):
        tree_attention(None, part, part, part, None, **{"tree_masks": {0: torch.ones(4, 4, dtype=torch.bool)}, **more})
    with pytest.raises(UnsupportedAttention):
        tree_attention(None, part, part, part, torch.ones(4, 4), tree_masks={0: torch.ones(4, 4, dtype=torch.bool)})
