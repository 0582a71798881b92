"""A run while it happens: how far it is, how fast, what it costs; stop it, and go on."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from aiohttp import web

from goldless.studio.host import Host
from goldless.viewer.library import PageNotFoundError, RunSummary
from goldless.viewer.server import Route


def routes(studio: Host) -> list[Route]:
    """The page of a run, its live part, and its two buttons."""
    pages = _Pages(studio)
    return [
        ("GET", "/watch/{run}", pages.watch),
        ("GET", "/watch/{run}/live", pages.live),
        ("POST", "/watch/{run}/stop", pages.stop),
        ("POST", "/watch/{run}/go", pages.go_on),
    ]


class _Pages:
    def __init__(self, studio: Host) -> None:
        self._studio = studio

    async def watch(self, request: web.Request) -> web.Response:
        run = request.match_info["run"]
        values = await asyncio.to_thread(self._values, run)
        if values["state"] in {"complete", "incomplete"}:
            return _see(f"/runs/{quote(run, safe='')}")
        return self._studio.page("watch.html", **values)

    async def live(self, request: web.Request) -> web.Response:
        values = await asyncio.to_thread(self._values, request.match_info["run"])
        response = self._studio.page("_watch.html", **values)
        response.headers["X-Run-State"] = "running" if values["state"] == "running" else "done"
        return response

    async def stop(self, request: web.Request) -> web.Response:
        self._studio.children.stop(request.match_info["run"])
        return _see(f"/watch/{quote(request.match_info['run'], safe='')}")

    async def go_on(self, request: web.Request) -> web.Response:
        await self._studio.children.go_on(request.match_info["run"])
        return _see(f"/watch/{quote(request.match_info['run'], safe='')}")

    def _values(self, run: str) -> dict[str, Any]:
        """The state of a run that was started here, or is in the folder."""
        children = self._studio.children
        own = children.command(run) if run in children.names() else None
        try:
            summary = RunSummary.of(self._studio.library.run(run))
        except PageNotFoundError:
            if own is None:
                raise
            summary = RunSummary(run)
        running = children.running(run)
        state = _state(summary, running=running, ended=children.exit_code(run) is not None)
        return {
            "run": summary,
            "state": state,
            "can_stop": running,
            "can_go_on": own is not None and not running and state != "running",
            "said": children.said(run) if own is not None and state != "running" else "",
        }


def _state(summary: RunSummary, *, running: bool, ended: bool) -> str:
    """A child's own end counts more than what its folder says, which may be of an earlier run or of none."""
    if running:
        return "running"
    if ended and summary.state in {"running", "silent", "unknown"}:
        return "failed"
    return summary.state


def _see(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address})
