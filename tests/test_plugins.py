"""What installed packages add is found by name; what is broken is told and stops nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pkgutil import resolve_name

import pytest

from goldless.cli.about import CATALOGUES as EVERY_CATALOGUE
from goldless.errors import UserError
from goldless.exporting.catalogue import EXPORTERS
from goldless.plugins import Catalogue, added_by_apps
from goldless.studies.importers import IMPORTERS


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
        catalogue.get("absent")
    assert [catalogue.get(name) for name in ("good", "ours", "nobody's")] == ["0123456789", "x", None]


@pytest.mark.parametrize("place", EVERY_CATALOGUE)
def test_every_catalogue_says_why_an_addition_cannot_be_used_and_works_without_it(place, installed):
    catalogue = resolve_name(place)
    installed(EntryPoint("absent", "no_such_module:x", catalogue.group))
    with pytest.raises(UserError, match="'absent' from the package unknown cannot be used: ModuleNotFoundError"):
        catalogue.get("absent")
    assert "absent" not in catalogue.all()
    assert catalogue.get("nobody's") is None


def test_of_two_plugins_with_one_name_the_second_is_refused(installed):
    installed(*metrics(same="string:digits"), *metrics(same="string:hexdigits"))
    catalogue = Catalogue("goldless.metrics", {}, words_only)
    assert [plugin.failure is None for plugin in catalogue.plugins()] == [True, False]
    assert catalogue.all() == {"same": "0123456789"}


# --- what goldless's own apps add ------------------------------------------------------------------------------------

CATALOGUES = {"goldless.importers": IMPORTERS, "goldless.exporters": EXPORTERS}
LAZY = """
import sys
from goldless.exporting.catalogue import EXPORTERS
from goldless.studies import read_study, sample_study
read_study(sample_study())
EXPORTERS.get("csv")
assert not [name for name in sys.modules if name.startswith("goldless.apps.formats.")]
EXPORTERS.get("eee")
assert [name for name in sys.modules if name.startswith("goldless.apps.formats.")] == [
    "goldless.apps.formats.every_eval_ever"
]
"""


@pytest.mark.parametrize("group", CATALOGUES)
def test_what_an_app_adds_is_in_the_catalogue_by_its_name_and_no_plugin_takes_the_name(group, installed):
    catalogue, added = CATALOGUES[group], added_by_apps(group)
    assert added
    assert set(added) <= set(catalogue.all())
    for name in added:
        assert catalogue.get(name) is catalogue.all()[name]
    taken = next(iter(added))
    installed(EntryPoint(taken, "string:digits", group))
    (plugin,) = catalogue.plugins()
    assert plugin.failure is not None
    assert catalogue.get(taken) != "0123456789"


@pytest.mark.slow
def test_a_format_of_an_app_is_imported_when_it_is_named():
    ended = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
