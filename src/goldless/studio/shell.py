"""The studio's shell: one application of the viewer's pages and those of the studio's modules.

A module of pages has two names:

``NAVIGATION``
    the address and title of its first page, such as ``("/paste", "Paste")``;
``routes(studio)``
    its pages, a list of ``(method, path, handler)``. A handler is ``async def handler(request) -> Response``; it may
    raise ``UserError`` (shown as a page) and returns ``studio.page("template.html", name=value, …)``. Templates in
    ``studio/templates`` extend the viewer's ``base.html`` and set ``here`` to the title in the navigation; scripts and
    style sheets in ``studio/static`` are at ``/studio/NAME`` (``{% block head %}``).

To add one, add it to ``MODULES``. The token, the host, the sender of a POST and the headers are checked for all.
"""

from __future__ import annotations

import functools
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
from aiohttp import web

from goldless.errors import UserError
from goldless.http_serving import local_application
from goldless.studio import labelling, new_run, paste, run_pages
from goldless.studio.access import METHODS, Access
from goldless.studio.children import Children
from goldless.viewer import rendering
from goldless.viewer.library import Library, find_runs
from goldless.viewer.links import Links
from goldless.viewer.server import Route, application, html, static_folder

MODULES: tuple[ModuleType, ...] = (paste, new_run, labelling)
"""The modules of pages, in the order of the navigation."""
OWN_FOLDER = ".studio"
"""What the studio keeps beside the runs."""


ADDRESSES = {"label": "/label?run={}", "delete": "/delete/{}", "watch": "/watch/{}", "new": new_run.NAVIGATION[0]}
"""The studio's pages that those of the viewer link to."""


class Studio:
    """What the modules share: the runs, the folder of the studio's own files, and how pages are made."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        if root.exists() and not root.is_dir():
            raise UserError(f"{root} must be a folder for runs, and is a file")
        root.mkdir(parents=True, exist_ok=True)
        if [run.path for run in find_runs(root).values()] == [root]:
            raise UserError(f"{root} is one run. Give the folder of your runs: goldless studio {root.parent}")
        self.library = Library(root, journal=journal)
        self.journal = journal
        self.folder = root / OWN_FOLDER
        self.links = Links(ADDRESSES, [module.NAVIGATION for module in MODULES])
        self.access = Access(self.page)
        self.children = Children(root)

    def page(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """A page."""
        return html(environment().get_template(template).render(links=self.links, **values), status)

    def application(self) -> web.Application:
        """All pages."""
        routes: list[Route] = []
        for module in (*MODULES, run_pages):
            routes += module.routes(self)
        checks = [self.access.check]
        app = application(self.library, links=self.links, routes=routes, methods=METHODS, middlewares=checks)
        app.router.add_static("/studio", static_folder("goldless.studio"))
        app.on_cleanup.append(lambda _: self.children.end_all())
        return app


@functools.cache
def environment() -> jinja2.Environment:
    """The viewer's templates and the studio's."""
    viewer = rendering.environment()
    own = jinja2.PackageLoader("goldless.studio", "templates")
    assert viewer.loader is not None
    return viewer.overlay(loader=jinja2.ChoiceLoader([own, viewer.loader]))


def listening(studio: Studio, *, port: int = 0) -> AbstractAsyncContextManager[str]:
    """Run the studio during the block and yield its address, without a token. It listens on this machine only."""
    return local_application(studio.application(), port=port)
