"""The studies that are being labelled: where their labels go, which there are, and how far metrics agree with them."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlencode

import polars as pl

from goldless.apps.studio.label_file import LabelFile
from goldless.apps.studio.label_order import ORDERS, QUESTION, Order, Pair, Seat
from goldless.apps.studio.viewer.library import Library, find_runs
from goldless.errors import UserError
from goldless.meta_evaluation.ceiling import Ceiling, human_ceiling
from goldless.meta_evaluation.judges import scoring_judge
from goldless.metrics.label_agreement import Accuracy, accuracies
from goldless.metrics.pair_labels import pair_labels, usual_margin
from goldless.records import Preference
from goldless.reports.run_folder import Stamp, stamp
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study, read_study, write_study

FOLDER = "labels"
"""In the studio's folder: studies of runs and of single files, with their labels."""
COLUMNS = ("task", "first", "second", "rater", "preference", "criterion")
LONGEST_RATER = 80
LONGEST_CRITERION = 300


@dataclass(frozen=True, slots=True)
class Sitting:
    """What an address says: which study, who labels, by what, and in which order."""

    run: str
    study: str
    """The path of a study, if it is not that of a run."""
    seat: Seat
    order: Order
    question: str
    """What the labels are to decide, such as ``best`` or ``A>B``."""
    metrics: str
    """The run whose metrics are compared with the labels; empty: none."""

    @property
    def address(self) -> str:
        """The query of its addresses."""
        criterion = self.seat.criterion or ""
        named = {"run": self.run, "study": self.study, "rater": self.seat.rater, "criterion": criterion}
        rest = {"order": self.order, "question": self.question, "seed": str(self.seat.seed), "metrics": self.metrics}
        return urlencode({name: value for name, value in (named | rest).items() if value}, errors="surrogatepass")

    @property
    def at_random(self) -> str:
        """The same with pairs in random order."""
        return replace(self, order="random").address


def read_sitting(given: Mapping[str, str]) -> Sitting:
    """What an address says; an error names what is missing or wrong."""
    study = (given.get("study") or "").strip()
    run = "" if study else (given.get("run") or "")
    if not run and not study:
        raise UserError("choose a run, or name a study, to label its pairs")
    rater = (given.get("rater") or "").strip()
    if not rater or len(rater) > LONGEST_RATER:
        raise UserError(f"your name must have 1 to {LONGEST_RATER} characters, got {len(rater)}")
    criterion = (given.get("criterion") or "").strip()
    if len(criterion) > LONGEST_CRITERION:
        raise UserError(f"the criterion must have at most {LONGEST_CRITERION} characters, got {len(criterion):,}")
    order, seed = given.get("order") or "decisive", given.get("seed") or "0"
    if order not in ORDERS:
        raise UserError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if not re.fullmatch(r"[0-9]{1,9}", seed):
        raise UserError(f"seed must be a whole number from 0 to 999999999, got {seed[:40]!r}")
    question = (given.get("question") or "").strip() or QUESTION
    if len(question) > LONGEST_CRITERION:
        raise UserError(f"the question must have at most {LONGEST_CRITERION} characters, got {len(question):,}")
    seat = Seat(rater, criterion or None, int(seed))
    return Sitting(run, study, seat, order, question, given.get("metrics") or "")


@dataclass(slots=True)
class OpenStudy:
    """A study on the desk, and its labels as they are in the file."""

    folder: Path
    study: Study
    preferences: list[Preference]
    read_at: Stamp
    answers: Mapping[str, tuple[str, ...]]
    given: dict[Seat, list[Preference]] = field(default_factory=dict)
    """Labels given since the studio was started, which can be undone."""

    def on(self, criterion: str | None) -> list[Preference]:
        """All preferences on a criterion."""
        return [label for label in self.preferences if label.criterion == criterion]

    @property
    def criteria(self) -> list[str]:
        """The criteria of its labels."""
        named = {label.criterion for label in self.study.labels()} | {label.criterion for label in self.preferences}
        return sorted(name for name in named if name is not None)


class Desk:
    """Opens studies and writes labels, one change at a time."""

    def __init__(self, library: Library, folder: Path) -> None:
        self._library = library
        self._folder = folder / FOLDER
        self._open: dict[Path, OpenStudy] = {}
        self._copies: dict[Path, tuple[Stamp, Path]] = {}
        self._lock = threading.RLock()

    def open(self, sitting: Sitting) -> OpenStudy:
        """The study, read again if its labels were changed by anything else."""
        with self._lock:
            folder = self._place(sitting)
            kept = self._open.get(folder)
            if kept is None or kept.read_at != stamp([LabelFile(folder).path]):
                kept = self._open[folder] = _opened(folder, {} if kept is None else kept.given)
            return kept

    def add(self, sitting: Sitting, pair: Pair, preference: float) -> bool:
        """Write a label; False: this rater has labelled the pair already."""
        with self._lock:
            desk, seat = self.open(sitting), sitting.seat
            if any(
                label.rater == seat.rater and label.task == pair.task and pair.agents == {label.first, label.second}
                for label in desk.on(seat.criterion)
            ):
                return False
            label = Preference(pair.task, pair.left, pair.right, seat.rater, preference, seat.criterion)
            LabelFile(desk.folder).add(label)
            desk.preferences.append(label)
            desk.given.setdefault(seat, []).append(label)
            desk.read_at = stamp([LabelFile(desk.folder).path])
            return True

    def undo(self, sitting: Sitting) -> Preference | None:
        """Take back the last label that this rater gave; None: there is none since the studio was started."""
        with self._lock:
            desk = self.open(sitting)
            given = desk.given.get(sitting.seat, [])
            if not given:
                return None
            label = given.pop()
            LabelFile(desk.folder).remove(label)
            if label in desk.preferences:
                desk.preferences.remove(label)
            desk.read_at = stamp([LabelFile(desk.folder).path])
            return label

    def _place(self, sitting: Sitting) -> Path:
        """The folder that labels are written to: the study's own, or a copy for a run and for a single file."""
        if not sitting.study:
            run = self._library.run(sitting.run)
            return self._copied(run.path, run.name)
        path = Path(sitting.study).expanduser()
        if not path.exists():
            raise UserError(f"{path}: no such file or folder. Give the path of a study, or of a table of responses")
        own = path.is_dir() and [run.path for run in find_runs(path).values()] != [path]
        return path.resolve() if own else self._copied(path, path.stem)

    def _copied(self, path: Path, name: str) -> Path:
        """The copy, made the first time; one for each state of the texts, so that labels stay with what was read."""
        now = stamp(sorted(path.iterdir()) if path.is_dir() else [path])
        kept = self._copies.get(path)
        if kept is not None and kept[0] == now and kept[1].is_dir():
            return kept[1]
        study = read_study(path)
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:60] or "study"
        folder = self._folder / f"{plain}-{study.fingerprint[:8]}"
        if not folder.is_dir():
            write_study(study.without_recorded(), folder)
        self._copies[path] = now, folder
        return folder

    def scores(self, sitting: Sitting) -> pl.DataFrame | None:
        """The scores of the chosen run's metrics; None: no run is chosen."""
        name = sitting.metrics or sitting.run
        return self._library.index(self._library.run(name)).scores if name else None

    def dropped(self) -> list[Path]:
        """Files that were dropped on the studio."""
        return sorted(path for path in self._folder.parent.glob("files/*/*") if path.is_file())


def _opened(folder: Path, given: dict[Seat, list[Preference]]) -> OpenStudy:
    before = stamp([LabelFile(folder).path])
    study = read_study(folder)
    answers = {task.task: tuple(response.agent for response in responses) for task, responses in study}
    if not any(len(agents) > 1 for agents in answers.values()):
        raise UserError(f"{study.name} has no task with two responses, so there are no pairs to label")
    return OpenStudy(folder, study, list(study.preferences()), before, answers, given)


def as_table(labels: list[Preference]) -> pl.DataFrame:
    """Labels with the columns of the labels table."""
    schema = {name: pl.Float64 if name == "preference" else pl.String for name in COLUMNS}
    rows = [tuple(getattr(label, name) for name in COLUMNS) for label in labels]
    return pl.DataFrame(rows, schema=schema, orient="row")


# --- what the labels say ---------------------------------------------------------------------------------------------


DRAWS: Draws = {"seed": 0, "resamples": 500, "level": 0.95}
"""Fewer than a report has, since they are drawn again with every label."""


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """What the labels say so far."""

    labels: int
    raters: int
    pairs: int
    decided: int
    """Pairs in which one response is better, by the votes of all raters."""
    metrics: tuple[Accuracy, ...]
    """Highest first."""
    ceiling: Ceiling


def label_agreement(study: Study, labels: Sequence[Preference], scores: pl.DataFrame | None) -> LabelAgreement | None:
    """Agreement on one criterion; None: there are no labels. ``scores``: metric, task, agent, score."""
    if not labels:
        return None
    # only what was labelled: a large study is as quick as a small one
    tasks, agents = list(dict.fromkeys(label.task for label in labels)), [agent.agent for agent in study.agents]
    voted = pair_labels([], labels, tasks=tasks, agents=agents, least_margin=usual_margin(labels))
    found: list[Accuracy] = []
    if voted.n_decided and scores is not None:
        known: dict[str, dict[tuple[str, str], float | None]] = {}
        rows = scores.filter(pl.col("task").is_in(tasks)).select("metric", "task", "agent", "score")
        for metric, task, agent, score in rows.iter_rows():
            known.setdefault(metric, {})[task, agent] = score
        judges = [scoring_judge(name, "scores", some, tasks=tasks, agents=agents) for name, some in known.items()]
        found = accuracies([judge.credits(voted, "default") for judge in judges], **DRAWS)
    return LabelAgreement(
        labels=len(labels),
        raters=len({label.rater for label in labels}),
        pairs=voted.n_pairs,
        decided=voted.n_decided,
        metrics=tuple(sorted(found, key=lambda one: (one.accuracy is None, -(one.accuracy or 0.0)))),
        ceiling=human_ceiling([], labels, tasks=tasks, agents=agents, draws=DRAWS),
    )
