"""The engine for GGUF files gives the log-probabilities that transformers gives in float32 on the same file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goldless.models.cache import models_folder
from goldless.models.gguf import GgufModel
from goldless.models.interface import Message

pytestmark = [
    pytest.mark.transformers,
    pytest.mark.embedded,
    pytest.mark.anyio,
    pytest.mark.usefixtures("one_thread"),
]

TOLERANCE_NATS = 5e-4
"""Of sums up to 200 nats: both compute in float32, each in an order of its own. Differences were below 2e-4."""
TEXTS = (
    "The paper proposes a sampler; experiments on 3 datasets (2,048 samples) show gains.\n\nIt's well-written.",
    "Brot wird im Kühlschrank schneller altbacken — weil Stärke rekristallisiert. 12345  67",
    "def f(x):\n    return x**2  # 日本語のテキスト and émojis 🎉 <|im_end|> done.",
)


@pytest.fixture
def gguf_file() -> Path:
    """A GGUF file on this machine: the one GOLDLESS_GGUF names, or the embedded model where it was downloaded."""
    named = os.environ.get("GOLDLESS_GGUF")
    found = [Path(named)] if named else sorted(models_folder().glob("*.gguf"))
    if not found or not found[0].is_file():
        pytest.skip("no GGUF file here: set GOLDLESS_GGUF, or download the embedded model")
    return found[0]


async def test_sums_equal_those_of_transformers_on_the_same_file(gguf_file: Path):
    torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with accelerate only")
    # the weights as float32 in both, so that the kernels alone are compared
    model = GgufModel(gguf_file)
    await model.prepare()
    shared = "You review things. A text that all requests begin with, long enough to be computed once for all. " * 2
    requests = [
        await model.encode([Message("system", shared), Message("user", first)], second)
        for first in TEXTS[:2]
        for second in TEXTS
    ]
    replies: dict = {}
    await model.score(requests, replies.update)
    await model.aclose()

    folder, name = gguf_file.parent, gguf_file.name
    # token ids are given: transformers does not follow the word splitting a GGUF file names
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    for i, request in enumerate(requests):
        with torch.inference_mode():
            logits = plain(torch.tensor([request.context + request.target])).logits[0].double()
        rows = logits.log_softmax(-1)[len(request.context) - 1 : -1]
        expected = rows.gather(1, torch.tensor(request.target)[:, None]).sum().item()
        assert replies[i].total == pytest.approx(expected, abs=TOLERANCE_NATS)
