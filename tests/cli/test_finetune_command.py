"""``goldless finetune`` from the command line: a study in, an adapter and a table out, and clear refusals."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "embedded", "--raw"), "embedded: only weights on this machine can be trained"),
        (("--base", "hf:x", "--raw", "--held-out", "1.5"), "between 0 and 1"),
        (("--base", "hf:x", "--raw", "--epochs", "0"), "epochs: a whole number from 1 on"),
        (("--base", "hf:x"), "carries no rewrites"),
        (("--base", "hf:x", "--raw", "--agents", "ann,bob,zoe"), "'zoe'"),
        (("--base", "hf:x", "--raw", "--synopsis", "assw"), "no task has a synopsis 'assw'"),
        (("--base", "hf:x?weights=3bit", "--raw"), "weights cannot be kept as '3bit'"),
        (("--base", "hf:owner/model+nowhere", "--raw"), "nowhere holds no adapter_config.json"),
    ],
)
def test_what_cannot_be_trained_ends_in_one_message_and_exit_code_2(goldless, study_file, tmp_path, options, message):
    ended = goldless("finetune", study_file(), "--out", tmp_path / "out", *options)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()


def test_one_task_is_too_few(goldless, study_file, tmp_path):
    study = study_file({"t": {"ann": "x", "bob": "y", "cy": "z"}})
    ended = goldless("finetune", study, "--out", tmp_path / "out", "--base", "hf:x", "--raw")
    assert ended.code == 2
    assert "at least 2 are needed" in ended.err


@pytest.mark.transformers
def test_a_study_becomes_an_adapter_and_a_table(goldless, study_file, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="needs the transformers extra")
    transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
    for package in ("peft", "trl"):
        pytest.importorskip(package, reason="needs the finetune extra: pip install 'goldless[finetune]'")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=256, **size, bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / "base")
    command = ("finetune", study_file(), "--base", f"hf:{tmp_path / 'base'}", "--out", tmp_path / "out", "--raw")
    ended = goldless(*command, "--epochs", 1, "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result == json.loads((tmp_path / "out" / "finetune.json").read_text(encoding="utf-8"))
    # three tasks of three agents: one held out, 9 examples from each of the others
    assert (result["counts"]["examples"], len(result["held_out_tasks"])) == (18, 1)
    assert "no task has a synopsis 'abstract'" in ended.err
    assert f"--scorer hf:{tmp_path / 'base'}+{tmp_path / 'out'}" in ended.err
    table = goldless(*command, "--epochs", 1)
    assert "Held out: nats per token" in table.out
    assert "conditional" in table.out
    assert "the training is finished there" in table.err
    other = goldless(*command, "--epochs", 2)
    assert other.code == 2
    assert "another plan; other are: recipe epochs" in other.err
