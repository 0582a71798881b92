"""What installed packages add is found by name; what is broken is told and stops nothing."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from goldless.errors import UserError
from goldless.plugins import Catalogue


def metrics(**values: str) -> list[EntryPoint]:
    return [EntryPoint(name, value, "goldless.metrics") for name, value in values.items()]


def words_only(value: object) -> str | None:
    return None if isinstance(value, str) else f"a metric must be a str, got {type(value).__name__}"


def test_a_broken_plugin_says_why_and_the_others_work(installed):
    broken = {"absent": "no_such_module:x", "lacking": "string:nothing", "wrong": "math:pi"}
    installed(*metrics(**broken, good="string:digits"))
    catalogue = Catalogue("goldless.metrics", {}, words_only)
    failures = {plugin.name: plugin.failure for plugin in catalogue.plugins()}
    assert "no_such_module" in failures["absent"]
    assert "nothing" in failures["lacking"]
    assert failures["wrong"] == "a metric must be a str, got float"
    assert failures["good"] is None
    assert list(catalogue.all()) == ["good"]


def test_using_a_broken_plugin_says_why_it_cannot_be_used(installed):
    installed(*metrics(absent="no_such_module:x", good="string:digits"))
    catalogue = Catalogue("goldless.metrics", {"ours": "x"}, words_only)
    with pytest.raises(UserError, match="'absent' from the package unknown cannot be used: ModuleNotFoundError"):
        catalogue.refuse_broken("absent")
    for name in ("good", "ours", "nobody's"):
        catalogue.refuse_broken(name)


def test_of_two_plugins_with_one_name_the_second_is_refused(installed):
    installed(*metrics(same="string:digits"), *metrics(same="string:hexdigits"))
    catalogue = Catalogue("goldless.metrics", {}, words_only)
    assert [plugin.failure is None for plugin in catalogue.plugins()] == [True, False]
    assert catalogue.all() == {"same": "0123456789"}
