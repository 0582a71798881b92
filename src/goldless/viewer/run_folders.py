"""Run folders: which there are, and what each holds, how far it is and when it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from goldless.errors import UserError
from goldless.viewer.documents import Document, part, read_document, rows

RESULTS = ("leaderboard.json", "review.json", "crash_test.json")
OTHER_RESULTS = ("agreement.json", "bias.json", "cost.json", "consistency.json")
PROGRESS = "progress.json"
STALE_SECONDS = 120
"""A run that has not said anything for so long may have been killed."""
LARGEST = 1e18
"""Numbers beyond it, and those that are none, are taken for missing."""

State = Literal["complete", "incomplete", "running", "silent", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, as its folder says."""

    state: str
    stage: str | None = None
    done: int | None = None
    total: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    updated_at: float | None = None
    message: str | None = None

    @property
    def share(self) -> float | None:
        """Done of total, between 0 and 1; None: not known."""
        if self.done is None or not self.total:
            return None
        return min(1.0, max(0.0, self.done / self.total))


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of the list of runs."""

    name: str
    study: str | None
    results: tuple[str, ...]
    """What was made: metrics, ``review (SCALE)``, ``crash test``."""
    made_at: datetime | None
    state: State
    missing: int | None
    """Pieces of evidence that are missing, by all results together; None: there are no results that say it."""
    progress: Progress | None
    has_report: bool


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with results, or with a run that is going on."""

    name: str
    path: Path

    def document(self, name: str) -> Document:
        """One of its result documents; empty where it is not there."""
        return read_document(self.path / name)

    @property
    def progress(self) -> Progress | None:
        """How far the run is; None: the folder does not say."""
        found = self.document(PROGRESS)
        if not found:
            return None
        return Progress(
            state=str(found.get("state", "unknown")),
            stage=_text(found.get("stage")),
            done=_whole(found.get("done")),
            total=_whole(found.get("total")),
            tokens=_whole(found.get("tokens")),
            cost_usd=_number(found.get("cost_usd")),
            updated_at=_number(found.get("updated_at")),
            message=_text(found.get("message")) or _text(found.get("error")),
        )

    @property
    def report(self) -> Path | None:
        """Its report; None: there is none, or it is a link that leads out of the folder, which is not followed."""
        path = self.path / "report.html"
        return path if path.is_file() and path.resolve().is_relative_to(self.path.resolve()) else None

    @property
    def others(self) -> dict[str, Document]:
        """Its results without a leaderboard, such as ``agreement``."""
        found = {name.removesuffix(".json"): self.document(name) for name in OTHER_RESULTS}
        return {name: document for name, document in found.items() if document}

    @property
    def running(self) -> bool:
        """Whether a run is going on in it."""
        progress = self.progress
        return progress is not None and progress.state == "running"

    def summary(self) -> RunSummary:
        """What the list of runs says of it."""
        leaderboard, review, crash = (self.document(name) for name in RESULTS)
        made_by, progress, others = self.document("made_by.json"), self.progress, self.others
        results = [*part(leaderboard, "metrics")]
        if review:
            results.append(f"review ({review.get('scale', '?')})")
        if crash:
            results.append("crash test")
        results += others
        studies = (_text(found.get("study")) for found in (leaderboard, review, crash, made_by, *others.values()))
        main = [found for found in (leaderboard, review) if found]
        failed = [part(found, "failures") for found in main]
        return RunSummary(
            name=self.name,
            study=next((study for study in studies if study), None),
            results=tuple(results),
            made_at=self._made_at(made_by),
            state=_state(progress, main or ([crash] if crash else list(others.values()))),
            missing=sum(_whole(n) or 0 for found in failed for n in found.values()) if failed else None,
            progress=progress,
            has_report=self.report is not None,
        )

    def _made_at(self, made_by: Document) -> datetime | None:
        times = []
        for made in part(made_by, "made").values():
            try:
                times.append(datetime.fromisoformat(made["at"]).astimezone(UTC))
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
        if times:
            return max(times)
        for name in (*RESULTS, *OTHER_RESULTS, PROGRESS):
            try:
                return datetime.fromtimestamp((self.path / name).stat().st_mtime, UTC)
            except OSError:
                continue
        return None


def find_runs(root: Path) -> dict[str, RunFolder]:
    """The run folders by name: the folder itself where it is one, else those in it."""
    if not root.is_dir():
        raise UserError(
            f"{root}: no such folder. Give a folder of run folders, or one run folder: goldless score STUDY --out RUN "
            "writes one."
        )
    if _is_run(root):
        return {root.resolve().name: RunFolder(root.resolve().name, root)}
    found = sorted(path for path in root.iterdir() if path.is_dir() and _is_run(path))
    return {path.name: RunFolder(path.name, path) for path in found}


def listed(root: Path) -> Sequence[RunSummary]:
    """All runs, the newest first."""
    summaries = [_summary(run) for run in find_runs(root).values()]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(summaries, key=lambda run: (run.made_at or oldest, run.name), reverse=True)


def _summary(run: RunFolder) -> RunSummary:
    """Its summary; where files of strangers make that impossible, the name alone: one folder hides no other."""
    try:
        return run.summary()
    except Exception:  # noqa: BLE001 - whatever a file holds, the other runs are listed
        return RunSummary(run.name, None, (), None, "unknown", None, None, has_report=False)


def _is_run(path: Path) -> bool:
    try:
        return any((path / name).is_file() for name in (*RESULTS, *OTHER_RESULTS, PROGRESS))
    except OSError:  # a folder that may not be looked into
        return False


def _state(progress: Progress | None, results: Sequence[Document]) -> State:
    if progress is not None and progress.state == "running":
        age = None if progress.updated_at is None else datetime.now(UTC).timestamp() - progress.updated_at
        return "silent" if age is not None and age > STALE_SECONDS else "running"
    if progress is not None and progress.state == "failed":
        return "failed"
    if not results:
        return "unknown"
    return "complete" if all(found.get("complete", True) for found in results) else "incomplete"


def crash_rows(crash: Document) -> list[tuple[str, Mapping[str, object]]]:
    """The effects of a crash test, each with its metric."""
    return [(metric, row) for metric, found in part(crash, "metrics").items() for row in rows(found, "perturbations")]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    found = _number(value)
    return None if found is None else int(found)


def _number(value: object) -> float | None:
    # a comparison is false of NaN, and takes whole numbers that no float can hold
    there = isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST
    return float(value) if there else None  # type: ignore[arg-type]
