"""The viewer's server: pages for a browser on this machine only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from goldless.apps.studio.viewer.comparison import compare_page, pair_page, side_by_side_page
from goldless.apps.studio.viewer.library import Library, PageNotFoundError
from goldless.apps.studio.viewer.links import Links
from goldless.apps.studio.viewer.rendering import render
from goldless.apps.studio.viewer.run_pages import failures_page, progress_of, run_list, run_page, tasks_page
from goldless.apps.studio.viewer.task_index import DamagedRunError, damaged_files
from goldless.apps.studio.viewer.task_pages import response_page, task_page
from goldless.errors import UserError, kind_and_place
from goldless.files import POLARS_FAILED
from goldless.http_serving import foreign_request, local_application
from goldless.studies.tables import UNREADABLE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, Handler]
"""Method, path and handler."""
READING = ("GET", "HEAD")
LOGGER = logging.getLogger("goldless.apps.studio.viewer")
MOST_DAMAGED = 5
Made = TypeVar("Made")
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report has its own script. It runs in a separate origin: it cannot read the viewer's pages or send anything."""
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    # private texts: no cache between here and the reader keeps them, and none on disk
    "Cache-Control": "private, no-store",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def listening(library: Library, *, port: int = 0) -> AbstractAsyncContextManager[str]:
    """Run the server during the block and yield its address. It listens on this machine only."""
    return local_application(application(library), port=port)


def application(
    library: Library,
    *,
    links: Links | None = None,
    routes: Iterable[Route] = (),
    methods: Collection[str] = READING,
    middlewares: Sequence[Middleware] = (),
) -> web.Application:
    """The viewer's routes, and those of an application that it is part of.

    ``methods``: all that may be used. ``middlewares``: further checks, made before a page is.
    """
    links = links or Links()
    server = _Server(library, links)
    app = web.Application(middlewares=[_answering(links, methods), *middlewares])
    run, task = "/runs/{run}", "/runs/{run}/tasks/{number:[0-9]{1,9}}"
    for path, handler in (
        ("/", server.page(run_list)),
        ("/progress", server.page(partial(run_list, template="_runs.html"))),
        ("/compare", server.page(compare_page)),
        (run, server.page(run_page)),
        (f"{run}/progress", server.progress),
        (f"{run}/report", server.report),
        (f"{run}/failures", server.page(failures_page)),
        (f"{run}/side-by-side", server.page(side_by_side_page)),
        (f"{run}/tasks", server.page(tasks_page)),
        (task, server.page(task_page)),
        (task + "/agents/{agent:[0-9]{1,9}}", server.page(response_page)),
        (task + "/pairs/{agent:[0-9]{1,9}}/{peer:[0-9]{1,9}}", server.pair),
    ):
        app.router.add_get(path, handler)
    for method, path, handler in routes:
        app.router.add_route(method, path, handler)
    app.router.add_static("/static", static_folder())
    return app


class _Server:
    """Handles requests; pages are made in threads, so that a slow one does not block the others."""

    def __init__(self, library: Library, links: Links) -> None:
        self._library = library
        self._links = links

    def page(self, make: Callable[..., str]) -> Handler:
        """A handler that returns a page made from its query and from the run and numbers in the address."""

        async def handler(request: web.Request) -> web.Response:
            parts = [part if name == "run" else int(part) for name, part in request.match_info.items()]
            return html(await asyncio.to_thread(made_page, make, self._library, self._links, request.query, *parts))

        return handler

    async def progress(self, request: web.Request) -> web.StreamResponse:
        response = await self.page(progress_of)(request)
        progress = await asyncio.to_thread(lambda: self._library.run(request.match_info["run"]).progress)
        running = progress is not None and progress.state == "running"
        response.headers["X-Run-State"] = "running" if running else "done"
        return response

    async def pair(self, request: web.Request) -> web.StreamResponse:
        # a map is only computed for a page of the viewer, or not for a browser at all
        own = request.headers.get("Sec-Fetch-Site", "none") in {"same-origin", "none"}
        if request.query.get("whole") and not own:
            raise RefusedError(403, "A map is only computed when requested on the viewer's own page.")
        return await self.page(pair_page)(request)

    async def report(self, request: web.Request) -> web.Response:
        path = self._library.run(request.match_info["run"]).report
        if path is None:
            raise PageNotFoundError("this run has no report.html")
        text = await asyncio.to_thread(path.read_bytes)
        response = web.Response(body=text, content_type="text/html", charset="utf-8")
        response.headers["Content-Security-Policy"] = REPORT_POLICY
        return response


def made_page(make: Callable[..., Made], library: Library, links: Links, given: Mapping[str, str], *where: Any) -> Made:
    """Call ``make``; raise DamagedRunError, with the files, if it failed because files of a run are damaged."""
    try:
        return make(library, links, given, *where)
    except (*POLARS_FAILED, *UNREADABLE, KeyError, TypeError, AttributeError) as error:
        names = [where[0]] if where else [name for name in (given.get("first"), given.get("second")) if name]
        found = [problem for name in names for problem in damaged_files(library.run(name))]
        if not found and not isinstance(error, (*POLARS_FAILED, *UNREADABLE)):
            raise
        listed = "; ".join(found[:MOST_DAMAGED]) or str(error).splitlines()[0]
        more = f" and {len(found) - MOST_DAMAGED} more" * (len(found) > MOST_DAMAGED)
        raise DamagedRunError(
            f"files of the run {', '.join(names)} cannot be read: {listed}{more}. Run the command that wrote it again"
        ) from error


def static_folder(package: str = "goldless.apps.studio.viewer") -> Path:
    """The folder of a package's style sheets, scripts and images."""
    return Path(str(resources.files(package) / "static"))


def html(text: str, status: int = 200) -> web.Response:
    """A page as a response."""
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


# --- who may ask, and what a browser may do with the answer ----------------------------------------------------------


class RefusedError(Exception):
    """A request that is rejected."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status."""
        self.status = status
        super().__init__(message)


def check_request(request: web.Request, methods: Collection[str] = READING) -> None:
    """Reject requests that write, use another host name, or come from another site's page."""
    if request.method not in methods:
        raise RefusedError(405, f"The method must be one of {', '.join(methods)}.")
    if refusal := foreign_request(request):
        raise RefusedError(403, refusal)


def _answering(links: Links, methods: Collection[str]) -> Middleware:
    """Check the request, turn errors into a page, and set the browser's permissions for the response."""

    def problem(status: int, message: str) -> web.Response:
        response = html(render("problem.html", links, status=status, message=message), status)
        if status == 405:
            response.headers["Allow"] = ", ".join(methods)
        return response

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_request(request, methods)
            response = await handler(request)
        except RefusedError as error:
            response = problem(error.status, str(error))
        except web.HTTPException as error:
            response = problem(error.status, "This request is too large." if error.status == 413 else "Page not found.")
        except PageNotFoundError as error:
            response = problem(404, str(error))
        except UserError as error:
            response = problem(422 if isinstance(error, DamagedRunError) else 400, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, a page says so, and no text of a run is logged
            LOGGER.error("failed to make a page: %s", kind_and_place(error))  # noqa: TRY400
            response = problem(500, f"An error occurred while making this page ({kind_and_place(error)}).")
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return answer
