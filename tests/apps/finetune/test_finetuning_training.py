"""A training sees the loss of the scored positions alone, goes on where it was killed, and sends nothing anywhere.

Expected losses come from a plain forward pass of transformers over each sequence alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from goldless.apps.finetune.material import Example, TaskTexts, build_examples
from goldless.apps.finetune.options import Recipe
from goldless.models.local_weights import HfModel
from goldless.models.local_weights.specification import HfSpecification
from goldless.scoring import ScoringStage
from goldless.templates import find_template

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
for package in ("peft", "trl"):
    pytest.importorskip(package, reason="needs the finetune extra: pip install 'goldless[finetune]'")

from goldless.apps.finetune.training import train_adapter  # noqa: E402
from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: E402
from tests.support.tiny_base import AGENTS, toy_rows, toy_task  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.usefixtures("one_thread")]

RECIPE = Recipe(epochs=2, learning_rate=5e-3)


@pytest.fixture
def examples(base: Path, template_file: Path) -> list[Example]:
    """The examples of four toy tasks."""
    texts: dict[str, dict[str, str]] = {}
    for row in toy_rows(4):
        texts.setdefault(row["task"], {})[row["agent"]] = row["text"]
    tasks = [TaskTexts(toy_task(name), of) for name, of in texts.items()]
    assert all(tuple(each.texts) == AGENTS for each in tasks)

    async def build():
        model = HfModel(str(base), device="cpu")
        await model.prepare()
        stages = [ScoringStage(model, find_template(str(template_file)), None, None)]
        return await build_examples(tasks, stages, max_length=4096)

    return list(anyio.run(build).examples)


def train(base: Path, examples: list[Example], folder: Path, recipe: Recipe = RECIPE, **options):
    checkpoint = load_checkpoint(HfSpecification(str(base), device="cpu"))
    record = {
        "base": {"name": "tiny", "revision": checkpoint.identity.revision, "tokenizer": checkpoint.identity.tokenizer}
    }
    return train_adapter(
        checkpoint,
        examples,
        recipe,
        folder,
        **{"optimizer": "adamw_torch", "record": record, **options},
    )


def test_the_first_loss_is_that_of_the_scored_positions_and_no_others(base: Path, examples: list[Example], tmp_path):
    # one batch of all examples, so that the first step's loss is of all of them, before anything was learnt
    training = train(base, examples, tmp_path, Recipe(batch_size=len(examples), accumulation=1, epochs=1))
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    nats, tokens = 0.0, 0
    for example in examples:
        ids = torch.tensor([example.ids.tolist()])
        with torch.no_grad():
            logprobs = torch.log_softmax(plain(ids).logits[0].double(), -1)
        first = len(example.ids) - example.target_tokens
        nats += sum(float(logprobs[at - 1, ids[0, at]]) for at in range(first, len(example.ids)))
        tokens += example.target_tokens
    assert training.losses == ((1, pytest.approx(-nats / tokens, rel=1e-5)),)


def test_the_adapter_is_lora_on_every_linear_layer_and_names_no_place_of_this_machine(
    base: Path, examples: list[Example], tmp_path
):
    train(base, examples[:2], tmp_path, Recipe(epochs=1))
    text = (tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8")
    config = json.loads(text)
    assert (config["peft_type"], config["r"], config["lora_alpha"], config["lora_dropout"]) == ("LORA", 16, 16, 0.0)
    layers = {name.rsplit(".", 1)[-1] for name in config["target_modules"]}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert config["base_model_name_or_path"] == base.name
    assert str(base.parent) not in text
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "goldless_adapter.json",
    }


def test_nothing_is_sent_and_nothing_printed(
    base: Path, examples: list[Example], tmp_path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def sent(*_, **__):
        raise AssertionError("something was sent")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("trl.trainer.base_trainer.send_telemetry", sent)
    monkeypatch.setattr("huggingface_hub.utils._telemetry.send_telemetry", sent)
    monkeypatch.delenv("CI", raising=False)
    train(base, examples[:8], tmp_path, Recipe(epochs=1), save_every=1)
    assert capfd.readouterr() == ("", "")
