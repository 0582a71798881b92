"""The versions that `make test` installs: all of them exist for the oldest Python that goldless supports."""

from __future__ import annotations

import contextlib
import importlib.metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
OLDEST = "3.11.0"


@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="installed without the repository")
def test_every_pinned_version_runs_on_the_oldest_python():
    pinned = [Requirement(line) for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    allowed = {}
    for pin in pinned:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of an extra that is not installed
            found = importlib.metadata.metadata(pin.name)
            if pin.specifier.contains(found["Version"]):
                allowed[pin.name] = SpecifierSet(found.get("Requires-Python") or "")
    assert len(allowed) > 50
    assert [name for name, versions in allowed.items() if OLDEST not in versions] == []
