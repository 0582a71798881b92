"""``goldless list plugins``: what packages add, and what of it cannot be used and why."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from goldless import plugins as loader
from goldless.plugins import GROUPS


class Package:
    name, version = "goldless-novelty", "1.2"


@pytest.fixture
def installed(monkeypatch):
    """Makes these the entry points of an installed package."""

    def install(**entries):
        points = [EntryPoint(name, value, "goldless.metrics") for name, value in entries.items()]
        for point in points:
            vars(point)["dist"] = Package
        loader.plugins.cache_clear()
        monkeypatch.setattr(loader, "entry_points", lambda group: [one for one in points if one.group == group])

    yield install
    loader.plugins.cache_clear()


def test_nothing_installed_is_an_empty_list_and_the_groups_are_named(goldless, installed):
    installed()
    assert goldless("list", "plugins").out == ""
    ended = goldless("list", "plugins", "--json")
    assert json.loads(ended.out) == {"groups": list(GROUPS), "plugins": []}
    assert "goldless.metrics" in ended.err


def test_each_plugin_has_its_package_and_whether_it_can_be_used(goldless, installed):
    installed(broken="no_such_package:thing", length="math:sqrt", novelty="math:sqrt", pi="math:pi")
    ended = goldless("list", "plugins", "--json")
    rows = {row["name"]: row for row in json.loads(ended.out)["plugins"]}
    novelty = {"group": "goldless.metrics", "name": "novelty", "package": "goldless-novelty", "version": "1.2"}
    assert rows["novelty"] == {**novelty, "usable": True, "failure": None}
    assert rows["broken"]["failure"] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert rows["length"]["failure"] == "the name is already used by goldless itself"
    assert "a metric must have" in rows["pi"]["failure"]
    assert (ended.code, "cannot be used: 3 of 4" in ended.err) == (0, True)
