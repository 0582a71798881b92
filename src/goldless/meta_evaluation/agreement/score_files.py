"""Scores that somebody else computed: files with the columns metric, task, agent, score.

The file ``response_scores.csv`` of a run has them. Without a column ``metric`` the file's name is the metric's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goldless.errors import UserError
from goldless.studies import Study
from goldless.studies.checking import Checking
from goldless.studies.names import Names
from goldless.studies.problems import Problems, all_at_once
from goldless.studies.tables import ALLOWED, Row, Source, is_table

Scores = Mapping[tuple[str, str], float | None]
"""The score of each task and agent; None: missing."""


@dataclass(frozen=True, slots=True)
class GivenScores:
    """One metric's scores as a file has them."""

    metric: str
    scores: Scores
    file: str


def read_score_files(paths: Sequence[str | Path], study: Study) -> list[GivenScores]:
    """The scores in all files, by metric. Raises with every problem found: strange names, repeated rows, no numbers."""
    found: list[GivenScores] = []
    with all_at_once("scores") as problems:
        for path in map(Path, paths):
            if not is_table(path):
                problems.add(f"there is no such table; {ALLOWED}", str(path))
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
            f"{name}: {len(strange)} of {len(scores)} scores are for a task or an agent that {study.name} does not "
            f"have: {', '.join(strange[:10])}{' …' * (len(strange) > 10)}"
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
            check.add("no rows; the columns are metric (optional), task, agent and score")
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
        known = [self._tasks.number(task, line), self._agents.number(agent, line)]
        if min(known) < 0:
            return
        scores = self._found.setdefault(metric, {})
        if (task, agent) in scores:
            check.duplicate(f"{metric} has scored agent {agent!r} on task {task!r} already", line)
        scores[task, agent] = score
