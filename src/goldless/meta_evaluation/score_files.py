"""Scores in files: external ones, with the columns metric, task, agent, score, and those of run folders.

A run's file ``response_scores.csv`` has these columns. Without a column ``metric`` the metric has the file's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.judges import Scores
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.reports.spreadsheets import unguarded
from goldless.studies import Study
from goldless.studies.checking import Checking, Names, Problems, Row, all_at_once
from goldless.studies.tables import ALLOWED, Source, is_table


@dataclass(frozen=True, slots=True)
class GivenScores:
    """One metric's scores from a file."""

    metric: str
    scores: Scores
    file: str


@dataclass(frozen=True, slots=True)
class ScoredBy:
    """One metric's response scores under one scorer, or in one run."""

    scorer: str
    """The name of the scorer or run."""
    metric: str
    scores: Scores
    signature: str = ""


def read_score_files(paths: Sequence[str | Path], study: Study) -> list[GivenScores]:
    """The scores in all files, by metric. Reports all problems at once: unknown names, repeated rows, bad numbers."""
    found: list[GivenScores] = []
    with all_at_once("scores") as problems:
        for path in map(Path, paths):
            if not is_table(path):
                problems.add(f"no such file; {ALLOWED}", str(path))
                continue
            by_metric = _ScoreTable(study, path.name).read(path, problems)
            found += [GivenScores(metric, scores, path.name) for metric, scores in by_metric.items()]
    return found


def check_given(name: str, scores: Scores, study: Study) -> GivenScores:
    """Scores given from Python, checked against the study."""
    tasks, agents = set(study.tasks), {agent.agent for agent in study.agents}
    strange = [f"{task!r} and {agent!r}" for task, agent in scores if task not in tasks or agent not in agents]
    if strange:
        raise UserError(
            f"{name}: {len(strange)} of {len(scores)} scores are for a task or an agent that is not in {study.name}: "
            f"{', '.join(strange[:5])}{f' and {len(strange) - 5} more' * (len(strange) > 5)}"
        )
    return GivenScores(name, dict(scores), "")


class _ScoreTable:
    """One file while it is read."""

    def __init__(self, study: Study, file: str) -> None:
        self._tasks, self._agents = Names(study.name), Names(study.name)
        self._tasks.update({task: i for i, task in enumerate(study.tasks)})
        self._agents.update({agent.agent: i for i, agent in enumerate(study.agents)})
        self._file = file
        self._found: dict[str, dict[tuple[str, str], float | None]] = {}

    def read(self, path: Path, problems: Problems) -> dict[str, dict[tuple[str, str], float | None]]:
        check = Checking(self._file, problems)
        for chunk in Source(path, self._file).chunks(problems):
            check.rows += len(chunk.rows)
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                self._add(row, line, check, path.stem)
        check.finish()
        if not check.rows and not check.broken:
            check.add("no rows. The columns are metric (optional), task, agent and score")
        self._tasks.report_strangers("task", self._file, problems)
        self._agents.report_strangers("agent", self._file, problems)
        return self._found

    def _add(self, row: Row, line: int, check: Checking, stem: str) -> None:
        metric = check.optional_name(row, "metric", line) or stem
        task, agent = check.name(row, "task", line), check.name(row, "agent", line)
        # a cell may be empty, the column may not be absent
        score = check.optional_number(row, "score", line) if "score" in row else check.number(row, "score", line)
        if task is None or agent is None:
            return
        # a run's own file guards names that a spreadsheet would compute
        task = task if task in self._tasks else unguarded(task)
        agent = agent if agent in self._agents else unguarded(agent)
        known = [self._tasks.number(task, line), self._agents.number(agent, line)]
        if min(known) < 0:
            return
        scores = self._found.setdefault(metric, {})
        if (task, agent) in scores:
            check.duplicate(f"{metric} already has a score for agent {agent!r} on task {task!r}", line)
        scores[task, agent] = score


# --- of run folders ------------------------------------------------------------------------------------------------


def read_run_scores(folders: Sequence[Path | str], *, metrics: Sequence[str] = ()) -> list[ScoredBy]:
    """The scores of several runs of one study, each under the name of its folder. Reports all problems at once.

    ``metrics``: those to compare; empty: all.
    """
    paths = [Path(folder) for folder in folders]
    problems = [_problem(path) for path in paths]
    if len({path.resolve() for path in paths}) < len(paths):
        problems.append("run folders must be different, got one twice")
    if len(paths) < 2:
        problems.append(
            f"at least two run folders are needed, got {len(paths)}. Give another, or one study with two scorers"
        )
    if any(problems):
        raise UserError("\n".join(problem for problem in problems if problem))
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    runs = [RunFolder(path, name) for path, name in zip(paths, names, strict=True)]
    for run in runs:
        run.required("leaderboard")
    if len({run.fingerprint for run in runs}) > 1:
        listed = ", ".join(f"{run.path} ({run.fingerprint[:8]})" for run in runs)
        raise UserError(
            f"the runs are of different studies, or of a study that was changed: {listed}. Compare runs of one study"
        )
    found = [scored for run in runs for scored in run_scores(run)]
    known = list(dict.fromkeys(scored.metric for scored in found))
    strange = [metric for metric in metrics if metric not in known]
    if strange:
        raise UserError(
            f"no run has {', '.join(map(repr, strange))}{nearest(strange[0], known) or '.'} "
            f"Metrics in the runs: {', '.join(known)}"
        )
    return [scored for scored in found if not metrics or scored.metric in metrics]


def _problem(folder: Path) -> str | None:
    lacking = [name for name in (SCORES, "leaderboard.json") if not (folder / name).is_file()]
    if not lacking:
        return None
    return (
        f"{folder} is not a run folder: it has no {' and no '.join(lacking)}. "
        f"Write one with goldless score STUDY --out {folder}"
    )


def run_scores(run: RunFolder) -> list[ScoredBy]:
    """The scores in a run folder, by metric and signature."""
    rows: dict[tuple[str, str], dict[tuple[str, str], float | None]] = {}
    table = run.required_scores().select("metric", "task", "agent", "score", pl.col("signature").fill_null(""))
    for metric, task, agent, score, signature in table.iter_rows():
        rows.setdefault((metric, signature), {})[task, agent] = score
    return [ScoredBy(run.name, metric, scores, signature) for (metric, signature), scores in rows.items()]
