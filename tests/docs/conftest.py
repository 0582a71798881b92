"""Fixtures of several files: the commands of pages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warm_goldless import warm_goldless


@pytest.fixture(scope="session")
def warm_programs() -> Iterator[Path]:
    """A folder with the command ``goldless`` that begins at once, for all pages of a worker."""
    with tempfile.TemporaryDirectory(prefix="goldless") as folder, warm_goldless(Path(folder)) as programs:
        yield programs


@pytest.fixture
def programs(request: pytest.FixtureRequest) -> Path | None:
    """The folder of commands that a page runs; None at night: each is started as users start it."""
    if request.node.get_closest_marker("nightly"):
        return None
    return request.getfixturevalue("warm_programs")
