"""``goldless finetune`` from the command line: a study in, an adapter and a table out, and clear refusals."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def packages(monkeypatch):
    """What a training needs, and no request to the hub."""
    pytest.importorskip("torch", reason="needs the transformers extra")
    pytest.importorskip("transformers", reason="needs the transformers extra")
    for package in ("peft", "trl"):
        pytest.importorskip(package, reason="needs the finetune extra: pip install 'goldless[finetune]'")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.transformers
@pytest.mark.usefixtures("packages")
def test_a_study_becomes_an_adapter_and_a_table(goldless, study_file, tmp_path):
    from tests.support.tiny_base import save_reader  # noqa: PLC0415 - it imports torch

    base = save_reader(tmp_path / "base")
    command = ("finetune", study_file(), "--base", f"hf:{base}", "--out", tmp_path / "out", "--raw")
    ended = goldless(*command, "--epochs", 1, "--format", "json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result == json.loads((tmp_path / "out" / "finetune.json").read_text(encoding="utf-8"))
    # three tasks of three agents: one held out, 9 examples from each of the others
    assert (result["counts"]["examples"], len(result["held_out_tasks"])) == (18, 1)
    assert (
        "no task has a synopsis 'abstract', so the adapter is trained without one, for gem-raw but not for gem-s"
        in ended.err
    )
    assert f"--scorer hf:{tmp_path / 'base'}+{tmp_path / 'out'}" in ended.err
    assert result["canaries"]["adapter"]["copied_nats"] > result["canaries"]["adapter"]["shuffled_nats"]
    table = goldless(*command, "--epochs", 1)
    assert "With the adapter, sums differ between batches of this engine by up to " in table.out
    assert "Held out: nats per token" in table.out
    assert "conditional" in table.out
    assert "95% interval" in table.out
    assert "the training is already finished" in table.err
    other = goldless(*command, "--epochs", 2)
    assert other.code == 2
    assert "another plan: recipe epochs was 1, now 2." in other.err


@pytest.mark.transformers
@pytest.mark.usefixtures("packages")
def test_a_base_that_canaries_refuse_is_trained_only_where_that_is_asked_for(goldless, study_file, tmp_path):
    from tests.support.tiny_base import save_reader  # noqa: PLC0415 - it imports torch

    base = save_reader(tmp_path / "base", deaf=True)
    command = ("finetune", study_file(), "--base", f"hf:{base}", "--out", tmp_path / "out", "--raw", "--epochs", 1)
    refused = goldless(*command)
    assert refused.code != 0
    assert "does not read its context" in refused.err
    assert "use --untested-base" in refused.err
    assert "server" not in refused.err
    assert not (tmp_path / "out").exists()
    ended = goldless(*command, "--untested-base", "--learning-rate", 1e-9)
    assert ended.code == 0, ended.err
    assert "The base was not tested with canaries." in ended.out
    assert "goldless score will refuse this adapter" in ended.err
    assert "score with it" not in ended.err
