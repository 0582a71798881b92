"""A base with an adapter scores as peft computes it, is known by both, and refuses an adapter of another base."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.catalogue import open_model
from goldless.models.interface import Message

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
peft = pytest.importorskip("peft", reason="needs the finetune extra: pip install 'goldless[finetune]'")

from tests.models.test_local_weights import save, scored  # noqa: E402
from tests.support.byte_tokenizer import byte_tokenizer  # noqa: E402
from tests.support.tiny_base import WIDE, plain_logprobs  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.anyio, pytest.mark.usefixtures("one_thread")]


def save_adapter(base: Path, folder: Path, seed: int = 0, **options) -> Path:
    """A random adapter of a base, so large that it shows."""
    torch.manual_seed(seed)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", **options}
    model = peft.get_peft_model(plain, peft.LoraConfig(**config))
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder, save_embedding_layers=False)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("hf")
    base = save(root / "tiny-llama")
    return base, save_adapter(base, root / "tuned")


async def ready(spec: str):
    model = open_model(spec)
    await model.prepare()
    return model


async def requests_of(model):
    texts = ("the method is new", "more data are needed", "3.14")
    messages = [[Message("user", f"about {i}")] for i in range(3)]
    return [await model.encode(said, text) for said, text in zip(messages, texts, strict=True)]


async def test_scores_are_those_of_peft_over_each_sequence_alone(folders):
    base, adapter = folders
    model = await ready(f"hf:{base}+{adapter}")
    requests = await requests_of(model)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    bare = [plain_logprobs(plain, r.context, r.target) for r in requests]
    tuned = peft.PeftModel.from_pretrained(plain, adapter).eval()
    for request, reply, without in zip(requests, await scored(model, requests), bare, strict=True):
        expected = plain_logprobs(tuned, request.context, request.target)
        assert np.abs(np.array(reply.logprobs) - expected).max() < 1e-4
        assert np.abs(expected - without).max() > 0.1


async def test_the_identity_holds_both_hashes_and_not_where_they_lie(folders, tmp_path: Path):
    base, adapter = folders
    identity = (await ready(f"hf:{base}+{adapter}")).identity
    assert identity.name == "tiny-llama+tuned"
    assert identity.settings["base"] == (await ready(f"hf:{base}")).identity.revision
    copy = save_adapter(base, tmp_path / "elsewhere" / "tuned")
    assert (await ready(f"hf:{base}+{copy}")).identity == identity
    other = (await ready(f"hf:{base}+{save_adapter(base, tmp_path / 'tuned', seed=1)}")).identity
    assert other.short != identity.short
    assert other.settings["adapter"] != identity.settings["adapter"]
    scaled = save_adapter(base, tmp_path / "scaled" / "tuned", lora_alpha=16)
    assert (await ready(f"hf:{base}+{scaled}")).identity.short != identity.short


def note_base(adapter: Path, **base: str) -> None:
    """Let an adapter say which base it is of, as those made here do."""
    (adapter / "goldless_adapter.json").write_text(json.dumps({"base": base}), encoding="utf-8")


async def test_an_adapter_made_here_for_another_base_is_refused_by_its_hash(folders, tmp_path: Path):
    base, _ = folders
    adapter = save_adapter(base, tmp_path / "made")
    own = (await ready(f"hf:{base}")).identity
    note_base(adapter, name="tiny-llama", revision=own.revision, tokenizer=own.tokenizer)
    assert (await ready(f"hf:{base}+{adapter}")).identity.name == "tiny-llama+made"
    other = save(tmp_path / "tiny-llama", seed=1)
    with pytest.raises(
        CapabilityError, match=rf"made for the base tiny-llama@{own.revision[:8]}.*different weights\. "
    ):
        await ready(f"hf:{other}+{adapter}")
    same_weights = save(tmp_path / "again" / "tiny-llama", tokenizer=byte_tokenizer("{{ messages[0]['content'] }}"))
    with pytest.raises(CapabilityError, match="different tokenizer"):
        await ready(f"hf:{same_weights}+{adapter}")


async def test_an_adapter_made_elsewhere_is_refused_by_the_name_of_its_base(folders, tmp_path: Path):
    _, adapter = folders
    other = save(tmp_path / "another-llama")
    with pytest.raises(CapabilityError, match=r"but the base here is another-llama@.*different names"):
        await ready(f"hf:{other}+{adapter}")


@pytest.mark.parametrize("change", [{"hidden_size": 32}, {"num_hidden_layers": 1}, {"num_hidden_layers": 3}])
async def test_an_adapter_whose_layers_do_not_fit_is_refused(folders, tmp_path: Path, change):
    _, adapter = folders
    config = transformers.LlamaConfig(**{**WIDE, **change}, bos_token_id=256, eos_token_id=257)
    folder = tmp_path / "tiny-llama"
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    with pytest.raises(CapabilityError, match="cannot put this adapter on this base"):
        await ready(f"hf:{folder}+{adapter}")


async def test_a_broken_adapter_is_refused_with_what_is_wrong(folders, tmp_path: Path):
    base, adapter = folders
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    with pytest.raises(PrerequisiteError, match=r"must be a folder with .* and adapter_model\.safetensors"):
        await ready(f"hf:{base}+{broken}")
    (broken / "adapter_model.safetensors").write_bytes(b"nothing")
    with pytest.raises(CapabilityError, match="cannot put this adapter on this base"):
        await ready(f"hf:{base}+{broken}")
    (broken / "goldless_adapter.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CapabilityError, match="does not name its base"):
        await ready(f"hf:{base}+{broken}")
    for config, message in (
        ("{}", "got None"),
        ('{"peft_type": "LORAX"}', "LORAX"),
        ("[", "peft"),
    ):
        (broken / "adapter_config.json").write_text(config, encoding="utf-8")
        with pytest.raises(CapabilityError, match=message):
            await ready(f"hf:{base}+{broken}")


async def test_what_an_adapter_made_here_says_of_its_training_is_told(folders, tmp_path: Path):
    base, elsewhere = folders
    adapter = save_adapter(base, tmp_path / "made")
    own = (await ready(f"hf:{base}")).identity
    note_base(adapter, revision=own.revision, tokenizer=own.tokenizer)
    record = (await ready(f"hf:{base}+{adapter}")).training_record()
    assert record == {"base": {"revision": own.revision, "tokenizer": own.tokenizer}}
    assert (await ready(f"hf:{base}+{elsewhere}")).training_record() == {}
    assert (await ready(f"hf:{base}")).training_record() == {}
