"""Label pairs blind, by keyboard: where labels go, which pair a rater is shown next, what the labels say, the pages.

``decisive``: a pair of agents on which a question such as ``best`` still depends, by the confidence sequence of
``goldless score --until``: that which the fewest more tasks would decide, each on a random task. Once the question is
decided there is none.
``random``: every pair that the rater has not labelled is as likely as any other.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlencode

import numpy as np
from aiohttp import web

from goldless.apps.studio.site import PageNotFoundError, Studio
from goldless.apps.studio.task_index import is_run
from goldless.errors import UserError
from goldless.meta_evaluation.agreement import preference_agreement
from goldless.records import Preference
from goldless.reports.html.blocks import table_html
from goldless.reports.run_folder import RunFolder, stamp
from goldless.statistics.answering import Decision, decide
from goldless.studies import Study, read_study, write_study
from goldless.studies.writing import change_labels

Given = Mapping[str, str]
Order = Literal["decisive", "random"]
ORDERS: tuple[Order, ...] = get_args(Order)
QUESTION = "best"
LONGEST = {"rater": ("your name", 80), "criterion": ("the criterion", 300), "question": ("the question", 300)}
Answers = Mapping[str, Sequence[str]]
"""The agents that responded, by task."""


@dataclass(frozen=True)
class Pair:
    """Two responses to one task, by their agents, on the sides where they are shown."""

    task: str
    left: str
    right: str


@dataclass(frozen=True)
class LabelSession:
    """The rater, study, criterion and order of a labelling session; it seeds the order and the sides."""

    rater: str
    run: str = ""
    study: str = ""
    """The path of a study, if it is not that of a run."""
    criterion: str | None = None
    order: Order = "decisive"
    question: str = QUESTION
    """The question that the labels are to decide, such as ``best`` or ``A>B``."""
    seed: int = 0
    metrics: str = ""
    """The run whose metrics are compared with the labels; empty: the run that is labelled."""

    @property
    def address(self) -> str:
        said = {name: value for name, value in asdict(self).items() if value}
        return urlencode(said | {"seed": self.seed}, errors="surrogatepass")

    @property
    def at_random(self) -> str:
        return replace(self, order="random").address

    def key(self, *parts: str) -> bytes:
        """A number that looks random, the same for the same rater, criterion, seed and parts."""
        named = "\0".join((str(self.seed), self.rater, self.criterion or "", *parts))
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).digest()

    def sided(self, task: str, one: str, other: str) -> Pair:
        one, other = sorted((one, other))
        return Pair(task, one, other) if self.key(task, one, other)[0] & 1 else Pair(task, other, one)

    def name(self, pair: Pair) -> str:
        """An opaque name of a pair, from which its agents cannot be read."""
        return self.key(pair.task, pair.left, pair.right).hex()[:24]

    def named(self, answers: Answers, task: str, name: str) -> Pair | None:
        pairs = (self.sided(task, *two) for two in combinations(answers.get(task, ()), 2))
        return next((pair for pair in pairs if self.name(pair) == name), None)


def read_sitting(given: Mapping[str, str]) -> LabelSession:
    """The session an address describes; an error names what is missing or wrong."""
    said = {name: (given.get(name) or "").strip() for name in (*LONGEST, "study")}
    run = "" if said["study"] else (given.get("run") or "")
    if not run and not said["study"]:
        raise UserError("choose a run, or name a study, to label its pairs")
    if not said["rater"]:
        raise UserError("your name must have 1 to 80 characters, got 0")
    for name, (title, most) in LONGEST.items():
        if len(said[name]) > most:
            raise UserError(f"{title} must have at most {most} characters, got {len(said[name]):,}")
    order, seed = given.get("order") or "decisive", given.get("seed") or "0"
    if order not in ORDERS:
        raise UserError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    if not re.fullmatch(r"[0-9]{1,9}", seed):
        raise UserError(f"seed must be a whole number from 0 to 999999999, got {seed[:40]!r}")
    more = {name: value for name, value in said.items() if value}
    return LabelSession(**more, run=run, order=order, seed=int(seed), metrics=given.get("metrics") or "")


# --- which pair is next ----------------------------------------------------------------------------------------------

FIRST_LOOKS = 2
"""Labels of each pair of agents before it is guessed how many more would decide."""


def decide_question(answers: Answers, labels: Sequence[Preference], question: str = QUESTION) -> Decision:
    """The answer of all raters' labels on one criterion."""
    agents = sorted({agent for some in answers.values() for agent in some})
    return decide(agents, labels, question, option="the question")


def next_pair(answers: Answers, sitting: LabelSession, labels: Sequence[Preference]) -> Pair | None:
    """The next pair for a rater; None: none is left that matters. ``labels``: those on the criterion, by all raters."""
    done = {(one.task, frozenset((one.first, one.second))) for one in labels if one.rater == sitting.rater}
    chance = np.random.default_rng(int.from_bytes(sitting.key("order")[:8], "big"))
    names = list(answers)
    tasks = [names[place] for place in chance.permutation(len(names))]
    if sitting.order == "random":
        # the open pair whose key is lowest, on the task with the fewest labels of this rater
        labelled = Counter(task for task, _ in done)
        for task in sorted(tasks, key=lambda task: labelled[task]):
            left = [pair for pair in combinations(answers[task], 2) if (task, frozenset(pair)) not in done]
            if left:
                return sitting.sided(task, *min(left, key=lambda pair: sitting.key(task, *sorted(pair), "order")))
        return None

    def soonest(one: Any) -> tuple[bool, float, int, bytes]:
        """Sort comparisons: the one that is decided soonest first, equal ones at random."""
        more = math.inf if one.more_tasks is None else one.more_tasks
        return one.n >= FIRST_LOOKS, more, one.n, sitting.key(*sorted((one.first, one.second)), str(one.n))

    found = decide_question(answers, labels, sitting.question)
    for one in sorted(found.matter, key=soonest):
        two = {one.first, one.second}
        for task in tasks if two <= found.open and not one.decided else ():
            if two <= set(answers[task]) and (task, frozenset(two)) not in done:
                return sitting.sided(task, *two)
    return None


# --- where labels go -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenStudy:
    """A study on the desk, with its labels as they are in the file."""

    folder: Path
    study: Study
    answers: Answers
    labels: tuple[Preference, ...]
    """Those on the criterion of the sitting."""

    def labelled_by(self, sitting: LabelSession) -> list[Pair]:
        """The pairs that its rater has labelled, on the sides where this sitting shows them."""
        mine = (label for label in self.labels if label.rater == sitting.rater)
        return [sitting.sided(label.task, label.first, label.second) for label in mine]


class Desk:
    """Opens studies and writes labels, one change at a time."""

    def __init__(self, run: Callable[[str], RunFolder], folder: Path) -> None:
        """``run``: finds a run by its name."""
        self._run = run
        self._folder = folder / "labels"
        self.given: dict[LabelSession, list[Preference]] = {}
        """Labels given since the studio was started, which can be undone."""
        self._lock = threading.RLock()

    def open(self, sitting: LabelSession) -> OpenStudy:
        """The study, read again if its labels were changed by anything else."""
        with self._lock:
            folder = self._place(sitting)
            study, answers = _kept_study(folder)
            if not any(len(agents) > 1 for agents in answers.values()):
                raise UserError(f"{study.name} has no task with two responses, so there are no pairs to label")
            labels = tuple(label for label in study.preferences() if label.criterion == sitting.criterion)
            return OpenStudy(folder, study, answers, labels)

    def _place(self, sitting: LabelSession) -> Path:
        """The folder that labels are written to: the study's own, or a copy for a run and for a single file."""
        run = None if sitting.study else self._run(sitting.run)
        path = Path(sitting.study).expanduser() if run is None else run.path
        if not path.exists():
            raise UserError(f"{path}: no such file or folder. Give the path of a study, or of a table of responses")
        if run is None and path.is_dir() and not is_run(path):
            return path.resolve()
        # one copy for each state of the texts, so that labels stay with what was read
        study, _ = _kept_study(path)
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", run.name if run else path.stem).strip(".-")[:60] or "study"
        folder = self._folder / f"{plain}-{study.fingerprint[:8]}"
        if not folder.is_dir():
            write_study(study.without_recorded(), folder)
        return folder

    def add(self, sitting: LabelSession, pair: Pair, preference: float) -> bool:
        """Write a label; False: this rater has labelled the pair already."""
        with self._lock:
            desk = self.open(sitting)
            if sitting.sided(pair.task, pair.left, pair.right) in desk.labelled_by(sitting):
                return False
            label = Preference(pair.task, pair.left, pair.right, sitting.rater, preference, sitting.criterion)
            change_labels(desk.folder, label, add=True)
            self.given.setdefault(sitting, []).append(label)
            return True

    def undo(self, sitting: LabelSession) -> Preference | None:
        """Take back the last label that this rater gave; None: there is none since the studio was started."""
        with self._lock:
            if not self.given.get(sitting):
                return None
            label = self.given[sitting].pop()
            change_labels(self.open(sitting).folder, label, add=False)
            return label


@functools.lru_cache(maxsize=8)
def desk_of(studio: Studio) -> Desk:
    """The desk of a studio."""
    return Desk(studio.run, studio.folder)


def _kept_study(path: Path) -> tuple[Study, Answers]:
    return _read_study(path, stamp(sorted(path.iterdir()) if path.is_dir() else [path]))


@functools.lru_cache(maxsize=8)
def _read_study(path: Path, _: object) -> tuple[Study, Answers]:
    """The study and who responded, kept as long as nothing is written to it."""
    study = read_study(path)
    return study, {task.task: tuple(response.agent for response in responses) for task, responses in study}


# --- pages -----------------------------------------------------------------------------------------------------------

LEVEL = 0.95
RESAMPLES = 500
"""Fewer than a report has, since they are drawn again with every label."""
VERDICTS = {"a": 1.0, "b": -1.0, "tie": 0.0}
"""The preference for the response on the left that each button stands for."""


def label_start(studio: Studio, given: Given) -> str:
    """The form that says what to label."""
    runs = [run for run in studio.summaries() if run.results]
    dropped = sorted(path for path in studio.folder.glob("files/*/*") if path.is_file())
    return studio.page("label.html", runs=runs, dropped=dropped, given=given, orders=ORDERS, question=QUESTION)


def label_pair(studio: Studio, given: Given) -> str:
    """The next pair, or the one whose label was taken back, unless it was labelled in the meantime."""
    sitting = read_sitting(given)
    desk = desk_of(studio).open(sitting)
    mine = desk.labelled_by(sitting)
    pair = _named(desk, sitting, given.get("task"), given.get("again"))
    if pair is None or pair in mine:
        pair = next_pair(desk.answers, sitting, desk.labels)
    shown: dict[str, Any] = {"pair": None}
    if pair is not None:
        texts = [desk.study.response(pair.task, agent) for agent in (pair.left, pair.right)]
        shown = {
            "pair": sitting.name(pair),
            "number": list(desk.answers).index(pair.task),
            "prompt": desk.study.task(pair.task).prompt,
            "texts": [response.text if response else "" for response in texts],
        }
    metrics = sitting.metrics or sitting.run
    scores = studio.indexed(metrics).scores if metrics else None
    agreement = preference_agreement(desk.study, desk.labels, scores, resamples=RESAMPLES, level=LEVEL)
    tables = [] if agreement is None else [agreement.judge_table(LEVEL), agreement.ceiling_table(LEVEL)]
    return studio.page(
        "label_pair.html",
        sitting=sitting,
        study=sitting.run or desk.study.name,
        file=desk.folder,
        mine=len(mine),
        of=sum(math.comb(len(agents), 2) for agents in desk.answers.values()),
        undoable=bool(desk_of(studio).given.get(sitting)),
        agreement=agreement,
        tables=[(one.title, table_html(one.columns, one.rows, one.title) if one.rows else "") for one in tables],
        decision=decide_question(desk.answers, desk.labels, sitting.question),
        **shown,
    )


def _named(desk: OpenStudy, sitting: LabelSession, number: str | None, name: str | None) -> Pair | None:
    """The pair of an opaque name, on the task of that number."""
    tasks = list(desk.answers)
    if not name or not number or not number.isascii() or not number.isdigit() or int(number[:9]) >= len(tasks):
        return None
    return sitting.named(desk.answers, tasks[int(number[:9])], name)


def label_verdict(studio: Studio, given: Given) -> web.Response:
    """Write a label, or take the last one back, and show the next pair."""
    sitting, verdict = read_sitting(given), given.get("verdict")
    address = f"/label/pairs?{sitting.address}"
    desk = desk_of(studio).open(sitting)
    if verdict == "undo":
        label = desk_of(studio).undo(sitting)
        if label is not None:
            name = sitting.name(Pair(label.task, label.first, label.second))
            address += f"&task={list(desk.answers).index(label.task)}&again={name}"
        return studio.see(address)
    if verdict not in VERDICTS:
        raise UserError(f"the verdict must be one of {', '.join(VERDICTS)} or undo, got {verdict!r}")
    pair = _named(desk, sitting, given.get("task"), given.get("pair"))
    if pair is None:
        raise PageNotFoundError("this pair is not in the study, or the study was changed. Nothing was written")
    desk_of(studio).add(sitting, pair, VERDICTS[verdict])
    return studio.see(address)
