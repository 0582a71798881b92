"""The studio as its pages see it: the site, and what it keeps and does beside showing runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aiohttp import web

from goldless.apps.studio.access import Access
from goldless.apps.studio.children import Children
from goldless.apps.studio.labels import Desk
from goldless.apps.studio.rendering import Links
from goldless.apps.studio.site import RunSummary, Site, State, find_runs
from goldless.errors import UserError
from goldless.reports.run_folder import RunFolder

OWN_FOLDER = ".studio"
"""What the studio keeps beside the runs."""
STUDIO_PAGES = {
    "label": "/label?run={}",
    "delete": "/delete/{}",
    "stop": "/runs/{}/stop",
    "go": "/runs/{}/go",
    "new": "/new",
}
NAVIGATION = (*Links().navigation, ("/paste", "Paste"), ("/new", "New run"), ("/label", "Label"))


class Studio(Site):
    """The site with pages that do things."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        if root.exists() and not root.is_dir():
            raise UserError(f"{root} must be a folder for runs, and is a file")
        root.mkdir(parents=True, exist_ok=True)
        if [run.path for run in find_runs(root).values()] == [root]:
            raise UserError(f"{root} is one run. Give the folder of your runs: goldless studio {root.parent}")
        super().__init__(root, journal=journal, links=Links(STUDIO_PAGES, NAVIGATION))
        self.folder = root / OWN_FOLDER
        self.access = Access(self.page)
        self.children = Children(root)
        self.desk = Desk(self, self.folder)

    def summary(self, run: RunFolder) -> RunSummary:
        """The row of a run; of one that was started here, with what is known of its process."""
        found, running = super().summary(run), self.children.running(run.name)
        if self.children.command(run.name) is None:
            return found
        # a child's own end counts more than what its folder says, which may be of an earlier run or of none
        state: State = "running" if running else found.state
        if self.children.ended(run.name) and state in {"running", "silent", "unknown"}:
            state = "failed"
        stopped = state not in {"running", "complete", "incomplete"}
        printed = self.children.said(run.name) if stopped else ""
        return replace(found, state=state, can_stop=running, can_go_on=stopped, printed=printed)

    def see(self, address: str) -> web.Response:
        """Where to go next: the page is fetched anew, so that reloading it sends nothing twice."""
        return web.Response(status=303, headers={"Location": address})
