"""A package adds a provider with one file: it is listed, and what it says decides, like our own."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from goldless.cli.main import app
from goldless.errors import ModelSpecError, UserError
from goldless.models.catalogue import (
    PROVIDERS,
    find_provider,
    is_local,
    is_small,
    open_model,
    specification_of,
    unopened_identity,
)
from goldless.models.interface import ModelIdentity
from goldless.models.usage import Price, price_of

TOY = """
from goldless.models.interface import ModelIdentity
from goldless.models.provider import Form, Provider
from goldless.models.scripted import ScriptedModel


toy = Provider(
    forms=(Form("toy:ANYTHING", "says nothing"),),
    make=lambda rest, use, say: ScriptedModel(name=rest),
    local=True,
    reopened_by_name=True,
)
remote = Provider(
    forms=(Form("remote:MODEL", "a service with public prices"),),
    make=lambda rest, use, say: ScriptedModel(name=rest),
    local=False,
    price_id="anthropic",
    unopened=lambda rest: ModelIdentity("remote", rest),
)
wrong = "not a provider"
"""


@pytest.fixture(autouse=True)
def _toys(tmp_path, monkeypatch: pytest.MonkeyPatch, installed):
    """One file of a package that adds two providers, and one entry that is none."""
    (tmp_path / "toy_models.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(*(EntryPoint(name, f"toy_models:{name}", "goldless.models") for name in ("toy", "remote", "wrong")))


def test_a_plugins_forms_are_listed_and_a_near_miss_of_its_prefix_is_suggested():
    shown = json.loads(CliRunner().invoke(app, ["list", "models", "--format", "json"]).stdout)
    assert {"form": "toy:ANYTHING", "purpose": "says nothing"} in shown["models"]
    with pytest.raises(ModelSpecError, match="Did you mean 'toy'") as caught:
        open_model("toyy:anything")
    assert "toy:ANYTHING" in str(caught.value)


def test_what_is_no_provider_is_told_and_left_out():
    failures = {plugin.name: plugin.failure for plugin in PROVIDERS.plugins()}
    assert failures["toy"] is None
    assert "must be a goldless.models.provider.Provider, got str" in failures["wrong"]
    with pytest.raises(UserError, match="'wrong' from the package unknown cannot be used: a model provider must be"):
        find_provider("wrong:x")


def test_what_a_plugins_record_says_decides_like_our_own():
    toy, remote = ModelIdentity("toy", "anything"), ModelIdentity("remote", "claude-3-haiku-20240307")
    assert (is_local(toy), is_small(toy), not is_local("toy:x"), price_of(toy)) == (True, False, False, Price(0.0, 0.0))
    assert (is_local(remote), is_local("remote:x")) == (False, False)
    # Anthropic's list price of this model: 0.25 and 1.25 US dollars per million tokens
    assert price_of(remote) == Price(0.25, 1.25)
    assert (specification_of(toy), specification_of(remote)) == ("toy:anything", None)
    assert (unopened_identity("remote:m"), unopened_identity("toy:x")) == (ModelIdentity("remote", "m"), None)
