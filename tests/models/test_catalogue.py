"""What a user writes names a model, or the message lists what can be written."""

from __future__ import annotations

import pytest

from goldless.errors import CapabilityError, ModelSpecError, PrerequisiteError
from goldless.models.catalogue import check_scorer, open_model, specification_of, unopened_identity
from goldless.models.gguf import GgufModel
from goldless.models.http_api import HttpModel
from goldless.models.scripted import ScriptedModel


def test_each_form_opens_its_kind_of_model_without_loading_anything(monkeypatch, script_file):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    script = script_file([{"prompt": "a", "answer": "b"}])
    assert isinstance(open_model("embedded"), GgufModel)
    assert isinstance(open_model("gguf:/nowhere.gguf"), GgufModel)
    assert isinstance(open_model("http://127.0.0.1:9/v1#m"), HttpModel)
    assert isinstance(open_model("openai:gpt-4o"), HttpModel)
    assert isinstance(open_model(f"scripted:{script}"), ScriptedModel)


@pytest.mark.parametrize("spec", ["hf:", "hf", "gguf:", "scripted:"])
def test_a_form_without_a_name_behind_it_is_said_to_lack_one(spec):
    with pytest.raises(ModelSpecError, match=f"a name or path is missing after {spec.rstrip(':')}:") as caught:
        open_model(spec)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("gpt-4o", "'openai:gpt-4o'"),
        ("claude-sonnet-4-5", "'anthropic:claude-sonnet-4-5'"),
        ("gemini-2.5-pro", "'google:gemini-2.5-pro'"),
        ("mistral-large-latest", "'mistral:mistral-large-latest'"),
        ("openai.gpt-oss-20b-1:0", "'bedrock:openai.gpt-oss-20b-1:0'"),
        ("meta-llama/X", "'hf:meta-llama/X', 'together:meta-llama/X' or 'openrouter:meta-llama/X'"),
        ("weights.gguf", "'gguf:weights.gguf'"),
    ],
)
def test_a_name_without_a_prefix_gets_the_providers_that_may_have_it(spec, meant):
    with pytest.raises(ModelSpecError) as caught:
        open_model(spec)
    assert f"Did you mean {meant}?" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-2.5-pro", "GEMINI_API_KEY"),
        ("azure:judge", "AZURE_OPENAI_API_KEY"),
        ("bedrock:openai.gpt-oss-20b-1:0", "AWS_BEARER_TOKEN_BEDROCK"),
        ("mistral:mistral-small-latest", "MISTRAL_API_KEY"),
        ("together:m", "TOGETHER_API_KEY"),
        ("openrouter:m", "OPENROUTER_API_KEY"),
    ],
)
def test_a_model_that_needs_a_key_says_which_variable_to_set(spec, variable, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://toy.openai.azure.com")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(PrerequisiteError, match=variable):
        open_model(spec)


@pytest.mark.parametrize(
    "spec", ["openai:m", "anthropic:m", "google:m", "azure:m", "bedrock:m", "mistral:m", "openrouter:m", "ollama:m"]
)
def test_a_provider_that_cannot_score_is_refused_as_a_scorer_before_a_key_is_asked_for(spec):
    with pytest.raises(CapabilityError, match="cannot be a scorer"):
        open_model(spec, use="scoring")
    with pytest.raises(CapabilityError, match="cannot be a scorer"):
        check_scorer(spec)


def test_how_a_model_is_to_think_is_part_of_who_it_is(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    spec = "openai:o3?effort=low&thinking=2048"
    identity = open_model(spec).identity
    assert (identity.name, identity.settings) == ("o3", {"effort": "low", "thinking": "2048"})
    assert unopened_identity(spec) == identity
    assert specification_of(identity) == spec


@pytest.mark.parametrize("options", ["", "efort=low", "thinking=many", "effort=2", "thinking=-1"])
def test_an_option_that_no_model_has_is_refused_with_those_there_are(options, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with pytest.raises(ModelSpecError, match="must be"):
        open_model(f"openai:o3?{options}")
