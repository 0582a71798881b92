"""What a module of pages uses of the studio."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from goldless.studio.children import Children
from goldless.viewer.library import Library


class Host(Protocol):
    """The studio, as its modules see it."""

    @property
    def library(self) -> Library:
        """The runs."""

    @property
    def folder(self) -> Path:
        """The folder of the studio's own files."""

    @property
    def journal(self) -> Path:
        """Where replies of models are kept."""

    @property
    def children(self) -> Children:
        """The runs that were started here."""

    def page(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """A page."""
