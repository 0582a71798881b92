"""Packed prefix trees score as each pair alone does, in every architecture that can be packed.

Expected values come from a plain forward pass of transformers over each sequence alone, in float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from goldless.errors import PrerequisiteError
from goldless.models.local_engine import Cancelled

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from goldless.models.local_weights import packed_network, packed_scoring  # noqa: E402
from goldless.models.local_weights.engine import TorchEngine, open_engine  # noqa: E402
from goldless.models.local_weights.network import Network  # noqa: E402
from goldless.models.local_weights.packed_network import PackedNetwork, open_packed  # noqa: E402
from goldless.models.local_weights.packed_scoring import PackedScorer  # noqa: E402
from goldless.models.local_weights.packing import Lengths, Pack  # noqa: E402

pytestmark = pytest.mark.transformers
needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SIZE = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {**SIZE, "intermediate_size": 96, "num_key_value_heads": 2, "max_position_embeddings": 4096}
LOCAL = {"head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 16}
"""A window shorter than the shared parts, so that keeping it by index instead of by position would show."""
PACKED = {
    "llama": lambda: transformers.LlamaConfig(**WIDE),
    "qwen2": lambda: transformers.Qwen2Config(**WIDE),
    "qwen2, three heads to a key": lambda: transformers.Qwen2Config(
        **{**WIDE, "hidden_size": 96, "num_attention_heads": 6}
    ),
    "qwen3": lambda: transformers.Qwen3Config(**WIDE, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**WIDE, sliding_window=24),
    "gemma": lambda: transformers.GemmaConfig(**WIDE, head_dim=16),
    "gemma2": lambda: transformers.Gemma2Config(**WIDE, **LOCAL, final_logit_softcapping=3.0),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **WIDE, **LOCAL, layer_types=["sliding_attention", "full_attention"]
    ),
    "phi3": lambda: transformers.Phi3Config(**WIDE, pad_token_id=0),
    "granite": lambda: transformers.GraniteConfig(**WIDE, logits_scaling=0.25),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=4, n_positions=4096),
}
OTHERS = {
    "bloom": lambda: transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=4),
    "mamba": lambda: transformers.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4),
}
PROBE = tuple(range(3, 90, 4))


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def random_model(kind: str):
    config = (PACKED | OTHERS)[kind]()
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        # so wide that every model prefers some tokens, and that neither a window nor a scale can hide in noise
        torch.nn.init.normal_(weight, std=0.2)
    return model.eval()


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


@torch.inference_mode()
def plain(model, context: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
    """Log p of the target's tokens by one whole forward pass."""
    logits = model(torch.tensor([context + target], device=model.device), use_cache=False).logits[0]
    chosen = torch.tensor(target, device=model.device)[:, None]
    return logits.double().log_softmax(-1)[len(context) - 1 : -1].gather(1, chosen)[:, 0].cpu().numpy()


def opened(kind: str = "llama", lengths: Lengths | None = None) -> PackedScorer:
    packed = open_packed(Network(random_model(kind), PROBE))
    assert isinstance(packed, PackedNetwork), packed
    return PackedScorer(packed, lengths)


def scored(scorer: PackedScorer, pairs) -> list[np.ndarray]:
    results = [np.full(len(target), np.nan, np.float32) for _, target in pairs]
    scorer.score(pairs, results)
    return results


@pytest.mark.parametrize("kind", PACKED)
def test_packed_scores_are_those_of_each_pair_alone(kind: str):
    model, pairs = random_model(kind), study()
    scorer = opened(kind)
    for (context, target), found in zip(pairs, scored(scorer, pairs), strict=True):
        expected = plain(model, context, target)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert found.sum(dtype=np.float64) == pytest.approx(expected.sum(), rel=1e-4)
    assert scorer.tally.tokens < 0.7 * sum(len(c) + len(t) - 1 for c, t in pairs)


@pytest.mark.parametrize("lengths", [Lengths(200), Lengths(256, 256), Lengths(4096, 128)])
def test_neither_cuts_nor_padding_change_a_score(lengths: Lengths):
    pairs = study(3)
    expected = scored(opened(), pairs)
    scorer = opened(lengths=lengths)
    for found, whole in zip(scored(scorer, pairs), expected, strict=True):
        assert found == pytest.approx(whole, abs=1e-5)
    assert scorer.tally.places == scorer.tally.tokens or lengths.shortest


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_that_cannot_be_packed_is_computed_the_other_way_and_says_so(kind: str):
    network = Network(random_model(kind), PROBE)
    engine, settings = open_engine(network, "packed")
    assert engine.packed is None
    assert settings["sharing"].startswith(
        network.settings["sharing"] + "; not packed: its attention is of another kind"
    )


def test_on_the_processor_trees_are_packed_where_that_is_asked_for():
    network = Network(random_model("llama"), PROBE)
    engine, settings = open_engine(network, "packed")
    assert engine.packed is not None
    assert (settings["sharing"], settings["attention"]) == ("packed prefix tree", "tree, dense")
    for sharing in ("auto", "cached"):
        engine, settings = open_engine(network, sharing)
        assert engine.packed is None
        assert settings == network.settings


def test_a_layer_that_does_not_name_its_window_is_not_packed():
    model = random_model("llama")
    model.config.sliding_window = 24
    assert open_packed(Network(model, PROBE)) == (
        "its attention is of another kind: not every layer says which window it keeps"
    )


def test_a_model_whose_rotation_depends_on_the_length_of_a_text_is_not_packed():
    config = transformers.LlamaConfig(
        **WIDE, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    )
    network = Network(transformers.AutoModelForCausalLM.from_config(config).eval(), PROBE)
    assert open_packed(network) == "its positions are scaled by a text's length"


def test_attention_that_gives_other_values_is_found_out(monkeypatch: pytest.MonkeyPatch):
    def causal(pack: Pack, _window: int = 0):
        return torch.ones((pack.length, pack.length), dtype=torch.bool).tril()[None, None]

    monkeypatch.setattr(packed_network, "dense_mask", causal)
    assert open_packed(Network(random_model("llama"), PROBE)) == "tree attention gives other values"


def test_the_head_reads_scored_positions_alone_and_few_at_once(monkeypatch: pytest.MonkeyPatch):
    scorer, pairs, sizes = opened(), study(), []
    network = scorer.network.network
    logits = network._logits
    monkeypatch.setattr(packed_network, "HEAD_ELEMENTS", 5 * 97 + 1)
    monkeypatch.setattr(network, "_logits", lambda states: (sizes.append(len(states)), logits(states))[1])
    scored(scorer, pairs)
    assert max(sizes) == 5
    assert sum(sizes) == sum(len(target) for _, target in pairs)


def test_the_model_is_left_as_it_was():
    model, pairs = random_model("gemma2"), study(1)
    before = plain(model, *pairs[0])
    network = Network(model, PROBE)
    attention = model.config._attn_implementation
    engine, _ = open_engine(network, "packed")
    written = list(TorchEngine(network).generate(pairs[0][0], most=5, stop=frozenset()))
    engine.score(pairs)
    assert model.config._attn_implementation == attention
    assert np.array_equal(plain(model, *pairs[0]), before)
    assert list(engine.generate(pairs[0][0], most=5, stop=frozenset())) == written


def test_a_cancelled_call_stops_between_sequences():
    scorer, pairs, asked = opened(lengths=Lengths(200)), study(), []
    results = [np.zeros(len(target), np.float32) for _, target in pairs]
    with pytest.raises(Cancelled):
        scorer.score(pairs, results, lambda: asked.append(1) or len(asked) > 2)
    assert scorer.tally.packs == 2


class Narrow:
    """A network that is out of memory beyond a length."""

    def __init__(self, network: PackedNetwork, room: int) -> None:
        self.network, self.token_bytes = network.network, 1000
        self._packed, self._room = network, room

    def logprobs(self, pack: Pack):
        if pack.length > self._room:
            raise torch.OutOfMemoryError
        return self._packed.logprobs(pack)

    def needed_bytes(self, length: int) -> int:
        return 1_000_000 * length


def test_where_memory_does_not_suffice_sequences_are_halved_and_nothing_is_lost():
    pairs = study(6)
    expected = scored(opened(), pairs)
    scorer = PackedScorer(Narrow(opened().network, 300), Lengths(1024, 128))
    for found, whole in zip(scored(scorer, pairs), expected, strict=True):
        assert found == pytest.approx(whole, abs=1e-5)
    assert scorer.tally.halvings == 2
    assert scorer.lengths.longest == 256


def test_too_little_memory_for_one_text_says_how_much_is_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packed_scoring, "free_memory", lambda device: 2_500_000_000)
    scorer = PackedScorer(Narrow(opened().network, 100), Lengths(1024, 128))
    pairs = [((1,) * 290, (2,) * 11)]
    with pytest.raises(PrerequisiteError, match=r"a text of 300 tokens with its context needs about 0\.5 GB") as error:
        scored(scorer, pairs)
    assert "2.5 GB are free" in str(error.value)
    assert "device='cpu'" in str(error.value)


def test_the_length_of_sequences_is_planned_from_the_free_memory(monkeypatch: pytest.MonkeyPatch):
    packed = opened().network
    assert packed.lengths() == Lengths(1024)
    packed._card = True
    packed.token_bytes = 100_000
    # 90 % of the free memory, less the logits: 2048 rows of 97 in 6 bytes, 1.2 MB
    for free, longest in ((8e9, 65_536), (7.2e9, 32_768), (1e9, 8192), (1e8, 1024)):
        monkeypatch.setattr(packed_network, "free_memory", lambda device, free=free: int(free))
        assert packed.lengths() == Lengths(longest, 1024)


@needs_card
@pytest.mark.parametrize("kind", PACKED)
def test_on_a_card_block_sparse_attention_gives_the_scores_of_each_pair_alone(kind: str):
    model, pairs = random_model(kind).cuda(), study()
    packed = open_packed(Network(model, PROBE))
    assert isinstance(packed, PackedNetwork), packed
    for (context, target), found in zip(pairs, scored(PackedScorer(packed), pairs), strict=True):
        assert found.sum(dtype=np.float64) == pytest.approx(plain(model, context, target).sum(), rel=1e-4)
