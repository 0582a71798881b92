"""A command that is there at once, for all pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_command import warm_command


@pytest.fixture(scope="session")
def warm() -> Iterator[Path]:
    """A folder with a ``goldless`` that begins at once."""
    with warm_command() as folder:
        yield folder
