"""Models of Hugging Face are named as base, adapter and options, and can be named but not loaded without torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from goldless.errors import CapabilityError, ModelSpecError, PrerequisiteError
from goldless.models.local_weights import HfModel
from goldless.models.local_weights.specification import HfSpecification


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
    assert HfSpecification.parse(text) == expected
    assert str(expected) == text


def test_a_folder_that_exists_as_written_is_taken_as_it_is(here: Path):
    for name in ("a+b", "c?weights=4bit", "d+tuned"):
        (here / name).mkdir()
        assert HfSpecification.parse(name) == HfSpecification(name)
    assert HfSpecification.parse("a+b?weights=4bit") == HfSpecification("a+b", weights="4bit")


def test_plus_signs_in_the_folders_are_told_from_the_one_between_them(here: Path):
    (here / "a+b").mkdir()
    adapter(here / "c++")
    assert HfSpecification.parse("a+b+c++") == HfSpecification("a+b", "c++")
    assert HfSpecification.parse("owner/model+c++") == HfSpecification("owner/model", "c++")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("owner/model+nowhere", r"then a folder with adapter_config\.json; got the base 'owner/model' and .*'nowhere'"),
        ("owner/model+base", r"got the base 'owner/model' and the adapter 'base'"),
        ("owner/model+", "and the adapter ''"),
        ("no/such/base+tuned", "got the base 'no/such/base'"),
        ("owner/model?weights=4bits", r"weights=4bit\|8bit.*got 'weights=4bits'"),
        ("owner/model?weights=", "got 'weights='"),
        ("owner/model?sharing=fast", r"sharing=auto\|packed\|cached.*got 'sharing=fast'"),
        ("owner/model?device=cuda:x", "got 'device=cuda:x'"),
        ("owner/model?device=gpu:0", r"device=cpu\|cuda.*got 'device=gpu:0'"),
        ("owner/model?device=cpu&device=cuda", "each once .*got 'device=cuda'"),
        ("owner/model?4bit", "got '4bit'"),
        ("what?", "got ''"),
        ("owner/model+~nosuchuser_/x", "the adapter '~nosuchuser_/x'"),
        ("owner/model+" + "x" * 300, "the adapter 'xxx"),
        ("owner/model?bits=4", "got 'bits=4'. Leave an option out for its default"),
        ("?weights=4bit", "the model is missing"),
    ],
)
def test_what_cannot_be_read_says_what_is_wrong(here, text, message):
    with pytest.raises(ModelSpecError, match=message):
        HfSpecification.parse(text)


def test_an_adapter_whose_training_was_interrupted_is_said_to_be_unfinished(here: Path):
    (here / "half").mkdir()
    (here / "half" / "plan.json").touch()
    with pytest.raises(
        ModelSpecError, match=r"the training in half is not finished. Run the same goldless finetune"
    ) as caught:
        HfSpecification.parse("base+half")
    assert "Write hf:BASE" not in str(caught.value)


# --- what is missing ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("missing", ["torch", "transformers"])
async def test_without_the_extra_the_message_gives_the_command(missing: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[transformers\]'"):
        await HfModel("owner/model").prepare()


@pytest.mark.transformers
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("package", "old", "needed"), [("torch", "2.4.1+cpu", "2.5"), ("transformers", "4.56.0", "4.57")]
)
async def test_a_release_that_is_too_old_is_named(package: str, old: str, needed: str, monkeypatch: pytest.MonkeyPatch):
    module = pytest.importorskip(package, reason="needs the transformers extra")
    monkeypatch.setattr(module, "__version__", old)
    with pytest.raises(PrerequisiteError, match=rf"need {package} {needed} or newer, got {re.escape(old)}"):
        await HfModel("owner/model").prepare()


def test_nothing_is_known_before_the_model_is_loaded():
    with pytest.raises(CapabilityError, match=r"prepare\(\)"):
        _ = HfModel("owner/model").identity
