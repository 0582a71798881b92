"""What the studio's pages share: the runs, the folder of the studio's own files, who may use it, how pages are made."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jinja2
from aiohttp import web

from goldless.apps.studio.access import Access
from goldless.apps.studio.children import Children
from goldless.apps.studio.viewer import rendering
from goldless.apps.studio.viewer.library import Library, find_runs
from goldless.apps.studio.viewer.links import Links
from goldless.apps.studio.viewer.server import html
from goldless.errors import UserError

OWN_FOLDER = ".studio"
"""What the studio keeps beside the runs."""
NAVIGATION = (("/paste", "Paste"), ("/new", "New run"), ("/label", "Label"))
"""Address and title of the first page of each kind."""
ADDRESSES = {"label": "/label?run={}", "delete": "/delete/{}", "watch": "/watch/{}", "new": "/new"}
"""The studio's pages that those of the viewer link to."""


class Studio:
    """The studio, as its pages see it."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        if root.exists() and not root.is_dir():
            raise UserError(f"{root} must be a folder for runs, and is a file")
        root.mkdir(parents=True, exist_ok=True)
        if [run.path for run in find_runs(root).values()] == [root]:
            raise UserError(f"{root} is one run. Give the folder of your runs: goldless studio {root.parent}")
        self.library = Library(root, journal=journal)
        self.journal = journal
        self.folder = root / OWN_FOLDER
        self.links = Links(ADDRESSES, NAVIGATION)
        self.access = Access(self.page)
        self.children = Children(root)

    def page(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """A page."""
        return html(environment().get_template(template).render(links=self.links, **values), status)


@functools.cache
def environment() -> jinja2.Environment:
    """The viewer's templates and the studio's."""
    viewer = rendering.environment()
    own = jinja2.PackageLoader("goldless.apps.studio", "templates")
    assert viewer.loader is not None
    return viewer.overlay(loader=jinja2.ChoiceLoader([own, viewer.loader]))
