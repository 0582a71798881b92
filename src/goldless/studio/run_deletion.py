"""Delete a run: asked for on a page, confirmed there, and never outside the folder of runs."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from goldless.errors import UserError
from goldless.files import cannot_write
from goldless.studio.host import Host
from goldless.viewer.library import Library, RunSummary
from goldless.viewer.server import Route


def address(run: str) -> str:
    """Where a run is deleted."""
    return f"/delete/{quote(run, safe='', errors='surrogatepass')}"


def routes(studio: Host) -> list[Route]:
    """Its pages."""

    async def ask(request: web.Request) -> web.Response:
        run = studio.library.run(request.match_info["run"])
        size = await asyncio.to_thread(_size, run.path)
        return studio.page("delete.html", run=await asyncio.to_thread(RunSummary.of, run), folder=run.path, size=size)

    async def delete(request: web.Request) -> web.Response:
        await asyncio.to_thread(delete_run, studio.library, request.match_info["run"], studio.folder)
        return web.Response(status=303, headers={"Location": "/"})

    return [("GET", "/delete/{run}", ask), ("POST", "/delete/{run}", delete)]


def delete_run(library: Library, name: str, own: Path) -> None:
    """Delete a run's folder. It leaves the list at once: it is moved to the studio's folder before it is removed."""
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


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
