"""What stands behind hf: is read as base, adapter and options, and paths with a plus sign still work."""

from __future__ import annotations

from pathlib import Path

import pytest

from goldless.errors import ModelSpecError
from goldless.models.local_weights.specification import HfSpecification, parse_specification


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a base and an adapter in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").touch()
    adapter(tmp_path / "tuned" / "adapter")
    return tmp_path


def adapter(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").touch()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/model", HfSpecification("owner/model")),
        ("owner/model?weights=4bit", HfSpecification("owner/model", weights="4bit")),
        ("owner/model+tuned", HfSpecification("owner/model", "tuned")),
        ("owner/model+tuned/adapter?weights=8bit", HfSpecification("owner/model", "tuned/adapter", "8bit")),
        ("base+tuned?weights=nf4", HfSpecification("base", "tuned", "nf4")),
        (
            "owner/model?weights=8bit&dtype=bfloat16&device=cuda:1&sharing=cached",
            HfSpecification("owner/model", None, "8bit", "bfloat16", "cuda:1", "cached"),
        ),
        ("owner/model+tuned?device=cpu", HfSpecification("owner/model", "tuned", device="cpu")),
        ("./no/such/folder", HfSpecification("./no/such/folder")),
    ],
)
def test_base_adapter_and_weights_are_told_apart_and_written_back_the_same(here, text, expected):
    assert parse_specification(text) == expected
    assert str(expected) == text


def test_a_folder_that_exists_as_written_is_taken_as_it_is(here: Path):
    for name in ("a+b", "c?weights=4bit", "d+tuned"):
        (here / name).mkdir()
        assert parse_specification(name) == HfSpecification(name)
    assert parse_specification("a+b?weights=4bit") == HfSpecification("a+b", weights="4bit")


def test_plus_signs_in_the_folders_are_told_from_the_one_between_them(here: Path):
    (here / "a+b").mkdir()
    adapter(here / "c++")
    assert parse_specification("a+b+c++") == HfSpecification("a+b", "c++")
    assert parse_specification("owner/model+c++") == HfSpecification("owner/model", "c++")


def test_what_can_be_read_in_two_ways_is_refused(here: Path):
    adapter(here / "y+z")
    adapter(here / "z")
    (here / "x+y").mkdir()
    with pytest.raises(ModelSpecError, match=r"is ambiguous: x with y\+z; x\+y with z"):
        parse_specification("x+y+z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("owner/model+nowhere", r"no such folder: nowhere\. Write hf:BASE\+ADAPTER"),
        ("owner/model+base", r"base has no adapter_config\.json, so it is not an adapter\. Write hf:BASE\+ADAPTER"),
        ("what?", r"no such folder, and a name on the hub has no question mark\. Options follow it"),
        ("what?gpu", "a name on the hub has no question mark"),
        ("owner/model+", "no adapter after the"),
        ("no/such/base+tuned", "'no/such/base' is not a folder and not a name on the hub"),
        ("owner/model?weights=4bits", "Did you mean '4bit'"),
        ("owner/model?weights=", "weights cannot be ''"),
        ("owner/model?sharing=fast", "sharing cannot be 'fast'.*packed, cached"),
        ("owner/model?device=cuda:x", "device cannot be 'cuda:x'"),
        ("owner/model?device=gpu", "device cannot be 'gpu'. Did you mean 'cuda'"),
        ("owner/model?device=gpu:0", "device cannot be 'gpu:0'. Did you mean 'cuda'"),
        ("owner/model?device=cpu&device=cuda", "device is given twice"),
        ("owner/model?weights=4bit?device=cpu", "join options with &"),
        ("owner/model?4bit", r"write \?weights=4bit"),
        ("owner/model?device=cpu&cached", r"write \?sharing=cached"),
        ("~nosuchuser_/x", "there is no user 'nosuchuser_' on this machine"),
        ("owner/model+~nosuchuser_/x", "no such folder: ~nosuchuser_/x"),
        ("~nosuchuser_/x+tuned", "is not a folder and not a name on the hub"),
        ("x" * 300, "x{60}…: not a folder and not a name on the hub"),
        ("owner/model+" + "x" * 300, "no such folder: xxx"),
        ("a\0b", "not a folder and not a name on the hub"),
        ("owner/model?bits=4", "unknown option 'bits'"),
        ("?weights=4bit", "the model is missing"),
    ],
)
def test_what_cannot_be_read_says_what_is_wrong(here, text, message):
    with pytest.raises(ModelSpecError, match=message):
        parse_specification(text)


def test_an_adapter_whose_training_was_interrupted_is_said_to_be_unfinished(here: Path):
    (here / "half").mkdir()
    (here / "half" / "plan.json").touch()
    with pytest.raises(
        ModelSpecError, match=r"the training in half is not finished. Run the same goldless finetune"
    ) as caught:
        parse_specification("base+half")
    assert "Write hf:BASE" not in str(caught.value)


def test_a_folder_with_a_question_mark_is_taken_as_it_is(here: Path):
    (here / "what?").mkdir()
    assert parse_specification("what?") == HfSpecification("what?")
    assert parse_specification("what??device=cpu") == HfSpecification("what?", device="cpu")
