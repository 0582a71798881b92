"""The static site: the same pages as files, to open from disk or put on any web server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from goldless.apps.studio.viewer.comparison import pair_page
from goldless.apps.studio.viewer.library import Library
from goldless.apps.studio.viewer.links import FILES, BundleLinks, Links, folder_names
from goldless.apps.studio.viewer.run_pages import failures_page, run_list, run_page, tasks_page
from goldless.apps.studio.viewer.server import made_page, static_folder
from goldless.apps.studio.viewer.task_pages import response_page, task_page
from goldless.errors import UserError

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
    _check(folder, library.root, tasks)
    runs = library.summaries()
    sizes = {run.name: _sizes(library, run.name) for run in runs}
    links = BundleLinks(
        folders=folder_names(list(sizes)),
        tasks_of={name: range(min(tasks, of)) for name, (of, _) in sizes.items()},
        pairs=maps,
        reports=[run.name for run in runs if run.has_report],
    )
    pages = 0

    def write(page: str, make: Callable[..., str], *where: Any) -> None:
        nonlocal pages
        named = (links.folders[where[0]], *where[1:]) if where else ()
        path = folder / FILES[page].format(*named)
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * FILES[page].count("/")
        path.write_text(made_page(make, library, replace(links, up=up), {}, *where), encoding="utf-8")
        pages += 1

    write("home", run_list)
    shutil.copytree(static_folder(), folder / "static")
    for name, (of, agents) in sizes.items():
        write("run", run_page, name)
        write("tasks", partial(tasks_page, most=tasks), name)
        write("failures", failures_page, name)
        if name in links.reports and (report := library.run(name).report) is not None:
            shutil.copyfile(report, folder / FILES["report"].format(links.folders[name]))
        for number in links.tasks_of[name]:
            write("task", task_page, name, number)
            for agent in range(agents):
                write("response", response_page, name, number, agent)
            for pair in permutations(range(agents), 2) if maps else ():
                write("pair", pair_page, name, number, *pair)
        say(f"{name}: {len(links.tasks_of[name])} of {of} tasks")
    left = {name: of - len(links.tasks_of[name]) for name, (of, _) in sizes.items()}
    return Bundle(folder, pages, len(sizes), {name: count for name, count in left.items() if count})


def _check(folder: Path, root: Path, tasks: int) -> None:
    if tasks < 1:
        raise UserError(f"tasks must be at least 1, got {tasks}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty. Choose a new folder for the site")
    if folder.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{folder} is inside {root}, which the viewer does not write to. Choose another folder")


def _sizes(library: Library, name: str) -> tuple[int, int]:
    """The number of a run's tasks and of its agents."""
    index = made_page(lambda *_: library.index(library.run(name)), library, Links(), {}, name)
    return len(index.tasks), len(index.agents)
