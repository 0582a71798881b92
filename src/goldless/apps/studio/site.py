"""The site: the runs in a folder and the pages about them; and the studio, which starts runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from aiohttp import web

from goldless.apps.studio.access import Access, html
from goldless.apps.studio.rendering import Links, environment
from goldless.apps.studio.task_index import TaskIndex, is_run, kept_index
from goldless.errors import UserError, nearest
from goldless.files import write_text
from goldless.models.embedded import TokenTexts
from goldless.reports.run_folder import RunFolder
from goldless.runs.options import Options

STALE_SECONDS = 120
"""A run without progress for this long may have been killed."""
State = Literal["complete", "incomplete", "running", "silent", "failed", "interrupted", "damaged", "unknown"]


class PageNotFoundError(UserError):
    """No such run, task or response."""

    status = 404


@dataclass(frozen=True)
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
    progress: Any = None
    """The state of its command; None: its folder does not say."""
    has_report: bool = False
    leader: Any = None
    """The row of the agent ranked first under the first metric, or in the first ranking."""
    tied: bool = False
    """True if the second is not shown to be below that agent."""
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
            made_at=run.last_written,
            state="damaged" if state == "unknown" and run.unreadable else state,
            missing=sum(n for one in main for n in one.failures.values()) if main else None,
            progress=run.progress,
            has_report=run.report is not None,
            leader=ranked[0] if ranked else None,
            tied=len(ranked) > 1 and ranked[1].agent not in (ranked[0].better_than or ()),
            leader_metric=metric,
        )


def best_ranked(run: RunFolder) -> tuple[str, list[Any]]:
    """The first metric or ranking that has any rows, and these, best first."""
    metric, board = next(((name, board) for name, board in run.standings.items() if board.rows), ("", None))
    return metric, [] if board is None else sorted(board.rows, key=lambda row: (row.rank is None, row.rank))


def _state(progress: Any, results: Sequence[object]) -> State:
    if progress is not None and progress.state == "running":
        updated, now = progress.updated_at, datetime.now(UTC).timestamp()
        return "silent" if updated is not None and now - updated > STALE_SECONDS else "running"
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


@dataclass(frozen=True)
class RunTask:
    """A task of a run."""

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

    def __init__(self, root: Path, *, journal: Path, links: Links | None = None) -> None:
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
        return RunTask(index, number)


# --- runs that were started here --------------------------------------------------------------------------------------

ENDING_SECONDS = 10.0
LOG_BYTES = 20_000
_NAME = re.compile(r"\w[\w .+-]{0,79}")
_CODE = re.compile(r"(?:^|[=,])(?:command|python|promptfoo|deepeval|inspect):")


def checked_run_name(given: str) -> str:
    """The name of a run, which is its folder's."""
    name = given.strip()
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise UserError(
            f"a run's name must have up to 80 letters, digits, spaces and . _ + -, and start with a letter or digit, "
            f"got {given[:100]!r}"
        )
    return name


def refuse_code(words: Iterable[str]) -> None:
    """Raise if a word names a metric or a model that runs code: a page starts none."""
    if code := [word for word in words if _CODE.search(word)]:
        raise UserError(f"a metric or model that runs code cannot be chosen on a page, got {code[0]!r}")


class Children:
    """Runs that the studio started: each a child process with the command line's own ``goldless score``.

    Their commands are kept, so that they can go on after a restart, but in goldless's own folder: a folder of runs may
    come from elsewhere, and must not bring commands to run.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        key = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:16]
        self.folder = Options().journal_file.parent / "studio" / key
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starting = threading.Lock()

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start ``goldless ARGUMENTS --out RUN``, or the same again."""
        refuse_code(arguments)
        with self._starting:  # a second click waits, and is then told
            if self.running(name):
                raise UserError(f"{name} is running already")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / f"{name}.json", json.dumps({"arguments": list(arguments)}))
            run = RunFolder(self._root / name)
            run.path.mkdir(exist_ok=True)
            begun = {"state": "running", "updated_at": time.time()}
            write_text(run.progress_file, json.dumps(begun))  # its page is there before the child is
            # -P: no file in the folder where the studio was started may hide a module that goldless imports
            command = [sys.executable, "-P", "-m", "goldless", *arguments, "--out", str(run.path)]
            # a session of its own: Ctrl-C in the studio's terminal ends the studio, which then stops its runs in good
            # order
            with (self.folder / f"{name}.log").open("wb") as log:
                self._processes[name] = subprocess.Popen(  # noqa: S603 - the interpreter, and words that were checked
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
                )

    def go_on(self, name: str) -> None:
        """Start a run again with its own command: what is in the journal is neither computed nor paid for again."""
        arguments = self.command(name)
        if arguments is None:
            raise UserError(f"{name} was not started here. Run its command again where you started it")
        self.start(name, arguments)

    def stop(self, name: str) -> None:
        """End a run in good order, and at once if told again; one that has just ended is left as it is."""
        if name not in self._processes:
            raise UserError(f"{name} is not running here")
        self._processes[name].send_signal(signal.SIGTERM)

    def knows(self, name: str) -> bool:
        """True if it was started since the studio was."""
        return name in self._processes

    def running(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def command(self, name: str) -> list[str] | None:
        """The arguments it was started with; None: it was not started here."""
        try:
            return [str(word) for word in json.loads((self.folder / f"{name}.json").read_bytes())["arguments"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self, name: str) -> None:
        """Remove the command and the log of a run that was deleted."""
        for suffix in (".json", ".log"):
            (self.folder / f"{name}{suffix}").unlink(missing_ok=True)

    def said(self, name: str) -> str:
        log = self.folder / f"{name}.log"
        return log.read_bytes()[-LOG_BYTES:].decode(errors="replace") if log.is_file() else ""

    def end_all(self) -> None:
        """Stop all, and wait for them."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)  # nothing is sent to one that has ended
        for process in self._processes.values():
            try:
                process.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
        if not running and self.children.knows(run.name) and state in {"running", "silent", "unknown"}:
            state = "failed"
        stopped = state not in {"running", "complete", "incomplete"}
        printed = self.children.said(run.name) if stopped else ""
        return replace(found, state=state, can_stop=running, can_go_on=stopped, printed=printed)

    def see(self, address: str) -> web.Response:
        """Where to go next: the page is fetched anew, so that reloading it sends nothing twice."""
        return web.Response(status=303, headers={"Location": address})
