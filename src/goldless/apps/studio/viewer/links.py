"""Addresses of pages, on a server or in a static site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

PAGES = {
    "home": "/",
    "progress of all": "/progress",
    "compare": "/compare",
    "static": "/static/{}",
    "run": "/runs/{}",
    "progress": "/runs/{}/progress",
    "report": "/runs/{}/report",
    "failures": "/runs/{}/failures",
    "side by side": "/runs/{}/side-by-side",
    "tasks": "/runs/{}/tasks",
    "task": "/runs/{}/tasks/{}",
    "response": "/runs/{}/tasks/{}/agents/{}",
    "pair": "/runs/{}/tasks/{}/pairs/{}/{}",
}
"""Addresses on the viewer's server: of a run, a task, an agent and its peer, by name and numbers."""
FILES = {
    "home": "index.html",
    "static": "static/{}",
    "run": "runs/{}/index.html",
    "report": "runs/{}/report.html",
    "failures": "runs/{}/failures.html",
    "tasks": "runs/{}/tasks.html",
    "task": "runs/{}/tasks/{}.html",
    "response": "runs/{}/tasks/{}-{}.html",
    "pair": "runs/{}/tasks/{}-{}-{}.html",
}
"""The same in a static site, where every run has a folder."""


class Links:
    """Addresses on a server, valid from any page."""

    live = True
    """Whether there is a server, so that forms and progress work."""

    def __init__(self, more: Mapping[str, str] | None = None, navigation: Sequence[tuple[str, str]] = ()) -> None:
        """``more``: pages besides the viewer's. ``navigation``: address and title of those that every page links to."""
        self._pages = {**PAGES, **(more or {})}
        self.navigation = (("/", "Runs"), ("/compare", "Compare"), *navigation)

    def to(self, page: str, /, *where: str | int, **query: object) -> str | None:
        """The address of a page; None: there is no such page."""
        if page not in self._pages:
            return None
        address = self._pages[page].format(*(quote(str(part), safe="", errors="surrogatepass") for part in where))
        given = _given(query)
        return f"{address}?{urlencode(given, errors='surrogatepass')}" if given else address


@dataclass(frozen=True, slots=True)
class BundleLinks(Links):
    """Addresses within a static site, relative to the page; files take no query."""

    folders: Mapping[str, str]
    """The folder of each run."""
    tasks_of: Mapping[str, Collection[int]]
    """The tasks of each run in the site."""
    pairs: bool
    """Whether it has information maps."""
    reports: Collection[str]
    """Runs with a report."""
    up: str = ""
    """The path from the page to the site's root, such as ``../../``."""
    live = False

    @property
    def navigation(self) -> tuple[tuple[str, str], ...]:  # type: ignore[override]
        """The list of runs alone."""
        return ((f"{self.up}index.html", "Runs"),)

    def to(self, page: str, /, *where: str | int, **query: object) -> str | None:
        """The file of a page; the list of tasks is one for any query."""
        if page not in FILES or (page != "tasks" and _given(query)):
            return None
        if page not in {"home", "static"}:
            run, *numbers = where
            lacking = str(run) not in self.folders or (page == "report" and run not in self.reports)
            lacking |= bool(numbers) and numbers[0] not in self.tasks_of.get(str(run), ())
            if lacking or (page == "pair" and not self.pairs):
                return None
            where = self.folders[str(run)], *numbers
        return self.up + FILES[page].format(*where)


def folder_names(runs: Sequence[str]) -> dict[str, str]:
    """A unique folder name per run that is valid in every file system and address."""
    plain = {run: re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-")[:60] for run in runs}
    return {run: f"{number}-{name}" if name else str(number) for number, (run, name) in enumerate(plain.items(), 1)}


def _given(query: Mapping[str, object]) -> dict[str, object]:
    # 0 is asked for like any other number, and equals False: each kind of nothing is named
    return {name: v for name, v in query.items() if not (v is None or v is False or v == "")}
