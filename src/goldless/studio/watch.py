"""A run while it happens: how far it is, how fast, what it costs; stop it, and go on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import web

from goldless.reports.documents.scores import ProgressDocument
from goldless.reports.report_table import seconds_text
from goldless.studio.host import Host
from goldless.viewer.library import PageNotFoundError, RunSummary
from goldless.viewer.server import Route

RATE_SECONDS = 60.0
"""The rate is that of the last minute: what is in the journal is fast, what is asked is not."""
LEAST_SECONDS = 2.0


def routes(studio: Host) -> list[Route]:
    """The page of a run, its live part, and its two buttons."""
    pages = _Pages(studio)
    return [
        ("GET", "/watch/{run}", pages.watch),
        ("GET", "/watch/{run}/live", pages.live),
        ("POST", "/watch/{run}/stop", pages.stop),
        ("POST", "/watch/{run}/go", pages.go_on),
    ]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a stage is."""

    per_second: float
    seconds_left: float

    @property
    def rate(self) -> str:
        """The rate in words, per second or per minute."""
        slow = self.per_second < 1
        return f"{self.per_second * (60 if slow else 1):,.1f} per {'minute' if slow else 'second'}"

    @property
    def left(self) -> str:
        """The time left in words."""
        return seconds_text(self.seconds_left)


class Paces:
    """What was seen of runs, from which their rates follow."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[tuple[float, int]]] = {}

    def of(self, run: str, progress: ProgressDocument | None, now: float) -> Pace | None:
        """The pace of a run's stage; None: not known yet."""
        if progress is None or progress.done is None or not progress.total:
            return None
        seen = self._seen.setdefault((run, progress.stage), deque())
        if seen and progress.done < seen[-1][1]:
            seen.clear()  # it was started again
        seen.append((now, progress.done))
        while len(seen) > 2 and now - seen[1][0] >= RATE_SECONDS:
            seen.popleft()
        seconds, done = now - seen[0][0], progress.done - seen[0][1]
        if seconds < LEAST_SECONDS or done <= 0:
            return None
        rate = done / seconds
        return Pace(rate, max(0, progress.total - progress.done) / rate)


class _Pages:
    def __init__(self, studio: Host) -> None:
        self._studio = studio
        self._paces = Paces()

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
            summary = self._studio.library.run(run).summary()
        except PageNotFoundError:
            if own is None:
                raise
            summary = RunSummary(run)
        running = children.running(run)
        state = _state(summary, running=running, ended=children.exit_code(run) is not None)
        return {
            "run": summary,
            "state": state,
            "pace": self._paces.of(run, summary.progress, time.monotonic()) if state == "running" else None,
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
