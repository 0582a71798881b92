"""The library: the runs in a folder, their results and progress, and the indexes of their evidence."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from goldless.errors import UserError, nearest
from goldless.models.embedded import TokenTexts
from goldless.reports.documents.fields import Part, Result, Unreadable, read_document
from goldless.reports.documents.meta_evaluation import CrashTestDocument
from goldless.reports.documents.scores import (
    AgentScore,
    LeaderboardDocument,
    MadeByDocument,
    ProgressDocument,
    RankedAgent,
    ReviewDocument,
)
from goldless.reports.html.run_results import RESULTS
from goldless.viewer.evidence_tables import Stamp, stamp
from goldless.viewer.pair_map import MapMaker
from goldless.viewer.prompts import JournalLookup
from goldless.viewer.task_index import IndexShelf, TaskIndex

MAIN = ("leaderboard", "review", "crash_test")
"""Results that the viewer shows; of others it only lists the names."""
STALE_SECONDS = 120
"""A run without progress for this long may have been killed."""

State = Literal["complete", "incomplete", "running", "silent", "failed", "interrupted", "damaged", "unknown"]
Found = TypeVar("Found", bound=Part)


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
    progress: ProgressDocument | None = None
    has_report: bool = False
    leader: str | None = None
    """The agent ranked first under the first metric, or in the first ranking."""
    leader_score: float | None = None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with results or with a run in progress; an unreadable document counts as absent."""

    name: str
    path: Path

    def read(self, name: str, kind: type[Found]) -> Found | Unreadable | None:
        """The document of that name."""
        return _read(self.path / f"{name}.json", kind, stamp([self.path / f"{name}.json"]))  # type: ignore[return-value]

    def _document(self, name: str, kind: type[Found]) -> Found | None:
        found = self.read(name, kind)
        return None if isinstance(found, Unreadable) else found

    @property
    def leaderboard(self) -> LeaderboardDocument | None:
        """Its leaderboards."""
        return self._document("leaderboard", LeaderboardDocument)

    @property
    def review(self) -> ReviewDocument | None:
        """Its review."""
        return self._document("review", ReviewDocument)

    @property
    def crash_test(self) -> CrashTestDocument | None:
        """Its crash test."""
        return self._document("crash_test", CrashTestDocument)

    @property
    def made_by(self) -> MadeByDocument:
        """How its results were made."""
        return self._document("made_by", MadeByDocument) or MadeByDocument()

    @property
    def progress(self) -> ProgressDocument | None:
        """The progress of the run; None: not recorded."""
        return self._document("progress", ProgressDocument)

    @property
    def ranked(self) -> list[tuple[str, float | None]]:
        """Agents and scores under the first metric, or in the first ranking of a review, best first."""
        leaderboard, review = self.leaderboard, self.review
        boards = [board.rows for board in (leaderboard.boards if leaderboard else {}).values() if board.rows]
        rankings = [ranking.agents for ranking in (review.rankings if review else {}).values() if ranking.agents]
        rows: Sequence[AgentScore | RankedAgent] = next(iter([*boards, *rankings]), ())
        return [(row.agent, row.score) for row in sorted(rows, key=lambda row: (row.rank is None, row.rank or 0))]

    @property
    def others(self) -> dict[str, Result]:
        """Its results without a leaderboard, such as ``agreement``."""
        found = {name: self._document(name, kind) for name, kind in RESULTS.items() if name not in MAIN}
        return {name: document for name, document in found.items() if document is not None}

    @property
    def problems(self) -> Iterator[str]:
        """Result files that cannot be read."""
        kinds: dict[str, type[Part]] = {**RESULTS, "made_by": MadeByDocument}
        found = (self.read(name, kind) for name, kind in kinds.items())
        return (str(one) for one in found if isinstance(one, Unreadable))

    @property
    def report(self) -> Path | None:
        """Its report; None: there is none, or it is a link out of the folder, which is not followed."""
        path = self.path / "report.html"
        return path if path.is_file() and path.resolve().is_relative_to(self.path.resolve()) else None

    @property
    def running(self) -> bool:
        """Whether a run is in progress in it."""
        progress = self.progress
        return progress is not None and progress.state == "running"

    def summary(self) -> RunSummary:
        """Its row in the list of runs."""
        leaderboard, review, crash, others = self.leaderboard, self.review, self.crash_test, self.others
        results = [] if leaderboard is None else [*leaderboard.metrics]
        results += [] if review is None else [f"review ({review.scale})"]
        results += [] if crash is None else ["crash test"]
        main = [found for found in (leaderboard, review) if found is not None]
        found = [*main, *([] if crash is None else [crash]), *others.values()]
        state = _state(self.progress, main or found)
        leader, score = next(iter(self.ranked), (None, None))
        return RunSummary(
            name=self.name,
            study=next((one.study for one in (*found, self.made_by) if one.study), None),
            results=(*results, *others),
            made_at=self._made_at(),
            state="damaged" if state == "unknown" and any(self.problems) else state,
            missing=sum(n for one in main for n in one.failures.values()) if main else None,
            progress=self.progress,
            has_report=self.report is not None,
            leader=leader,
            leader_score=score,
        )

    def _made_at(self) -> datetime | None:
        times = []
        for made in self.made_by.made.values():
            try:
                times.append(datetime.fromisoformat(made.at).astimezone(UTC))
            except (ValueError, OverflowError):
                continue
        if times:
            return max(times)
        written = stamp(self.path / f"{name}.json" for name in (*RESULTS, "progress"))
        return datetime.fromtimestamp(written[0][1] / 1e9, UTC) if written else None


@functools.lru_cache(maxsize=256)
def _read(path: Path, kind: type[Part], _: Stamp) -> Part | Unreadable | None:
    return read_document(path, kind)


def find_runs(root: Path) -> dict[str, RunFolder]:
    """The run folders by name: the folder itself if it is one, otherwise those in it."""
    if not root.is_dir():
        raise UserError(
            f"{root}: no such folder. Give a folder of run folders, or one run folder, as written by goldless "
            "score STUDY --out RUN"
        )
    if _is_run(root):
        return {root.resolve().name: RunFolder(root.resolve().name, root)}
    found = sorted(path for path in root.iterdir() if path.is_dir() and _is_run(path))
    return {path.name: RunFolder(path.name, path) for path in found}


def listed(root: Path) -> Sequence[RunSummary]:
    """All runs, newest first."""
    summaries = [_summary(run) for run in find_runs(root).values()]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(summaries, key=lambda run: (run.made_at or oldest, run.name), reverse=True)


def _summary(run: RunFolder) -> RunSummary:
    """Its summary; only the name if its files are unreadable, so that one folder cannot hide the others."""
    try:
        return run.summary()
    except Exception:  # noqa: BLE001 - whatever a file holds, the other runs are listed
        return RunSummary(run.name)


def _is_run(path: Path) -> bool:
    try:
        return any((path / f"{name}.json").is_file() for name in (*RESULTS, "progress"))
    except OSError:  # a folder that may not be looked into
        return False


def _state(progress: ProgressDocument | None, results: Sequence[Result]) -> State:
    if progress is not None and progress.state == "running":
        age = None if progress.updated_at is None else datetime.now(UTC).timestamp() - progress.updated_at
        return "silent" if age is not None and age > STALE_SECONDS else "running"
    if progress is not None and progress.state in {"failed", "interrupted"}:
        return "failed" if progress.state == "failed" else "interrupted"
    if not results:
        return "unknown"
    return "complete" if all(found.complete for found in results) else "incomplete"


class PageNotFoundError(UserError):
    """No such run, task or response."""


class Library:
    """Run folders and their indexes; nothing is written to the folders."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        find_runs(root)
        self.root = root
        self.journal = JournalLookup(journal)
        self.tokenizers = TokenTexts()
        self.maps = MapMaker(journal)
        self._shelf = IndexShelf()

    def summaries(self) -> list[RunSummary]:
        """All runs, newest first."""
        return list(listed(self.root))

    def run(self, name: str) -> RunFolder:
        """The run of that name, among those found in the folder, so that a name never becomes a path."""
        runs = find_runs(self.root)
        if name not in runs:
            raise PageNotFoundError(f"no run {name!r} here{nearest(name, runs)}")
        return runs[name]

    def index(self, run: RunFolder) -> TaskIndex:
        """Its scores and failures by task."""
        return self._shelf.index(run.path)
