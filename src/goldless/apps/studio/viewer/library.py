"""The library: the runs in a folder, their results and progress, and the indexes of their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from goldless.apps.studio.viewer.information_map import MapMaker
from goldless.apps.studio.viewer.task_index import TaskIndex, kept_index
from goldless.errors import UserError, nearest
from goldless.models.embedded import TokenTexts
from goldless.reports.run_folder import RESULTS, RunFolder, stamp
from goldless.reports.run_record import RunProgress

STALE_SECONDS = 120
"""A run without progress for this long may have been killed."""

State = Literal["complete", "incomplete", "running", "silent", "failed", "interrupted", "damaged", "unknown"]


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
    leader: str | None = None
    """The agent ranked first under the first metric, or in the first ranking."""
    leader_score: float | None = None
    leader_metric: str = ""
    """That metric or ranking."""

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        """The row of a run."""
        leaderboard, review = run.leaderboard, run.review
        results = [] if leaderboard is None else [*leaderboard.metrics]
        results += [] if review is None else [f"review ({review.scale})"]
        results += [name.replace("_", " ") for name in run.others]
        main = [found for found in (leaderboard, review) if found is not None]
        state = _state(run.progress, main or [*run.results.values()])
        metric, (leader, score) = next(((name, rows[0]) for name, rows in _ranked(run)), ("", (None, None)))
        return cls(
            name=run.name,
            study=run.study_name or None,
            results=tuple(results),
            made_at=_made_at(run),
            state="damaged" if state == "unknown" and run.unreadable else state,
            missing=sum(n for one in main for n in one.failures.values()) if main else None,
            progress=run.progress,
            has_report=run.report is not None,
            leader=leader,
            leader_score=score,
            leader_metric=metric,
        )


def _ranked(run: RunFolder) -> list[tuple[str, list[tuple[str, float | None]]]]:
    """Metrics or rankings, each with its agents and scores, best first."""
    return [
        (name, [(row.agent, row.score) for row in sorted(board.rows, key=lambda row: (row.rank is None, row.rank))])
        for name, board in run.standings.items()
        if board.rows
    ]


def ranked_agents(run: RunFolder) -> list[str]:
    """Agents under the first metric, or in the first ranking of a review, best first."""
    return [agent for _, rows in _ranked(run)[:1] for agent, _ in rows]


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
    if _is_run(root):
        found = RunFolder(root)
        return {found.name: found}
    paths = sorted(path for path in root.iterdir() if path.is_dir() and _is_run(path))
    return {path.name: RunFolder(path, path.name) for path in paths}


def _is_run(path: Path) -> bool:
    try:
        return RunFolder(path).has_results or (path / "progress.json").is_file()
    except OSError:  # a folder that may not be looked into
        return False


class PageNotFoundError(UserError):
    """No such run, task or response."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """A task of a run."""

    library: Library
    run: RunFolder
    index: TaskIndex
    number: int

    @property
    def name(self) -> str:
        """The task's name."""
        return self.index.tasks[self.number]

    def agent(self, number: int) -> str:
        """The agent with that number."""
        agents = self.index.agents
        if not 0 <= number < len(agents):
            raise PageNotFoundError(f"no agent {number} in this run; agents are numbered 0 to {len(agents) - 1}")
        return agents[number].agent

    def scored_texts(self, row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, str]:
        """What was scored in a row of the logprobs table: the responses, or the rewrites of the rewriter it names."""
        rewriter = row.get("rewriter")
        if rewriter is None:
            return dict(texts)
        names = set(str(rewriter).split("+"))
        rewrites = [r for r in self.index.rows("rewrites", self.name).to_dicts() if r["rewriter"] in names]
        own = [r for r in rewrites if r.get("template") == row.get("template")] or rewrites
        return {r["agent"]: r["text"] for r in own if r.get("text")}


class Library:
    """Run folders and their indexes; nothing is written to the folders."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        find_runs(root)
        self.root = root
        self.journal = journal
        self.tokenizers = TokenTexts()
        self.maps = MapMaker(journal)

    def summaries(self) -> list[RunSummary]:
        """All runs, newest first."""
        summaries = []
        for run in find_runs(self.root).values():
            try:
                summaries.append(RunSummary.of(run))
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

    def index(self, run: RunFolder) -> TaskIndex:
        """Its scores and failures by task."""
        return kept_index(run)

    def task(self, name: str, number: int) -> RunTask:
        """The task with that number in a run."""
        run = self.run(name)
        index = self.index(run)
        if not 0 <= number < len(index.tasks):
            raise PageNotFoundError(f"no task {number} in this run; tasks are numbered 0 to {len(index.tasks) - 1}")
        return RunTask(self, run, index, number)
