"""Submissions to a public board: reviews, never numbers, each kept with its hash in a log that only grows.

Every line of ``submissions.jsonl`` has the hash of the line before it, so that a line taken out or changed later shows.
A team's best submission is shown with its n, the score corrected for the choice, and the interval that allows for it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from goldless import Evaluation
from goldless.apps.gre.edition import Edition
from goldless.apps.gre.paper_folder import CheckedTable
from goldless.apps.gre.paper_text import storable
from goldless.apps.gre.papers import reads_as_person
from goldless.apps.gre.results import estimate_columns
from goldless.apps.gre.reviewing import SUBMITTED, Generated, GeneratedReview, add_reviews
from goldless.apps.gre_board.best_of import best_of
from goldless.errors import UserError
from goldless.files import alone, write_whole
from goldless.records import Agent
from goldless.reports.document import cells, read
from goldless.reports.report_table import Column, ReportTable
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, Estimate
from goldless.studies import Study
from goldless.studies.checking import all_at_once

LOG = "submissions.jsonl"
KEPT = "submissions"
"""The folder of the files as they were submitted."""
MOST_CHARACTERS = 50_000
"""Of one review: about ten times a long human one."""
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,62}[A-Za-z0-9._+-])?")
BEGINNING = "0" * 64


@dataclass(frozen=True)
class Submission:
    """One line of the log."""

    number: int
    date: str
    team: str
    name: str
    """The agent under which its reviews are scored."""
    sha256: str
    """Of the file as it was submitted."""
    reviews: int
    missing: int
    """Papers without a review."""
    previous: str
    """SHA-256 of the line before it."""


def submit(edition: Edition, file: Path, *, name: str, team: str) -> tuple[Submission, int]:
    """Check reviews in a JSONL file, log them, and add them to the study; returns how many the team has submitted.

    The same file under the same name again only completes what was interrupted.
    """
    if file.suffix.lower() != ".jsonl" or not file.is_file():
        raise UserError(f"{file}: a submission must be a .jsonl file with a paper and a text on each line")
    with alone(edition.folder):  # numbers and hashes of the log must follow each other
        whole, log, sha256 = edition.whole_study(), read_log(edition.folder), _hash(file.read_bytes())
        again = next((one for one in log if (one.name, one.team, one.sha256) == (name, team, sha256)), None)
        if again is None:
            _refuse(edition, whole, log, name=name, team=team, sha256=sha256)
        elif any(agent.agent == name for agent in whole.agents):
            raise UserError(
                f"{file.name} was submitted as {name} before, with number {again.number}. Nothing was added"
            )
        reviews = read_reviews(file, whole)
        submission = again or Submission(
            number=len(log) + 1,
            date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            team=team,
            name=name,
            sha256=sha256,
            reviews=len(reviews),
            missing=len(whole.tasks) - len(reviews),
            previous=_hash((edition.folder / LOG).read_bytes().splitlines()[-1]) if log else BEGINNING,
        )
        file_copy = edition.folder / KEPT / f"{submission.number}-{sha256[:12]}.jsonl"
        file_copy.parent.mkdir(exist_ok=True)
        write_whole(file_copy, lambda aside: shutil.copyfile(file, aside))
        if again is None:
            with (edition.folder / LOG).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(submission), ensure_ascii=False) + "\n")
        writer, review_settings = f"{SUBMITTED}{submission.number} of {team}", {"prompt": "submitted"}
        settings = str(Signature("review", {"model": f"submission-{submission.number}", **review_settings}))
        written = tuple(GeneratedReview(name, writer, *one, "stop", settings=settings) for one in reviews.items())
        add_reviews(edition.study_folder, Generated((Agent(name, "model"),), written, review_settings))
        return submission, sum(one.team == team for one in log) + (again is None)


def _refuse(edition: Edition, whole: Study, log: Sequence[Submission], *, name: str, team: str, sha256: str) -> None:
    """Reject names that are taken, misleading or unprintable, and reviews that are there already; all at once."""
    wrong = [
        f"--{what} must be 1 to 64 letters of A to Z, digits, spaces and . _ + -, got {given!r:.80}"
        for what, given in (("name", name), ("team", team))
        if not NAME.fullmatch(given)
    ]
    if reads_as_person(name):
        wrong.append(f"{name!r} is reserved for human reviews. Choose another name")
    taken = set(whole.agent_list) | set(edition.config.models) | {one.name for one in log}
    if name.lower() in {one.lower() for one in taken}:
        wrong.append(f"the name {name!r} is taken. Every submission needs a name of its own")
    teams = {one.team for one in log if one.team.lower() == team.lower()} - {team}
    if teams:
        wrong.append(f"the team {team!r} is known as {teams.pop()!r}. Use that spelling")
    wrong += [
        f"this file was submitted as {one.name} by {one.team}, with number {one.number}"
        for one in log
        if one.sha256 == sha256
    ]
    if wrong:
        raise UserError("\n".join(wrong))


def read_reviews(file: Path, study: Study) -> dict[str, str]:
    """Reviews by paper, from lines ``{"paper", "text"}``. Raises with a list of all bad lines."""
    reviews: dict[str, str] = {}
    with all_at_once(str(file)) as problems:
        check = CheckedTable(file, problems, study.tasks, "the edition's papers")
        for line, row in check.lines("Write one line per paper: paper and text"):
            names, text = check.names(row, line, "paper"), check.text(row, "text", line)
            if more := sorted(set(row) - {"paper", "text"}):
                check.add(f"a line must have paper and text only, got {', '.join(map(repr, more))}", line)
            if text is not None and len(text) > MOST_CHARACTERS:
                check.add(f"text must have at most {MOST_CHARACTERS:,} characters, got {len(text):,}", line)
            if text is not None:
                reviews |= dict.fromkeys(names, storable(text))
    return reviews


# --- the log ----------------------------------------------------------------------------------------------------------


def read_log(folder: Path) -> tuple[Submission, ...]:
    """All submissions to an edition, in order. Raises if a line is missing, changed or damaged."""
    path, found, before = folder / LOG, list[Submission](), BEGINNING
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            one = read(Submission, line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: not a submission. Restore the file") from error
        if one.number != number or one.previous != before:
            raise UserError(f"{path}:{number}: a line before this one was changed or removed. Restore the file")
        found.append(one)
        before = _hash(line)
    return tuple(found)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- teams on the board -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamBest:
    """A team's best submission under one metric."""

    metric: str
    team: str
    submissions: int
    """All of the team, also incomplete ones."""
    best: str | None
    """The best of those that review every paper; None: there is none."""
    score: Estimate | None = None
    """Its score, with the interval that holds for the chosen of n."""
    corrected: float | None = None
    """The score without what choosing the best of n added."""


@dataclass(frozen=True)
class Submissions:
    """All submissions, and the best of each team."""

    log: tuple[Submission, ...]
    level: float
    best: tuple[TeamBest, ...] = ()

    def tables(self) -> list[ReportTable]:
        """One table per metric, the best corrected score first."""
        return [self._table(metric) for metric in dict.fromkeys(row.metric for row in self.best)]

    def log_table(self) -> ReportTable:
        named = {"agent": "submission", "team": "team", "date": "date", "sha256": "SHA-256 of the file"}
        counted = {"number": "number", "reviews": "reviews", "missing": "papers without one"}
        columns = [Column(name, heading, "count") for name, heading in counted.items()]
        columns += [Column(name, heading) for name, heading in named.items()]
        rows = tuple({**asdict(one), "agent": one.name, "date": one.date[:10]} for one in self.log)
        return ReportTable("Log", tuple(columns), rows)

    def _table(self, metric: str) -> ReportTable:
        mine = [row for row in self.best if row.metric == metric]
        mine.sort(key=lambda row: -np.inf if row.corrected is None else row.corrected, reverse=True)
        score, interval = estimate_columns("score", "as scored", self.level)
        columns = (
            Column("team", "team"),
            Column("submissions", "submissions", "count"),
            Column("best", "best", absent="none is complete"),
            Column("corrected", "corrected", "number", "missing", 2),
            interval,
            score,
            Column("score_n", "papers", "count"),
        )
        note = (
            "Corrected: what choosing the best of a team's n complete submissions is worth on other papers (bootstrap "
            "bias correction); the interval holds for the chosen of all n (Šidák). Incomplete submissions count in n, "
            "but cannot be the best."
        )
        rows = tuple(map(cells, mine))
        return ReportTable(f"Teams by {metric}, best of n", columns, rows, notes=(note,))


def submission_results(
    log: Sequence[Submission], study: Study, evaluation: Evaluation, draws: Draws
) -> Submissions | None:
    """The best of each team by metric; None if there are no submissions. ``study``: without second versions."""
    if not log:
        return None
    listed = set(study.agent_list) & {one.name for one in log}
    full = {name for name in listed if all(study.response(task, name) is not None for task in study.tasks)}
    rows = []
    for metric, outcome in evaluation.outcomes.items():
        scores = {pair: score for pair, score in outcome.response_scores.items() if score is not None}
        for team in dict.fromkeys(one.team for one in log):
            names = [one.name for one in log if one.team == team]
            complete = [name for name in names if name in full]
            common = [task for task in study.tasks if all((task, name) in scores for name in complete)]
            if not complete or not common:
                rows.append(TeamBest(metric, team, len(names), None))
                continue
            table = np.array([[scores[task, name] for name in complete] for task in common])
            choice = best_of(table, len(names), **draws)
            rows.append(TeamBest(metric, team, len(names), complete[choice.best], choice.interval, choice.corrected))
    return Submissions(tuple(log), draws.get("level", 0.95), tuple(rows))
