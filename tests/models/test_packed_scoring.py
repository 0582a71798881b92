"""Packed prefix trees score as each pair alone does, in every architecture that can be packed.

Expected values come from a plain forward pass of transformers over each sequence alone, in float32.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from goldless.errors import PrerequisiteError  # noqa: E402
from goldless.models.local_weights import pack_if_possible, packed  # noqa: E402
from goldless.models.local_weights.engine import TorchEngine  # noqa: E402
from goldless.models.local_weights.packed import PackedScorer, UnsupportedAttention, open_packed  # noqa: E402
from goldless.models.local_weights.packing import Lengths, Pack  # noqa: E402
from tests.support.tiny_base import CONFIGS, NOT_PACKED, WIDE, plain_logprobs, random_model  # noqa: E402

pytestmark = [
    pytest.mark.transformers,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("default"),  # torch's compiler warns of itself, and takes an error for its own failure
]
needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PACKED = [kind for kind in CONFIGS if kind not in NOT_PACKED]
PROBE = tuple(range(3, 90, 4))


def study(papers: int = 2, seed: int = 0):
    """Instructions, synopses, candidates and peers of uneven length; one peer's text goes on where another's ends."""
    chance = np.random.default_rng(seed)

    def text(length: int) -> tuple[int, ...]:
        return tuple(chance.integers(0, 97, chance.integers(length // 2, length)).tolist())

    instructions, pairs = text(30), []
    for _ in range(papers):
        synopsis, peers = text(60), [text(40) for _ in range(2)]
        peers.append(peers[0] + text(9))
        pairs += [(instructions + synopsis + x, y) for x in (text(50), text(50), ()) for y in peers]
    return pairs


def opened(kind: str = "llama", lengths: Lengths | None = None) -> PackedScorer:
    scorer = open_packed(TorchEngine(random_model(kind), PROBE))
    scorer.lengths = lengths or scorer.lengths
    return scorer


def packs_of(scorer: PackedScorer) -> list[Pack]:
    """The packs that are computed from now on."""
    seen, logprobs = [], scorer.logprobs
    scorer.logprobs = lambda pack: (logprobs(pack), seen.append(pack))[0]
    return seen


@pytest.mark.parametrize("kind", PACKED)
def test_packed_scores_are_those_of_each_pair_alone(kind: str):
    model, pairs = random_model(kind), study()
    scorer = opened(kind)
    packs = packs_of(scorer)
    for (context, target), found in zip(pairs, scorer.score(pairs), strict=True):
        expected = plain_logprobs(model, context, target)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert found.sum(dtype=np.float64) == pytest.approx(expected.sum(), rel=1e-4)
    assert sum(len(pack.tokens) for pack in packs) < 0.7 * sum(len(c) + len(t) - 1 for c, t in pairs)


@pytest.mark.parametrize(
    ("lengths", "cut", "padded"),
    [(Lengths(200), True, False), (Lengths(256, 256), True, True), (Lengths(4096, 1024), False, True)],
)
def test_neither_cuts_nor_padding_change_a_score(lengths: Lengths, *, cut: bool, padded: bool):
    pairs = study(3)
    expected = opened().score(pairs)
    scorer = opened(lengths=lengths)
    packs = packs_of(scorer)
    for found, whole in zip(scorer.score(pairs), expected, strict=True):
        assert found == pytest.approx(whole, abs=1e-5)
    assert (len(packs) > 1) is cut
    assert any(pack.length > len(pack.tokens) for pack in packs) is padded


@pytest.mark.parametrize("kind", NOT_PACKED)
def test_a_model_that_cannot_be_packed_is_computed_the_other_way_and_says_so(kind: str):
    engine = TorchEngine(random_model(kind), PROBE)
    with pytest.warns(UserWarning, match="the model cannot be packed.*its attention is of another kind") as told:
        settings = pack_if_possible(engine)
    assert len(told) == 1
    assert engine.packed is None
    assert settings["sharing"].startswith(engine.settings["sharing"] + "; not packed: its attention is of another kind")


def test_a_torch_without_flex_attention_computes_node_by_node(monkeypatch: pytest.MonkeyPatch):
    model, engine, pairs = random_model("llama"), TorchEngine(random_model("llama"), PROBE), study(1)
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    monkeypatch.delitem(sys.modules, "goldless.models.local_weights.packed")
    with pytest.warns(UserWarning, match=r"the slower method \(prefix tree\): "):
        settings = pack_if_possible(engine)
    assert settings["sharing"] == "prefix tree; not packed: this torch has no block-sparse attention"
    assert engine.score(pairs[:1])[0] == pytest.approx(plain_logprobs(model, *pairs[0]), abs=1e-4)


BY_LENGTH = {
    # beyond 64 tokens the angles follow from the length itself
    "dynamic": lambda: transformers.LlamaConfig(
        **{**WIDE, "max_position_embeddings": 64},
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4},
    ),
    # beyond 100 tokens there is another set of angles
    "longrope": lambda: transformers.Phi3Config(
        **WIDE,
        pad_token_id=0,
        original_max_position_embeddings=100,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": [1.0] * 8,
            "long_factor": [8.0] * 8,
            "original_max_position_embeddings": 100,
        },
    ),
}


@pytest.mark.parametrize("sharing", ["packed", "cached"])
@pytest.mark.parametrize("kind", BY_LENGTH)
def test_a_model_whose_rotation_depends_on_the_length_of_a_text_computes_each_text_alone(
    kind: str, sharing, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(CONFIGS, kind, BY_LENGTH[kind])
    engine = TorchEngine(random_model(kind), PROBE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        settings = pack_if_possible(engine) if sharing == "packed" else engine.settings
    not_packed = "; not packed: its positions are scaled by a text's length" if sharing == "packed" else ""
    assert settings["sharing"] == "none: one by one" + not_packed
    # 200, 130, 101 and 80 tokens that begin alike, the longest first, so that what is kept of it would show
    text = tuple(np.random.default_rng(1).integers(0, 97, 240).tolist())
    pairs = [(text[:60] + text[100:200], text[200:240]), (text[:60] + text[90:120], text[:40]), (text[:81], text[:20])]
    pairs.append((text[:60], text[:20]))
    for (context, target), found in zip(pairs, engine.score(pairs), strict=True):
        # a model that has seen no other text
        assert found == pytest.approx(plain_logprobs(random_model(kind), context, target), rel=1e-5, abs=1e-5)
    written = list(engine.generate(text[:90], most=20, stop=frozenset()))
    logits = random_model(kind)(torch.tensor([text[:90] + tuple(token for token, _ in written[:-1])])).logits
    assert written[-1][0] == int(logits[0, -1].argmax())


def test_attention_that_gives_other_values_is_found_out(monkeypatch: pytest.MonkeyPatch):
    def causal(pack: Pack, _window: int = 0):
        return torch.ones((pack.length, pack.length), dtype=torch.bool).tril()[None, None]

    monkeypatch.setattr(packed, "dense_mask", causal)
    with pytest.raises(UnsupportedAttention, match="tree attention gives other values"):
        open_packed(TorchEngine(random_model("llama"), PROBE))


def test_the_model_is_left_as_it_was():
    model, pairs = random_model("gemma2"), study(1)
    before = plain_logprobs(model, *pairs[0])
    engine = TorchEngine(model, PROBE)
    attention = model.config._attn_implementation
    written = list(engine.generate(pairs[0][0], most=5, stop=frozenset()))
    pack_if_possible(engine)
    engine.score(pairs)
    assert model.config._attn_implementation == attention
    assert np.array_equal(plain_logprobs(model, *pairs[0]), before)
    assert list(engine.generate(pairs[0][0], most=5, stop=frozenset())) == written


def test_a_card_short_of_memory_is_told_as_such(monkeypatch: pytest.MonkeyPatch):
    engine = TorchEngine(random_model("llama"), PROBE)
    pack_if_possible(engine)

    def runs_out(pack: Pack):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(engine.packed, "logprobs", runs_out)
    with pytest.raises(PrerequisiteError, match="the GPU's memory is too small for this model, whose weights take"):
        engine.score(study(1))


@pytest.mark.parametrize("kind", ["llama", "gemma2", "mistral"])
def test_the_path_of_a_card_gives_the_scores_of_each_pair_alone_before_it_is_compiled(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path
):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    model, pairs = random_model(kind), study()
    windows = {"llama": [0], "mistral": [24]}.get(kind, [24, 0])
    scorer = PackedScorer(TorchEngine(model, PROBE), windows, compiled=True)
    assert scorer.settings["attention"] == "tree, block-sparse"
    with warnings.catch_warnings():
        # torch says that its attention is slow where it is not compiled
        warnings.simplefilter("ignore")
        found = scorer.score(pairs)
    for (context, target), values in zip(pairs, found, strict=True):
        assert values == pytest.approx(plain_logprobs(model, context, target), rel=1e-4, abs=1e-4)
    # its layers are the model's own again
    assert not any("forward" in vars(layer) for layer in model.model.layers)


@needs_card
@pytest.mark.parametrize("kind", PACKED)
def test_on_a_card_block_sparse_attention_gives_the_scores_of_each_pair_alone(kind: str):
    model, pairs = random_model(kind).cuda(), study()
    scorer = open_packed(TorchEngine(model, PROBE))
    for (context, target), found in zip(pairs, scorer.score(pairs), strict=True):
        assert found.sum(dtype=np.float64) == pytest.approx(plain_logprobs(model, context, target).sum(), rel=1e-4)
