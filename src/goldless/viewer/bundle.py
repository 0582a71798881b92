"""The static site: the same pages as files, to open from disk or put on any web server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path

from goldless.errors import UserError
from goldless.viewer.damage import page_of
from goldless.viewer.library import Library
from goldless.viewer.links import BundleLinks, folder_names, page_file
from goldless.viewer.pair_pages import pair_page
from goldless.viewer.response_pages import response_page
from goldless.viewer.run_pages import failures_page, run_list, run_page, tasks_page
from goldless.viewer.server import static_file, static_names
from goldless.viewer.task_pages import task_page

DEFAULT_TASKS = 50


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was written."""

    folder: Path
    pages: int
    runs: int
    left_out: dict[str, int]
    """Tasks left out, by run; complete runs are not listed."""

    @property
    def first_page(self) -> Path:
        """The page to open first."""
        return self.folder / "index.html"


def write_bundle(
    library: Library,
    folder: Path,
    *,
    tasks: int = DEFAULT_TASKS,
    maps: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Bundle:
    """Write the site: all runs, each with its first ``tasks`` tasks and their evidence.

    ``maps``: also information maps, one page per ordered pair of agents and task.
    """
    if tasks < 1:
        raise UserError(f"tasks must be at least 1, got {tasks}")
    _check_empty(folder, library.root)
    names = [run.name for run in library.summaries()]
    links = BundleLinks(
        folders=folder_names(names),
        tasks_of={name: range(min(tasks, _tasks(library, name))) for name in names},
        pairs=maps,
        reports=[run.name for run in library.summaries() if run.has_report],
    )
    site = _Site(folder, library, links)
    site.write("index.html", run_list(library, links))
    for name in static_names():
        target = folder / "static" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(static_file(name))
    for name in names:
        site.write_run(name, most=tasks)
        say(f"{name}: {len(links.tasks_of[name])} of {_tasks(library, name)} tasks")
    left = {name: _tasks(library, name) - len(links.tasks_of[name]) for name in names}
    return Bundle(folder, site.pages, len(names), {name: count for name, count in left.items() if count})


def _check_empty(folder: Path, root: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty. Choose a new folder for the site")
    if folder.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{folder} is inside {root}, which the viewer does not write to. Choose another folder")


def _tasks(library: Library, name: str) -> int:
    return page_of(lambda *_: len(library.index(library.run(name)).tasks), library, None, name)


class _Site:
    """Writes pages and counts them."""

    def __init__(self, folder: Path, library: Library, links: BundleLinks) -> None:
        self.pages = 0
        self._folder = folder
        self._library = library
        self._links = links

    def write(self, file: str, text: str) -> None:
        """Write one page."""
        path = self._folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.pages += 1

    def write_run(self, name: str, *, most: int) -> None:
        """Write the pages of one run."""
        library, base = self._library, f"runs/{self._links.folders[name]}"
        links = replace(self._links, up="../../")
        self.write(f"{base}/index.html", page_of(run_page, library, links, name))
        self.write(f"{base}/tasks.html", page_of(partial(tasks_page, most=most), library, links, name, {}))
        self.write(f"{base}/failures.html", page_of(failures_page, library, links, name, {}))
        report = library.run(name).report
        if name in links.reports and report is not None:
            shutil.copyfile(report, self._folder / base / "report.html")
        deeper = replace(links, up="../../../")
        for number in links.tasks_of[name]:
            self._write_task(deeper, name, number, base)

    def _write_task(self, links: BundleLinks, name: str, number: int, base: str) -> None:
        library = self._library
        agents = range(len(library.index(library.run(name)).agents))
        self.write(f"{base}/{page_file(number)}", page_of(task_page, library, links, name, number, {}))
        for agent in agents:
            text = page_of(response_page, library, links, name, (number, agent), {})
            self.write(f"{base}/{page_file(number, agent)}", text)
        for agent, peer in permutations(agents, 2) if links.pairs else ():
            text = page_of(pair_page, library, links, name, (number, agent, peer), {})
            self.write(f"{base}/{page_file(number, agent, peer)}", text)
