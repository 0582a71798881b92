"""Addresses of pages, on a server or in a static site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

Query = Mapping[str, object]


class Links:
    """Addresses on the viewer's server, valid from any page; None: there is no such page."""

    @property
    def live(self) -> bool:
        """Whether there is a server, so that forms and progress work."""
        return True

    def home(self) -> str:
        """The list of runs."""
        return "/"

    def navigation(self) -> tuple[tuple[str, str], ...]:
        """Addresses and titles of the pages that every page links to."""
        compare = self.compare()
        return ((self.home(), "Runs"), *([] if compare is None else [(compare, "Compare")]))

    def label(self, run: str) -> str | None:  # noqa: ARG002
        """Where pairs of its responses are labelled: not in the viewer."""
        return None

    def delete(self, run: str) -> str | None:  # noqa: ARG002
        """Where a run can be deleted: not in the viewer, which is read-only."""
        return None

    def new(self) -> str | None:
        """Where a run is started."""
        return None

    def watch(self, run: str) -> str | None:  # noqa: ARG002
        """Where a run is watched, stopped and continued."""
        return None

    def static(self, name: str) -> str:
        """A style sheet or script."""
        return f"/static/{name}"

    def compare(self, query: Query | None = None) -> str | None:
        """Two runs side by side."""
        return _asking("/compare", query)

    def progress(self, run: str | None = None) -> str | None:
        """The progress of one run, or of all."""
        return "/progress" if run is None else self._of(run, "/progress", "")

    def run(self, run: str) -> str | None:
        """One run."""
        return self._of(run, "", "index.html")

    def tasks(self, run: str, query: Query | None = None) -> str | None:
        """Its tasks."""
        return self._of(run, "/tasks", "tasks.html", query)

    def task(self, run: str, number: int) -> str | None:
        """One task."""
        return self._of(run, f"/tasks/{number}", page_file(number), number=number)

    def response(self, run: str, number: int, agent: int, query: Query | None = None) -> str | None:
        """The evidence on one response."""
        return self._of(run, f"/tasks/{number}/agents/{agent}", page_file(number, agent), query, number=number)

    def pair(self, run: str, number: int, agent: int, peer: int, query: Query | None = None) -> str | None:
        """The information map of two responses."""
        return self._of(run, f"/tasks/{number}/pairs/{agent}/{peer}", page_file(number, agent, peer), query, number)

    def side_by_side(self, run: str, query: Query | None = None) -> str | None:
        """Two agents, task by task."""
        return self._of(run, "/side-by-side", "", query)

    def failures(self, run: str, query: Query | None = None) -> str | None:
        """What failed in a run."""
        return self._of(run, "/failures", "failures.html", query)

    def report(self, run: str) -> str | None:
        """Its report."""
        return self._of(run, "/report", "report.html")

    def _of(self, run: str, page: str, file: str, query: Query | None = None, number: int | None = None) -> str | None:  # noqa: ARG002
        """The page of a run, by its server address and its file in a static site; ``number``: its task."""
        return _asking(f"/runs/{quote(run, safe='', errors='surrogatepass')}{page}", query)


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

    @property
    def live(self) -> bool:
        """There is no server."""
        return False

    def home(self) -> str:
        """The list of runs."""
        return f"{self.up}index.html"

    def static(self, name: str) -> str:
        """A style sheet or script."""
        return f"{self.up}static/{name}"

    def compare(self, query: Query | None = None) -> str | None:  # noqa: ARG002
        """Not in a static site."""
        return None

    def progress(self, run: str | None = None) -> str | None:  # noqa: ARG002
        """Not in a static site."""
        return None

    def tasks(self, run: str, query: Query | None = None) -> str | None:  # noqa: ARG002
        """Its tasks: all on one page, for any query."""
        return self._of(run, "", "tasks.html")

    def _of(self, run: str, page: str, file: str, query: Query | None = None, number: int | None = None) -> str | None:
        held = number is None or number in self.tasks_of.get(run, ())
        held &= self.pairs or "/pairs/" not in page
        held &= bool(file) and (file != "report.html" or run in self.reports)
        return f"{self.up}runs/{self.folders[run]}/{file}" if held and not query and run in self.folders else None


def page_file(*numbers: int) -> str:
    """The file in a static site of a task, a response (task, agent) or an information map (task, agent, peer)."""
    return f"tasks/{'-'.join(map(str, numbers))}.html"


def folder_names(runs: Sequence[str]) -> dict[str, str]:
    """A unique folder name per run that is valid in every file system and address."""
    found: dict[str, str] = {}
    for number, run in enumerate(runs, 1):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-")[:60]
        found[run] = f"{number}-{plain}" if plain else str(number)
    return found


def _asking(address: str, query: Query | None) -> str:
    # 0 is asked for like any other number, and equals False: each kind of nothing is named
    given = {name: v for name, v in (query or {}).items() if not (v is None or v is False or v == "")}
    return f"{address}?{urlencode(given, errors='surrogatepass')}" if given else address
