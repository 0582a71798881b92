"""The names that apps import from the core are those that the documentation lists as stable, and no others."""

from __future__ import annotations

import configparser
import re

import pytest

from tests.support.paths import ROOT
from tests.support.surface import names_apps_import

PAGE = ROOT / "docs" / "architecture.md"
CONTRACTS = ROOT / ".importlinter"

pytestmark = pytest.mark.skipif(not CONTRACTS.exists(), reason="installed without the docs")


def stable_names() -> set[tuple[str, str]]:
    """Each module and name in the table of the page."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Stable names\n")
    rows = re.findall(r"^\|[^|`]*\| `([\w.]+)` \| `([\w ]+)` \|$", section, flags=re.MULTILINE)
    by_module = {"goldless" if module == "goldless" else f"goldless.{module}": names for module, names in rows}
    return {(module, name) for module, names in by_module.items() for name in names.split()}


def contract_lines(option: str) -> set[str]:
    contracts = configparser.ConfigParser()
    contracts.read(CONTRACTS, encoding="utf-8")
    return set(contracts["importlinter:contract:stable"][option].strip().splitlines())


def test_apps_import_the_names_that_are_listed_as_stable():
    assert set(names_apps_import(ROOT / "src")) == stable_names()


def test_the_import_contract_allows_the_modules_of_the_page():
    allowed = {line.partition(" -> ")[2] for line in contract_lines("ignore_imports")}
    assert allowed == {module for module, _ in stable_names()} - {"goldless"}


def test_the_import_contract_forbids_every_part_of_the_core_that_it_does_not_allow():
    parts = {path.stem for path in (ROOT / "src" / "goldless").iterdir() if path.suffix == ".py" or path.is_dir()}
    core = parts - {"__init__", "__main__", "__pycache__", "apps"}
    assert {f"goldless.{part}" for part in core} <= contract_lines("forbidden_modules")
