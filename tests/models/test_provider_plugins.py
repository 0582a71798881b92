"""A package adds a provider with one file: it is opened, listed, planned and scored with like our own."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import polars as pl
import pytest
from typer.testing import CliRunner

from goldless import evaluate, plugins
from goldless.cli.main import app
from goldless.errors import ModelSpecError
from goldless.models.catalogue import (
    PROVIDERS,
    find_provider,
    is_local,
    is_server,
    is_small,
    open_model,
    specification_of,
    unopened_identity,
)
from goldless.models.interface import ModelIdentity
from goldless.models.usage import Price, price_of

TOY = '''
from goldless.models.interface import ModelIdentity
from goldless.models.provider import Form, Provider
from goldless.models.scripted import ScriptedModel


class ToyModel(ScriptedModel):
    """A word costs half a nat where the context has it, and four nats where it has not."""

    def __init__(self, name):
        super().__init__(logprobs=self.nats)
        self.called = name

    @property
    def identity(self):
        return ModelIdentity("toy", self.called)

    @staticmethod
    def nats(context, target):
        known = set(context.split())
        return [-0.5 if word in known else -4.0 for word in target.split()]


toy = Provider(
    forms=(Form("toy:ANYTHING", "counts the words it has seen before"),),
    make=lambda rest, use, say: ToyModel(rest),
    local=True,
    reopened_by_name=True,
)
remote = Provider(
    forms=(Form("remote:MODEL", "a service with public prices"),),
    make=lambda rest, use, say: ToyModel(rest),
    local=False,
    price_id="anthropic",
    unopened=lambda rest: ModelIdentity("remote", rest),
)
wrong = "not a provider"
'''


@pytest.fixture
def toys(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """One file of a package that adds two providers, and one entry that is none."""
    (tmp_path / "toy_models.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [EntryPoint(name, f"toy_models:{name}", "goldless.models") for name in ("toy", "remote", "wrong")]
    found_in = lambda *, group: [e for e in found if e.group == group]  # noqa: E731
    monkeypatch.setattr("importlib.metadata.entry_points", found_in)
    plugins.plugins.cache_clear()
    yield
    plugins.plugins.cache_clear()


@pytest.mark.usefixtures("toys")
def test_a_plugins_model_scores_a_study(tmp_path):
    texts = {"near": "red fox", "same": "red fox", "far": "blue whale"}
    rows = [{"task": task, "agent": agent, "text": text} for task in "ab" for agent, text in texts.items()]
    study = pl.DataFrame(rows)
    run = evaluate(study, metrics=["gem-raw"], scorer="toy:anything", journal=tmp_path / "journal.sqlite")
    row = {row.agent: row for row in run.leaderboard("gem-raw").rows}
    # log p(y|x) - log p(y): "red fox" after "red fox" gains 3.5 nats a word; all else gains nothing
    assert row["near"].score == pytest.approx((7.0 + 0.0) / 2)
    assert row["far"].score == pytest.approx(0.0)


@pytest.mark.usefixtures("toys")
def test_a_plugins_forms_are_listed_and_a_near_miss_of_its_prefix_is_suggested():
    shown = json.loads(CliRunner().invoke(app, ["models", "list", "--json"]).stdout)
    assert {"form": "toy:ANYTHING", "purpose": "counts the words it has seen before"} in shown["models"]
    with pytest.raises(ModelSpecError, match="Did you mean 'toy'") as caught:
        open_model("toyy:anything")
    assert "toy:ANYTHING" in str(caught.value)


@pytest.mark.usefixtures("toys")
def test_what_is_no_provider_is_told_and_left_out():
    failures = {plugin.name: plugin.failure for plugin in PROVIDERS.plugins()}
    assert failures["toy"] is None
    assert "must be a goldless.models.provider.Provider, got str" in failures["wrong"]
    assert find_provider("wrong:x") is None


@pytest.mark.usefixtures("toys")
def test_what_a_plugins_record_says_decides_like_our_own():
    toy, remote = ModelIdentity("toy", "anything"), ModelIdentity("remote", "claude-3-haiku-20240307")
    assert (is_local(toy), is_small(toy), is_server("toy:x"), price_of(toy)) == (True, False, False, Price(0.0, 0.0))
    assert (is_local(remote), is_server("remote:x")) == (False, True)
    # Anthropic's list price of this model: 0.25 and 1.25 US dollars per million tokens
    assert price_of(remote) == Price(0.25, 1.25)
    assert (specification_of(toy), specification_of(remote)) == ("toy:anything", None)
    assert (unopened_identity("remote:m"), unopened_identity("toy:x")) == (ModelIdentity("remote", "m"), None)
