"""The static site: the same pages as files, to open from disk or put on any web server."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path

from goldless.apps.studio.rendering import STATIC, FileLinks
from goldless.apps.studio.run_pages import tasks_page
from goldless.apps.studio.server import VIEWER
from goldless.apps.studio.site import Site
from goldless.apps.studio.task_index import TaskIndex
from goldless.errors import UserError


def write_bundle(
    site: Site, folder: Path, *, tasks: int = 50, maps: bool = False, say: Callable[[str], None] = lambda _: None
) -> int:
    """Write the site: all runs, each with its first ``tasks`` tasks and their evidence; returns the number of pages.

    ``maps``: also information maps, one page per ordered pair of agents and task. ``say`` hears what is in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty. Choose a new folder for the site")
    if folder.resolve().is_relative_to(site.root.resolve()):
        raise UserError(f"{folder} is inside {site.root}, which the viewer does not write to. Choose another folder")
    files: dict[tuple[str | int, ...], str] = {("home",): "index.html"}
    for number, run in enumerate(site.summaries(), 1):
        index = site.indexed(run.name)
        files |= _files_of(index, number, tasks, maps=maps)
        cut = " (--tasks)" * (len(index.tasks) > tasks)
        say(f"{run.name}: {min(tasks, len(index.tasks))} of {len(index.tasks)} tasks{cut}")
    here = copy.copy(site)
    for (page, *where), file in files.items():
        path, here.links = folder / file, FileLinks(files, "../" * file.count("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        if page == "report":
            shutil.copyfile(str(site.run(str(where[0])).report), path)
        else:
            make = partial(tasks_page, most=tasks) if page == "tasks" else VIEWER[str(page)]
            path.write_text(str(make(here, {}, *where)), encoding="utf-8")
    shutil.copytree(STATIC, folder / "static", ignore=shutil.ignore_patterns("studio.*", "label.*"))
    return sum(key[0] != "report" for key in files)


def _files_of(index: TaskIndex, number: int, tasks: int, *, maps: bool) -> dict[tuple[str | int, ...], str]:
    """The files of a run, in a folder whose name is valid in every file system and address."""
    name, agents = index.run.name, range(len(index.agents))
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60]
    folder = f"runs/{number}-{plain}" if plain else f"runs/{number}"
    files: dict[tuple[str | int, ...], str] = {("run", name): f"{folder}/index.html"}
    files |= {(page, name): f"{folder}/{page}.html" for page in ("tasks", "failures")}
    if index.run.report is not None:
        files["report", name] = f"{folder}/report.html"
    for task in range(min(tasks, len(index.tasks))):
        files["task", name, task] = f"{folder}/tasks/{task}.html"
        files |= {("response", name, task, agent): f"{folder}/tasks/{task}-{agent}.html" for agent in agents}
        for one, other in permutations(agents, 2) if maps else ():
            files["pair", name, task, one, other] = f"{folder}/tasks/{task}-{one}-{other}.html"
    return files
