"""Weights kept in few bits give other numbers under another name, and say what they need where they cannot run."""

from __future__ import annotations

from importlib.util import find_spec as really_find
from pathlib import Path

import numpy as np
import pytest

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.catalogue import open_model
from goldless.models.interface import Message

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")

from goldless.models.local_weights import checkpoint as module  # noqa: E402
from goldless.models.local_weights.checkpoint import quantisation  # noqa: E402
from tests.models.test_local_weights import scored  # noqa: E402
from tests.support.byte_tokenizer import byte_tokenizer  # noqa: E402
from tests.support.tiny_base import WIDE  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.anyio, pytest.mark.usefixtures("one_thread")]

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Says which of the two packages are there."""

    def set_to(*packages: str) -> None:
        monkeypatch.setattr(module, "find_spec", lambda name: object() if name in packages else None)

    return set_to


@pytest.mark.parametrize(
    ("weights", "device", "packages", "message"),
    [
        ("4bit", CUDA, (), "needs bitsandbytes or torchao and a CUDA device, and .* Run: pip install bitsandbytes"),
        ("4bit", CPU, ("torchao",), "needs bitsandbytes or .* Run: pip install bitsandbytes"),
        ("8bit", CPU, ("bitsandbytes",), "pip install torchao"),
        ("int4", CPU, ("torchao",), "needs torchao and a CUDA device, and the model is on cpu"),
    ],
)
def test_what_is_missing_is_named_with_the_command(installed, weights, device, packages, message):
    installed(*packages)
    with pytest.raises(PrerequisiteError, match=message):
        quantisation(weights, transformers.LlamaConfig(), device, "float32")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model wide enough for blocks of weights."""
    folder = tmp_path_factory.mktemp("hf") / "wide"
    config = transformers.LlamaConfig(
        **{**WIDE, "hidden_size": 128, "intermediate_size": 256}, bos_token_id=256, eos_token_id=257
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


async def of_model(spec: str):
    """Identity and log-probabilities of one text."""
    model = open_model(spec)
    await model.prepare()
    request = await model.encode([Message("user", "What of the method?")], "the method is new")
    (reply,) = await scored(model, [request])
    return model.identity, np.array(reply.logprobs)


@pytest.mark.parametrize(
    ("weights", "package", "way", "nats"), [("8bit", "torchao", "int8", 0.1), ("4bit", "bitsandbytes", "nf4", 1.0)]
)
async def test_few_bits_change_scores_a_little_and_the_identity_says_so(base: Path, weights, package, way, nats):
    if really_find(package) is None:
        pytest.skip(f"needs {package}: pip install {package}")
    own, exact = await of_model(f"hf:{base}")
    identity, rounded = await of_model(f"hf:{base}?weights={weights}")
    assert identity.name == f"wide?weights={way}"
    assert identity.short != own.short
    assert package in identity.settings["weights"]
    # random weights of this size: two orders of magnitude below the scores themselves
    assert 1e-6 < np.abs(rounded - exact).max() < nats
    again, same = await of_model(f"hf:{base}?weights={way}")
    assert again == identity
    assert np.array_equal(same, rounded)


async def test_weights_that_were_saved_quantised_are_not_quantised_again(base: Path, tmp_path: Path):
    folder = tmp_path / "before"
    transformers.LlamaConfig(**WIDE, quantization_config={"quant_method": "gptq", "bits": 4}).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    with pytest.raises(CapabilityError, match=r"saved quantised. Leave out \?weights=8bit"):
        await open_model(f"hf:{folder}?weights=8bit").prepare()
