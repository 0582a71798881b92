"""The site: the runs in a folder, their tasks and evidence, and the pages about them. Nothing is written to runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from aiohttp import web

from goldless.apps.studio.access import Access, html
from goldless.apps.studio.children import Children
from goldless.apps.studio.rendering import FileLinks, Links, environment
from goldless.apps.studio.task_index import TaskIndex, is_run, kept_index
from goldless.errors import UserError, nearest
from goldless.models.embedded import TokenTexts
from goldless.reports.run_folder import RESULTS, RunFolder, stamp
from goldless.reports.run_record import RunProgress

STALE_SECONDS = 120
"""A run without progress for this long may have been killed."""
State = Literal["complete", "incomplete", "running", "silent", "failed", "interrupted", "damaged", "unknown"]


class PageNotFoundError(UserError):
    """No such run, task or response."""

    status = 404


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of the list of runs."""

    name: str
    study: str | None = None
    results: tuple[str, ...] = ()
    """Its results: metrics, ``review (SCALE)``, ``crash test``."""
    made_at: datetime | None = None
    state: State = "unknown"
    missing: int | None = None
    """Missing pieces of evidence over all results; None: unknown."""
    progress: RunProgress | None = None
    has_report: bool = False
    leader: Any = None
    """The row of the agent ranked first under the first metric, or in the first ranking."""
    leader_metric: str = ""
    """That metric or ranking."""
    can_stop: bool = False
    can_go_on: bool = False
    """True if its command is known here."""
    printed: str = ""
    """The end of what its command printed."""

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        leaderboard, review = run.leaderboard, run.review
        results = [] if leaderboard is None else [*leaderboard.metrics]
        results += [] if review is None else [f"review ({review.scale})"]
        results += [name.replace("_", " ") for name in run.others]
        main = [found for found in (leaderboard, review) if found is not None]
        state = _state(run.progress, main or [*run.results.values()])
        metric, ranked = best_ranked(run)
        return cls(
            name=run.name,
            study=run.study_name or None,
            results=tuple(results),
            made_at=_made_at(run),
            state="damaged" if state == "unknown" and run.unreadable else state,
            missing=sum(n for one in main for n in one.failures.values()) if main else None,
            progress=run.progress,
            has_report=run.report is not None,
            leader=ranked[0] if ranked else None,
            leader_metric=metric,
        )


def best_ranked(run: RunFolder) -> tuple[str, list[Any]]:
    """The first metric or ranking that has any rows, and these, best first."""
    metric, board = next(((name, board) for name, board in run.standings.items() if board.rows), ("", None))
    return metric, [] if board is None else sorted(board.rows, key=lambda row: (row.rank is None, row.rank))


def _made_at(run: RunFolder) -> datetime | None:
    times = []
    for made in run.made_by.made.values():
        try:
            times.append(datetime.fromisoformat(made.at).astimezone(UTC))
        except (ValueError, OverflowError):
            continue
    if times:
        return max(times)
    written = stamp(run.path / f"{name}.json" for name in (*RESULTS, "progress"))
    return datetime.fromtimestamp(written[0][1] / 1e9, UTC) if written else None


def _state(progress: RunProgress | None, results: Sequence[object]) -> State:
    if progress is not None and progress.state == "running":
        age = None if progress.updated_at is None else datetime.now(UTC).timestamp() - progress.updated_at
        return "silent" if age is not None and age > STALE_SECONDS else "running"
    if progress is not None and progress.state in {"failed", "interrupted"}:
        return "failed" if progress.state == "failed" else "interrupted"
    if not results:
        return "unknown"
    return "complete" if all(getattr(found, "complete", True) for found in results) else "incomplete"


def find_runs(root: Path) -> dict[str, RunFolder]:
    """The run folders by name: the folder itself if it is one, otherwise those in it."""
    if not root.is_dir():
        raise UserError(
            f"{root}: no such folder. Give a folder of run folders, or one run folder, as written by goldless "
            "score STUDY --out RUN"
        )
    if is_run(root):
        found = RunFolder(root)
        return {found.name: found}
    paths = sorted(path for path in root.iterdir() if path.is_dir() and is_run(path))
    return {path.name: RunFolder(path, path.name) for path in paths}


@dataclass(frozen=True, slots=True)
class RunTask:
    """A task of a run."""

    run: RunFolder
    index: TaskIndex
    number: int

    @property
    def name(self) -> str:
        return self.index.tasks[self.number]

    def agent(self, number: int) -> str:
        agents = self.index.agents
        if not 0 <= number < len(agents):
            raise PageNotFoundError(f"no agent {number} in this run; agents are numbered 0 to {len(agents) - 1}")
        return agents[number]

    def scored_texts(self, row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, str]:
        """The texts scored in a row of the logprobs table: the responses, or the rewrites of the rewriter it names."""
        rewriter = row.get("rewriter")
        if rewriter is None:
            return dict(texts)
        names = set(str(rewriter).split("+"))
        rewrites = [r for r in self.index.rows("rewrites", self.name).to_dicts() if r["rewriter"] in names]
        own = [r for r in rewrites if r.get("template") == row.get("template")] or rewrites
        return {r["agent"]: r["text"] for r in own if r.get("text")}


class Site:
    """The runs of a folder and how their pages are rendered."""

    def __init__(self, root: Path, *, journal: Path, links: Links | FileLinks | None = None) -> None:
        find_runs(root)
        self.root = root
        self.journal = journal
        self.links = links or Links()
        self.tokenizers = TokenTexts()

    def summary(self, run: RunFolder) -> RunSummary:
        return RunSummary.of(run)

    def page(self, template: str, index: TaskIndex | None = None, /, **values: Any) -> str:
        """A page; one about a run has its index."""
        about = {} if index is None else {"run": self.summary(index.run), "index": index}
        return environment().get_template(template).render(links=self.links, **about, **values)

    def live(self, template: str, *, running: bool, **values: Any) -> web.Response:
        """A part of a page that is fetched again and again; when it is done, the page is loaded anew."""
        response = html(self.page(template, **values))
        response.headers["X-Run-State"] = "running" if running else "done"
        return response

    def summaries(self) -> list[RunSummary]:
        summaries = []
        for run in find_runs(self.root).values():
            try:
                summaries.append(self.summary(run))
            except Exception:  # noqa: BLE001 - whatever a file holds, the other runs are listed
                summaries.append(RunSummary(run.name))
        oldest = datetime.min.replace(tzinfo=UTC)
        return sorted(summaries, key=lambda run: (run.made_at or oldest, run.name), reverse=True)

    def run(self, name: str) -> RunFolder:
        """The run of that name, among those found in the folder, so that a name never becomes a path."""
        runs = find_runs(self.root)
        if name not in runs:
            raise PageNotFoundError(f"no run {name!r} here{nearest(name, runs)}")
        return runs[name]

    def indexed(self, name: str) -> TaskIndex:
        return kept_index(self.run(name))

    def task(self, name: str, number: int) -> RunTask:
        index = self.indexed(name)
        if not 0 <= number < len(index.tasks):
            raise PageNotFoundError(f"no task {number} in this run; tasks are numbered 0 to {len(index.tasks) - 1}")
        return RunTask(index.run, index, number)


# --- the studio ------------------------------------------------------------------------------------------------------

OWN_FOLDER = ".studio"
"""The folder that the studio keeps beside the runs."""
STUDIO_PAGES = {
    "label": "/label?run={run}",
    "delete": "/delete/{run}",
    "stop": "/runs/{run}/stop",
    "go": "/runs/{run}/go",
    "new": "/new",
}
NAVIGATION = (*Links().navigation, ("/paste", "Paste"), ("/new", "New run"), ("/label", "Label"))


class Studio(Site):
    """The site with pages that do things."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        if root.exists() and not root.is_dir():
            raise UserError(f"{root} must be a folder for runs, and is a file")
        root.mkdir(parents=True, exist_ok=True)
        if is_run(root):
            raise UserError(f"{root} is one run. Give the folder of your runs: goldless studio {root.parent}")
        super().__init__(root, journal=journal, links=Links(STUDIO_PAGES, NAVIGATION))
        self.folder = root / OWN_FOLDER
        self.access = Access(self.page)
        self.children = Children(root)

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
