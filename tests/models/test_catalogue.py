"""What a user writes names a model, or the message lists what can be written."""

from __future__ import annotations

import pytest

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.catalogue import forms, open_model
from goldless.models.gguf.model import GgufModel
from goldless.models.http_api import HttpModel
from goldless.models.interface import ChatModel, Scorer
from goldless.models.scripted import ScriptedModel


def test_each_form_opens_its_kind_of_model_without_loading_anything(monkeypatch, script_file):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    script = script_file([{"prompt": "a", "answer": "b"}])
    assert isinstance(open_model("embedded"), GgufModel)
    assert isinstance(open_model("gguf:/nowhere.gguf"), GgufModel)
    assert isinstance(open_model("http://127.0.0.1:9/v1#m"), HttpModel)
    assert isinstance(open_model("openai:gpt-4o"), HttpModel)
    assert isinstance(open_model(f"scripted:{script}"), ScriptedModel)


@pytest.mark.parametrize("spec", ["embedded", "gguf:x", "hf:x", "http://127.0.0.1:9/v1#m"])
def test_every_model_is_a_scorer_and_a_chat_model(spec):
    # a property that is known only after prepare() must not be looked at here
    names = [*vars(Scorer), *vars(ChatModel)]
    kind = type(open_model(spec))
    assert all(hasattr(kind, name) for name in names if not name.startswith("_"))


@pytest.mark.parametrize(
    "spec", ["", "gpt-4o", "embeded", "ollama:llama3", "hf:", "gguf:", "embedded:", ":x", "ftp://x"]
)
def test_an_unknown_form_is_an_error_that_lists_every_known_one(spec):
    with pytest.raises(ModelSpecError) as caught:
        open_model(spec)
    assert f"unknown model {spec!r}" in str(caught.value)
    for form in forms():
        assert form.form in str(caught.value)


def test_a_near_miss_is_suggested():
    with pytest.raises(ModelSpecError, match="Did you mean 'embedded'"):
        open_model("embeded")


@pytest.mark.parametrize("spec", ["hf:", "hf", "gguf:", "scripted:"])
def test_a_form_without_a_name_behind_it_is_said_to_lack_one(spec):
    with pytest.raises(ModelSpecError, match=f"a name or path is missing after {spec.rstrip(':')}:") as caught:
        open_model(spec)
    assert "Did you mean" not in str(caught.value)


def test_a_model_that_needs_a_key_says_which_variable_to_set():
    with pytest.raises(PrerequisiteError, match="export OPENAI_API_KEY"):
        open_model("openai:gpt-4o")
