"""Addresses of pages: of a server, or of the files of a static site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

Query = Mapping[str, object]


class Links:
    """Addresses on the viewer's own server, as seen from any page; None: there is no such page."""

    @property
    def live(self) -> bool:
        """Whether a server answers: forms and progress work."""
        return True

    def home(self) -> str:
        """The list of runs."""
        return "/"

    def run(self, run: str) -> str | None:
        """One run."""
        return f"/runs/{quote(run, safe='', errors='surrogatepass')}"

    def tasks(self, run: str, query: Query | None = None) -> str | None:
        """Its tasks."""
        return _asking(f"{self.run(run)}/tasks", query)

    def task(self, run: str, number: int) -> str | None:
        """One task."""
        return f"{self.run(run)}/tasks/{number}"

    def response(self, run: str, number: int, agent: int, query: Query | None = None) -> str | None:
        """The evidence on one response."""
        return _asking(f"{self.task(run, number)}/agents/{agent}", query)

    def pair(self, run: str, number: int, agent: int, peer: int, query: Query | None = None) -> str | None:
        """The information map of two responses."""
        return _asking(f"{self.task(run, number)}/pairs/{agent}/{peer}", query)

    def failures(self, run: str, query: Query | None = None) -> str | None:
        """What failed in a run."""
        return _asking(f"{self.run(run)}/failures", query)

    def report(self, run: str) -> str | None:
        """Its report."""
        return f"{self.run(run)}/report"

    def compare(self, query: Query | None = None) -> str | None:
        """Two runs side by side."""
        return _asking("/compare", query)

    def progress(self, run: str | None = None) -> str | None:
        """How far a run is, or all of them."""
        return "/progress" if run is None else f"{self.run(run)}/progress"

    def static(self, name: str) -> str:
        """A style sheet or script."""
        return f"/static/{name}"


@dataclass(frozen=True, slots=True)
class BundleLinks(Links):
    """Addresses within a static site, as seen from a page so many folders down."""

    folders: Mapping[str, str]
    """The folder of each run."""
    tasks_of: Mapping[str, Collection[int]]
    """The tasks of each run that the site holds."""
    pairs: bool
    """Whether it holds information maps."""
    reports: Collection[str]
    """Runs with a report."""
    up: str = ""
    """The way from the page to the site's first page, such as ``../../``."""

    @property
    def live(self) -> bool:
        """No server answers."""
        return False

    def home(self) -> str:
        """The list of runs."""
        return f"{self.up}index.html"

    def run(self, run: str) -> str | None:
        """One run."""
        return self._of(run, "index.html")

    def tasks(self, run: str, query: Query | None = None) -> str | None:  # noqa: ARG002 - a file takes no query
        """Its tasks."""
        return self._of(run, "tasks.html")

    def task(self, run: str, number: int) -> str | None:
        """One task."""
        return self._of(run, task_file(number)) if self._held(run, number) else None

    def response(self, run: str, number: int, agent: int, query: Query | None = None) -> str | None:
        """The evidence on one response, its first page only."""
        if query or not self._held(run, number):
            return None
        return self._of(run, response_file(number, agent))

    def pair(self, run: str, number: int, agent: int, peer: int, query: Query | None = None) -> str | None:
        """The information map of two responses."""
        if query or not self.pairs or not self._held(run, number):
            return None
        return self._of(run, pair_file(number, agent, peer))

    def failures(self, run: str, query: Query | None = None) -> str | None:
        """What failed in a run, its first page only."""
        return None if query else self._of(run, "failures.html")

    def report(self, run: str) -> str | None:
        """Its report."""
        return self._of(run, "report.html") if run in self.reports else None

    def compare(self, query: Query | None = None) -> str | None:  # noqa: ARG002
        """Not in a static site."""
        return None

    def progress(self, run: str | None = None) -> str | None:  # noqa: ARG002
        """Not in a static site."""
        return None

    def static(self, name: str) -> str:
        """A style sheet or script."""
        return f"{self.up}static/{name}"

    def _held(self, run: str, number: int) -> bool:
        return number in self.tasks_of.get(run, ())

    def _of(self, run: str, file: str) -> str | None:
        return f"{self.up}runs/{self.folders[run]}/{file}" if run in self.folders else None


def task_file(number: int) -> str:
    """The file of a task in a static site."""
    return f"tasks/{number}.html"


def response_file(number: int, agent: int) -> str:
    """The file of a response's evidence."""
    return f"tasks/{number}-{agent}.html"


def pair_file(number: int, agent: int, peer: int) -> str:
    """The file of an information map."""
    return f"tasks/{number}-{agent}-{peer}.html"


def folder_names(runs: Sequence[str]) -> dict[str, str]:
    """A folder for each run that every file system and address takes, each another."""
    found: dict[str, str] = {}
    for number, run in enumerate(runs, 1):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-")[:60]
        found[run] = f"{number}-{plain}" if plain else str(number)
    return found


def _asking(address: str, query: Query | None) -> str:
    # 0 is asked for like any other number, and equals False: each kind of nothing is named
    given = {name: v for name, v in (query or {}).items() if not (v is None or v is False or v == "")}
    return f"{address}?{urlencode(given, errors='surrogatepass')}" if given else address
