"""What tests of metrics that are not ours share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric's folder can be imported from in its test only."""
    monkeypatch.setattr(sys, "path", list(sys.path))
