"""The engine against a plain float64 forward pass, on tiny files of both architectures."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from gguf import GGMLQuantizationType as Q

from goldless.errors import CapabilityError, UserError
from goldless.models.gguf import GgufFile, GraphBuilder, build_model, log_sum_exp
from tests.models.gguf.tiny_models import _shapes, write_tiny

pytestmark = pytest.mark.slow

SHAPES = {"llama": {}, "qwen2": {"base": 1_000_000.0, "shared": 1}}


def expected_logprobs(model, context, target):
    """What a plain forward pass over the joined ids gives at the target's positions."""
    table = model.logprobs(context + target)
    return [table[len(context) - 1 + i, token] for i, token in enumerate(target)]


def some_requests(seed=0):
    """Five contexts with a common beginning, three targets each; two contexts are equal."""
    random = np.random.default_rng(seed)

    def ids(count):
        return tuple(int(i) for i in random.integers(0, 256, count))

    root, targets = ids(40), [ids(30), ids(7), ids(1)]
    middles = [ids(35), ids(12), ids(60)]
    contexts = [root + middle for middle in middles] + [root, root + middles[0]]
    return [(context, target) for context in contexts for target in targets]


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path / "home"))

    def load(arch, **changes):
        path = tmp_path / f"{arch}.gguf"
        model = write_tiny(path, arch, **{**SHAPES[arch], **changes})
        return model, build_model(path).engine

    return load


@pytest.mark.parametrize("arch", SHAPES)
def test_the_tree_gives_the_log_probabilities_of_a_plain_forward_pass(loaded, arch):
    model, engine = loaded(arch)
    requests = some_requests()
    for (context, target), found in zip(requests, engine.score(requests), strict=True):
        assert found == pytest.approx(expected_logprobs(model, context, target), abs=2e-4)


@pytest.mark.parametrize("quantisation", [Q.Q4_0, Q.Q4_1, Q.Q8_0, Q.F16])
def test_the_engine_computes_what_the_file_holds(loaded, quantisation):
    model, engine = loaded("llama", quantisation=quantisation)
    requests = some_requests()[:4]
    for (context, target), found in zip(requests, engine.score(requests), strict=True):
        assert found == pytest.approx(expected_logprobs(model, context, target), abs=2e-4)


@pytest.mark.parametrize("vocabulary", [49_152, 50_001])
@pytest.mark.parametrize("likeliest", [0, 30_000])
def test_what_is_small_beside_the_likeliest_token_is_not_lost_from_the_sum(tmp_path, vocabulary, likeliest):
    """Exp(-17) is less than half of what float32 can add to 1, but 50,000 of them are .002."""
    logits = np.full((2, vocabulary), -17, np.float32)
    logits[:, likeliest] = 0
    g = GraphBuilder(tmp_path / "sum.onnx")
    log_sum_exp(g, "logits", vocabulary, name="sum")
    g.save(integers={}, floats={"logits": ["n", vocabulary]}, outputs={"sum": ["n", 1]})
    session = onnxruntime.InferenceSession(tmp_path / "sum.onnx", providers=["CPUExecutionProvider"])
    expected = np.log1p((vocabulary - 1) * np.exp(-17.0))
    assert session.run(None, {"logits": logits})[0] == pytest.approx(np.full((2, 1), expected), abs=1e-5)


def test_greedy_generation_takes_the_likeliest_token_each_time(loaded):
    model, engine = loaded("qwen2")
    context = some_requests()[0][0]
    written = list(engine.generate(context, most=6, stop=frozenset()))
    so_far = context
    for token, logprob in written:
        row = model.logprobs(so_far)[-1]
        assert token == int(np.argmax(row))
        assert logprob == pytest.approx(row[token], abs=2e-4)
        so_far += (token,)
    assert len(written) == 6


def test_another_architecture_is_refused_by_name_with_what_to_use(tmp_path):
    path = tmp_path / "other.gguf"
    write_tiny(path, "gemma3")
    with pytest.raises(CapabilityError, match=r"'gemma3'.*llama, qwen2.*\n?.*hf:NAME_OR_PATH"):
        GgufFile(path)


def test_a_tensor_that_the_graph_does_not_use_is_refused_and_never_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tests.models.gguf.tiny_models._shapes",
        lambda model: {**_shapes(model), "blk.1.attn_q_norm.weight": (model.size,)},
    )
    write_tiny(tmp_path / "normed.gguf", "llama")
    with pytest.raises(CapabilityError, match=r"a tensor blk\.1\.attn_q_norm\.weight"):
        GgufFile(tmp_path / "normed.gguf")


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_a_file_that_is_no_gguf_is_a_user_error(tmp_path, content):
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match="GGUF"):
        GgufFile(path)
