"""The README's tree names the packages that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "goldless"


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="installed without the README")
def test_the_readmes_tree_has_every_package_and_only_what_exists():
    tree = (ROOT / "README.md").read_text(encoding="utf-8").split("src/goldless/\n")[1].split("```")[0]
    packages = set(re.findall(r"\b(\w+)/", tree))
    assert packages == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    modules = set(re.findall(r"^  (evidence[\w, ]*)$", tree, flags=re.MULTILINE)[0].split(", "))
    assert all((SOURCE / f"{name}.py").exists() for name in modules)
