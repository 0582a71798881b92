"""The config of an edition."""

from __future__ import annotations

import sys

import pytest

from goldless.apps.gre.config import METRICS, EditionConfig, checked
from goldless.apps.gre.edition import Edition, open_edition
from goldless.apps.gre.reviewing import review_edition
from goldless.errors import PrerequisiteError, UserError
from goldless.models.scripted import ScriptedModel


def read_config(path):
    return open_edition(path.parent).config


def write_settings(path, settings):
    return Edition(path.parent, EditionConfig()).with_settings(settings).config


def test_an_empty_config_has_the_paper_s_metrics_and_level(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text("")
    config = read_config(path)
    # GEM paper, section 5 and figure 5: three metrics, 90 % intervals; C.2: the wording for reviews
    assert config.score.metrics == METRICS == ("gem", "gem-s[abstract]", "gem-s[assw]")
    assert config.score.level == 0.9
    assert config.score.template == ("peer-review",)
    assert config.review.truncate is False
    assert config.review.cut == "missing"


def test_settings_are_put_beside_comments_and_other_settings(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text('# ours\n[collect]\nvenue = "V"  # the venue\npapers = 5\n')
    config = write_settings(path, {"collect": {"papers": 7}, "models": {"llama-3.1-8b": {"model": "hf:X"}}})
    assert (config.collect.venue, config.collect.papers) == ("V", 7)
    assert config.models["llama-3.1-8b"].model == "hf:X"
    assert "# ours" in path.read_text()
    assert "# the venue" in path.read_text()
    assert read_config(path) == config


@pytest.mark.anyio
async def test_without_tomlkit_an_edition_is_read_and_what_must_be_written_is_refused_before_anything_is_asked(
    edition, asking, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    opened = open_edition(edition.folder)
    assert opened.with_settings({"collect": {"seed": 0}}).config == edition.config
    requests = []
    silent = ScriptedModel(answers=requests.append, name="m")
    with pytest.raises(PrerequisiteError, match=r"tomlkit\. Run: pip install 'goldless\[gre\]'"):
        await review_edition(opened, {}, models={"m": {"model": "embedded"}}, stand_ins={"m": silent}, options=asking)
    assert requests == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"collect": {"papers": 3}}, "either from_folder or venue"),
        ({"collect": {"venue": "V", "from_folder": "f"}}, "either from_folder or venue"),
        ({"models": {"human": {"model": "embedded"}}}, "reserved for human reviews"),
        ({"models": {"Reference2": {"model": "embedded"}}}, "reserved for human reviews"),
        ({"collect": {"venue": "V", "sed": 1}}, "collect.sed: unknown setting. Did you mean 'seed'?"),
        ({"models": {"m": {"modle": "x"}}}, "models.m.modle: unknown setting. Did you mean 'model'?"),
        ({"models": {"m": {"modle": "x"}}}, "models.m.model: is required"),
        ({"models": {"m": {"model": "x", "parameters": "8B"}}}, "must be a valid number, unable to parse string as"),
        ({"models": {"m": {"model": "x", "parameters": 0}}}, "must be a number above 0, such as 8e9, got 0"),
        ({"models": {"m": "x"}}, "models.m: must be a dictionary or an instance of ModelConfig, got 'x'"),
        ({"collect": {"venue": 3}}, "collect.venue: must be a valid string, got 3"),
        ({"review": {"max_tokens": 1.5}}, "review.max_tokens: must be a valid integer, got a number with a fractional"),
        ({"review": {"cut": "{x}"}}, "review.cut: must be 'missing' or 'keep', got '{x}'"),
        ({"collect": {"from_folder": "\0"}}, "collect: from_folder must be a text without null characters"),
        ({"collect": {"venue": "V", "papers": 0}}, "collect: papers must be a whole number of at least 1, got 0"),
        ({"models": {"m": {"model": "x", "parameters": float("inf")}}}, "must be a number above 0, such as 8e9"),
        ({"review": {"temperature": float("inf")}}, "review: temperature must be a number of at least 0, got inf"),
        ({"score": {"level": 2}}, "score: level must be a number between 0 and 1, got 2"),
        ({"models": {"m": {"model": "x", "cutoff_date": "{x}"}}}, "got '{x}'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_in_plain_words(given, told):
    with pytest.raises(UserError) as raised:
        checked(given, "e.toml")
    assert told in str(raised.value)
    assert "Input should" not in str(raised.value)
