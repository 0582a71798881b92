"""The studio's shell: one application of the viewer's pages and those of the studio's modules.

A module of pages has ``routes(studio)``: a list of ``(method, path, handler)``. A handler is
``async def handler(request) -> Response``; it may raise ``UserError`` (shown as a page) and returns
``studio.page("template.html", name=value, …)``. Templates in ``studio/templates`` extend the viewer's ``base.html`` and
set ``here`` to the title in ``NAVIGATION``; scripts and style sheets in ``studio/static`` are at ``/studio/NAME``.

To add one, add it to ``MODULES``. The token, the host, the sender of a POST and the headers are checked for all.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from goldless.apps.studio import labelling, new_run, paste, run_pages
from goldless.apps.studio.access import METHODS
from goldless.apps.studio.host import Studio as Studio  # noqa: PLC0414 - made here, used by its pages
from goldless.apps.studio.viewer.server import application, static_folder
from goldless.http_serving import local_application

MODULES = (paste, new_run, labelling, run_pages)


def listening(studio: Studio, *, port: int = 0) -> AbstractAsyncContextManager[str]:
    """Run the studio during the block and yield its address, without a token. It listens on this machine only."""
    routes = [route for module in MODULES for route in module.routes(studio)]
    checks = [studio.access.check]
    app = application(studio.library, links=studio.links, routes=routes, methods=METHODS, middlewares=checks)
    app.router.add_static("/studio", static_folder("goldless.apps.studio"))
    app.on_cleanup.append(lambda _: studio.children.end_all())
    return local_application(app, port=port)
