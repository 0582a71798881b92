"""``goldless plugins``: what packages add, and what of it cannot be used and why."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from goldless import plugins as loader
from goldless.cli import lists as command
from goldless.plugins import GROUPS, Catalogue


class Package:
    name, version = "goldless-novelty", "1.2"


def entry(group, name, value, package=Package):
    point = EntryPoint(name, value, group)
    vars(point)["dist"] = package
    return point


@pytest.fixture
def installed(monkeypatch):
    """Makes these the entry points of installed packages."""

    def install(*entries):
        loader.plugins.cache_clear()
        monkeypatch.setattr(loader, "entry_points", lambda group: [one for one in entries if one.group == group])

    yield install
    loader.plugins.cache_clear()


@pytest.fixture
def no_catalogue(monkeypatch):
    monkeypatch.setattr(command, "CATALOGUES", dict.fromkeys(GROUPS, "goldless.no_such_module"))


def listed(goldless):
    ended = goldless("plugins", "--json")
    assert ended.code == 0
    return json.loads(ended.out)


def test_nothing_installed_is_an_empty_list_and_the_groups_are_named(goldless, installed):
    installed()
    found = listed(goldless)
    assert found == {"groups": list(GROUPS), "plugins": []}
    assert "goldless.metrics" in goldless("plugins").err


@pytest.mark.usefixtures("no_catalogue")
def test_each_plugin_stands_with_its_group_name_package_and_version(goldless, installed):
    installed(entry("goldless.importers", "sheets", "json:loads"), entry("goldless.metrics", "novelty", "math:sqrt"))
    rows = listed(goldless)["plugins"]
    assert [(row["group"], row["name"], row["package"], row["version"]) for row in rows] == [
        ("goldless.metrics", "novelty", "goldless-novelty", "1.2"),
        ("goldless.importers", "sheets", "goldless-novelty", "1.2"),
    ]
    assert all(row["usable"] and row["failure"] is None for row in rows)
    shown = goldless("plugins").out
    assert "novelty" in shown
    assert "sheets" in shown


@pytest.mark.usefixtures("no_catalogue")
def test_a_plugin_that_cannot_be_loaded_says_why_and_the_exit_code_is_0(goldless, installed):
    installed(
        entry("goldless.metrics", "broken", "no_such_package:thing"), entry("goldless.metrics", "sound", "math:sqrt")
    )
    broken, sound = listed(goldless)["plugins"]
    assert (broken["name"], broken["usable"]) == ("broken", False)
    assert broken["failure"] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert sound["usable"]
    assert "cannot be used: 1 of 2" in goldless("plugins").err


def test_the_catalogue_of_a_group_refuses_a_shape_and_a_name_that_is_taken(goldless, installed, monkeypatch):
    catalogue = Catalogue("goldless.models", {"ours": len}, lambda value: None if callable(value) else "not callable")
    monkeypatch.setattr("goldless.records.CATALOGUE_OF_A_TEST", catalogue, raising=False)
    monkeypatch.setattr(command, "CATALOGUES", dict.fromkeys(GROUPS, "goldless.records"))
    installed(
        entry("goldless.models", "ours", "math:sqrt"),
        entry("goldless.models", "pi", "math:pi"),
        entry("goldless.models", "theirs", "math:sqrt"),
    )
    failures = {row["name"]: row["failure"] for row in listed(goldless)["plugins"]}
    assert failures == {"ours": "the name is already used by goldless itself", "pi": "not callable", "theirs": None}


@pytest.mark.parametrize("shown_as", ["rich", "markdown", "csv", "latex"])
@pytest.mark.usefixtures("no_catalogue")
def test_plugins_are_printed_in_every_format(goldless, installed, shown_as):
    installed(entry("goldless.metrics", "novelty", "math:sqrt"))
    ended = goldless("plugins", "--format", shown_as)
    assert ended.code == 0
    assert "novelty" in ended.out
