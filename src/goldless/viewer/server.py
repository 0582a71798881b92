"""The viewer's server: pages for a browser on this machine only."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import resources

from aiohttp import web
from aiohttp.typedefs import Middleware

from goldless.errors import UserError, kind_and_place
from goldless.http_serving import host_name, listening_application, serve_until_told
from goldless.viewer.comparison import compare_page
from goldless.viewer.damage import DamagedRunError, page_of
from goldless.viewer.library import Library, PageNotFoundError
from goldless.viewer.links import Links
from goldless.viewer.pair_pages import pair_page
from goldless.viewer.rendering import render
from goldless.viewer.response_pages import response_page
from goldless.viewer.run_pages import failures_page, progress_list, progress_of, run_list, run_page, tasks_page
from goldless.viewer.side_by_side import side_by_side_page
from goldless.viewer.task_pages import task_page

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HOST = "127.0.0.1"
Route = tuple[str, str, Handler]
"""Method, path and handler."""
STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
READING = ("GET", "HEAD")
LOGGER = logging.getLogger("goldless.viewer")
ENDING_SECONDS = 2.0
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1"})
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


async def serve(library: Library, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve until interrupted or terminated. ``ready`` is called with the address; port 0 picks a free port."""
    await serve_until_told(listening(library, port=port), ready)


@asynccontextmanager
async def listening(library: Library, *, port: int = 0) -> AsyncIterator[str]:
    """Run the server during the block and yield its address. It listens on this machine only."""
    app = application(library)
    async with listening_application(app, host=HOST, port=port, ending_seconds=ENDING_SECONDS) as url:
        yield f"{url}/"


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
        ("/", server.page(run_list, query=True)),
        ("/progress", server.page(progress_list, query=True)),
        ("/compare", server.page(compare_page, query=True)),
        ("/static/{name}", static_files("goldless.viewer")),
        (run, server.page(run_page)),
        (f"{run}/progress", server.progress),
        (f"{run}/report", server.report),
        (f"{run}/failures", server.page(failures_page, query=True)),
        (f"{run}/side-by-side", server.page(side_by_side_page, query=True)),
        (f"{run}/tasks", server.page(tasks_page, query=True)),
        (task, server.page(task_page, query=True)),
        (task + "/agents/{agent:[0-9]{1,9}}", server.page(response_page, query=True)),
        (task + "/pairs/{agent:[0-9]{1,9}}/{peer:[0-9]{1,9}}", server.pair),
    ):
        app.router.add_get(path, handler)
    for method, path, handler in routes:
        app.router.add_route(method, path, handler)
    return app


class _Server:
    """Handles requests; pages are made in threads, so that a slow one does not block the others."""

    def __init__(self, library: Library, links: Links) -> None:
        self._library = library
        self._links = links

    def page(self, make: Callable[..., str], *, query: bool = False) -> Handler:
        """A handler that returns a page made from the run and numbers in the address and from its query."""

        async def handler(request: web.Request) -> web.Response:
            named = request.match_info
            run = [named["run"]] if "run" in named else []
            numbers = tuple(int(named[name]) for name in ("number", "agent", "peer") if name in named)
            where = [numbers[0] if len(numbers) == 1 else numbers] if numbers else []
            given = [request.query] if query else []
            made = functools.partial(page_of, make) if run else make
            text = await asyncio.to_thread(made, self._library, self._links, *run, *where, *given)
            return html(text)

        return handler

    async def progress(self, request: web.Request) -> web.StreamResponse:
        response = await self.page(progress_of)(request)
        progress = await asyncio.to_thread(lambda: self._library.run(request.match_info["run"]).progress)
        running = progress is not None and progress.state == "running"
        response.headers["X-Run-State"] = "running" if running else "done"
        return response

    async def pair(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("whole") and not from_own_page(request):
            raise RefusedError(403, "A map is only computed when requested on the viewer's own page.")
        return await self.page(pair_page, query=True)(request)

    async def report(self, request: web.Request) -> web.Response:
        path = self._library.run(request.match_info["run"]).report
        if path is None:
            raise PageNotFoundError("this run has no report.html")
        text = await asyncio.to_thread(path.read_bytes)
        response = web.Response(body=text, content_type="text/html", charset="utf-8")
        response.headers["Content-Security-Policy"] = REPORT_POLICY
        return response


def static_files(package: str) -> Handler:
    """A handler that returns the style sheets, scripts and images of a package by name."""
    names = static_names(package)

    async def handler(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in names:
            raise PageNotFoundError(f"no file {name!r} here")
        kind = STATIC_TYPES[name.rpartition(".")[2]]
        return web.Response(body=static_file(name, package), content_type=kind, charset="utf-8")

    return handler


def static_names(package: str = "goldless.viewer") -> list[str]:
    """The names of a package's style sheets, scripts and images."""
    return sorted(file.name for file in (resources.files(package) / "static").iterdir())


def static_file(name: str, package: str = "goldless.viewer") -> bytes:
    """A style sheet, script or image."""
    return (resources.files(package) / "static" / name).read_bytes()


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
    if host_name(request.host) not in LOCAL_NAMES:
        # a web page whose name was made to point to this machine must not read runs through the user's browser
        raise RefusedError(403, "The viewer can only be called as 127.0.0.1 or localhost.")
    site, mode = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode"))
    if site in {"cross-site", "same-site"} and mode != "navigate":
        raise RefusedError(403, "Pages of other sites may link to the viewer, but not load from it.")


def from_own_page(request: web.Request) -> bool:
    """Whether the request comes from a page of the viewer, or not from a browser: only then is anything computed."""
    return request.headers.get("Sec-Fetch-Site", "none") in {"same-origin", "none"}


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
