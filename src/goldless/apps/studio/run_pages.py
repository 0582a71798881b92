"""The pages of a run: how far it is, how fast, what it costs; stop it, go on, and delete it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from typing import Any

from aiohttp import web

from goldless.apps.studio.host import Studio
from goldless.apps.studio.viewer.library import Library, PageNotFoundError, RunSummary
from goldless.apps.studio.viewer.server import Route
from goldless.errors import UserError
from goldless.files import cannot_write


def routes(studio: Studio) -> list[Route]:
    """The page of a run, its live part, its two buttons, and its deletion, which is confirmed on a page."""
    pages = _Pages(studio)
    return [
        ("GET", "/watch/{run}", pages.watch),
        ("GET", "/watch/{run}/live", pages.live),
        ("POST", "/watch/{run}/stop", pages.stop),
        ("POST", "/watch/{run}/go", pages.go_on),
        ("GET", "/delete/{run}", pages.ask),
        ("POST", "/delete/{run}", pages.delete),
    ]


class _Pages:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def watch(self, request: web.Request) -> web.Response:
        run = request.match_info["run"]
        values = await asyncio.to_thread(self._values, run)
        if values["state"] in {"complete", "incomplete"}:
            return self._see("run", run)
        return self._studio.page("watch.html", **values)

    async def live(self, request: web.Request) -> web.Response:
        values = await asyncio.to_thread(self._values, request.match_info["run"])
        response = self._studio.page("_watch.html", **values)
        response.headers["X-Run-State"] = "running" if values["state"] == "running" else "done"
        return response

    async def stop(self, request: web.Request) -> web.Response:
        self._studio.children.stop(request.match_info["run"])
        return self._see("watch", request.match_info["run"])

    async def go_on(self, request: web.Request) -> web.Response:
        await self._studio.children.go_on(request.match_info["run"])
        return self._see("watch", request.match_info["run"])

    async def ask(self, request: web.Request) -> web.Response:
        run = self._studio.library.run(request.match_info["run"])

        def looked_at() -> dict[str, Any]:
            files = [path for path in run.path.rglob("*") if not path.is_dir()]
            return {"run": RunSummary.of(run), "size": sum(path.lstat().st_size for path in files)}

        return self._studio.page("delete.html", folder=run.path, **await asyncio.to_thread(looked_at))

    async def delete(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(delete_run, self._studio.library, request.match_info["run"], self._studio.folder)
        return self._see("home")

    def _see(self, page: str, *where: str) -> web.Response:
        return web.Response(status=303, headers={"Location": self._studio.links.to(page, *where) or "/"})

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
        running, state = children.running(run), summary.state
        # a child's own end counts more than what its folder says, which may be of an earlier run or of none
        if running:
            state = "running"
        elif children.exit_code(run) is not None and state in {"running", "silent", "unknown"}:
            state = "failed"
        return {
            "run": summary,
            "state": state,
            "can_stop": running,
            "can_go_on": own is not None and not running and state != "running",
            "said": children.said(run) if own is not None and state != "running" else "",
        }


def delete_run(library: Library, name: str, own: Path) -> None:
    """Delete a run's folder, never outside the folder of runs.

    It leaves the list at once: it is moved to the studio's folder before it is removed.
    """
    run = library.run(name)
    if run.progress is not None and RunSummary.of(run).state == "running":
        raise UserError(f"the run {name} is in progress. Stop it before you delete it")
    if run.path.is_symlink() or run.path.resolve().parent != library.root.resolve():
        raise UserError(f"{run.path} is a link to a folder elsewhere, which is not deleted. Remove the link yourself")
    away = own / "deleted" / secrets.token_hex(8)
    try:
        away.parent.mkdir(parents=True, exist_ok=True)
        run.path.rename(away)
        shutil.rmtree(away)
    except OSError as error:
        raise cannot_write(run.path, error) from error
