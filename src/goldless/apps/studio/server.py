"""The server of the viewer and of the studio: which page is at which address, for browsers of this machine only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web
from multidict import MultiDict

from goldless.apps.studio import labels as label
from goldless.apps.studio import maps
from goldless.apps.studio import new_run as new
from goldless.apps.studio.access import READING, REPORT_POLICY, WRITING, Handler, RefusedError, answering, html
from goldless.apps.studio.comparison import compare_page, side_by_side_page
from goldless.apps.studio.evidence import response_page, task_page
from goldless.apps.studio.rendering import PAGES, STATIC
from goldless.apps.studio.run_pages import failures_page, run_list, run_page, tasks_page
from goldless.apps.studio.site import PageNotFoundError, Site, Studio
from goldless.http_serving import listening_application


def _progress(site: Site, _: Any, name: str) -> web.Response:
    """Progress of a run, for repeated updates of its page."""
    run = site.summary(site.run(name))
    return site.live("_progress.html", running=run.state == "running", run=run)


def _report(site: Site, _: Any, name: str) -> web.Response:
    path = site.run(name).report
    if path is None:
        raise PageNotFoundError("this run has no report.html")
    response = web.Response(body=path.read_bytes(), content_type="text/html", charset="utf-8")
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response


Make = Callable[..., str | web.Response]
"""Makes a page of the site, of what is given in the query or form, and of the names and numbers in the address."""
VIEWER: dict[str, Make] = {
    "home": run_list,
    "progress of all": partial(run_list, template="_runs.html"),
    "compare": compare_page,
    "run": run_page,
    "progress": _progress,
    "report": _report,
    "failures": failures_page,
    "side by side": side_by_side_page,
    "tasks": tasks_page,
    "task": task_page,
    "response": response_page,
    "pair": maps.pair_page,
}
"""By the names of their addresses."""
STUDIO: dict[str, Make] = {
    "/paste": maps.paste_form,
    "/paste/{id}": maps.pasted_map,
    "/new": new.drop_page,
    "/new/{id}": new.checked_page,
    "/new/{id}/plan": new.plan_page,
    "/delete/{run}": new.ask_deletion,
    "/label": label.label_start,
    "/label/pairs": label.label_pair,
}
POSTED: dict[str, Make] = {
    "/paste": maps.paste,
    "/new": new.keep_files,
    "/new/{id}/run": new.start_run,
    "/runs/{run}/stop": partial(new.change_run, go_on=False),
    "/runs/{run}/go": partial(new.change_run, go_on=True),
    "/delete/{run}": new.delete_run,
    "/label/pairs": label.label_verdict,
}


def application(site: Site) -> web.Application:
    """The pages of a site, or of the studio, behind the checks of who may see them."""
    studio = site if isinstance(site, Studio) else None
    methods = READING if studio is None else WRITING
    checks = [answering(site.page, methods), *([studio.access.check] if studio else [])]
    app = web.Application(middlewares=checks)
    pages = {PAGES[name]: make for name, make in VIEWER.items()} | (STUDIO if studio else {})
    for path, make in pages.items():
        app.router.add_get(re.sub("{(number|agent|peer)}", r"{\1:[0-9]{1,9}}", path), _handler(site, make))
    for path, make in POSTED.items() if studio else ():
        app.router.add_post(path, _handler(site, make))
    app.router.add_static("/static", STATIC)
    if studio is not None:
        app.on_cleanup.append(lambda _: asyncio.to_thread(studio.children.end_all))
    return app


def _handler(site: Site, make: Make) -> Handler:
    """A handler; pages are made in threads, so that a slow one does not block the others."""

    async def handle(request: web.Request) -> web.StreamResponse:
        # a map is only computed for a page of the viewer, or not for a browser at all
        own = request.headers.get("Sec-Fetch-Site", "none") in {"same-origin", "none"}
        if make is maps.pair_page and request.query.get("whole") and not own:
            raise RefusedError(403, "A map is only computed when requested on the viewer's own page.")
        given: MultiDict[Any] = MultiDict()
        if request.method == "POST":
            if make is new.keep_files:
                request = request.clone(client_max_size=new.MOST_BYTES)
            given.extend(await request.post())
        given.extend(request.query)
        parts = [
            int(part) if name in {"number", "agent", "peer"} else part for name, part in request.match_info.items()
        ]
        made = await asyncio.to_thread(make, site, given, *parts)
        return html(made) if isinstance(made, str) else made

    return handle


@asynccontextmanager
async def listening(site: Site, *, port: int = 0) -> AsyncIterator[str]:
    """Run the server during the block and yield its address, without a token. It listens on this machine only."""
    async with listening_application(application(site), host="127.0.0.1", port=port, ending_seconds=2.0) as url:
        yield f"{url}/"
