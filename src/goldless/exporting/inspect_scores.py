"""Scores in copies of the Inspect logs that a run was made of."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.exporting.scored_run import ScoredRun
from goldless.files import filled_folder
from goldless.reports.leaderboard import Leaderboard
from goldless.statistics.standings import LeaderboardRow
from goldless.studies.checking import all_at_once
from goldless.studies.importers.inspect_log import (
    OURS,
    InspectLog,
    inspect_ai_log,
    open_logs,
    response_text,
    why_missing,
)

Scores = Mapping[tuple[str, str], Mapping[str, float]]
"""Scores by task and agent, then by metric."""


def write_inspect(
    run: ScoredRun, path: Path, *, logs: Sequence[str | Path] | None = None, metric: str | None = None
) -> None:
    """Write a copy of each log, with a score per metric in each sample and the agent's mean in the results."""
    if not logs:
        raise UserError("inspect needs --logs, the Inspect logs that the run was made of. Repeat it for several")
    scores: dict[tuple[str, str], dict[str, float]] = {}
    every = run.response_scores(metric)
    single = run.scores_of_single_responses(every, "are in no sample of the logs")
    for name, task, agent, score in single.select("metric", "task", "agent", "score").iter_rows():
        scores.setdefault((task, agent), {})[name] = score
    with all_at_once(", ".join(map(str, logs))) as problems:
        found = open_logs([Path(log) for log in logs], problems)
    names = Counter(log.path.name for log in found)
    if twice := [name for name, count in names.items() if count > 1]:
        raise UserError(f"--logs has two files called {twice[0]}. Give their copies different names")

    def fill(folder: Path) -> None:
        boards = {name: run.ranked[name] for name in every["metric"].unique(maintain_order=True)}
        samples, lacking, means = _write_copies(run, found, scores, boards, folder)
        if lacking == samples and not means:
            raise UserError(
                f"none of the {samples:,} samples in these logs has a score in {run.path}. Give all logs that the run "
                "was made of, and no others"
            )
        if lacking:
            warnings.warn(f"{lacking:,} of {samples:,} samples have no score in the run", stacklevel=2)

    filled_folder(path, fill)


def _write_copies(
    run: ScoredRun, logs: Sequence[InspectLog], scores: Scores, boards: Mapping[str, Leaderboard], folder: Path
) -> tuple[int, int, int]:
    """Write the copies; the number of samples, of those without a score, and of means in the logs' results.

    A sample gets the scores of its own text alone.
    """
    lacking = means = 0
    samples_so_far: Counter[tuple[str, str]] = Counter()
    inspect = inspect_ai_log()
    texts = {(task, agent): text for task, agent, text in run.study.response_table["task", "agent", "text"].iter_rows()}
    for log in logs:
        whole = inspect.read_eval_log(str(log.path))
        for sample in whole.samples or ():
            task = log.task(sample.id)
            samples_so_far[task, log.agent] += 1
            number = samples_so_far[task, log.agent]
            text = None if why_missing(sample)[0] else response_text(sample.output)
            names = [key for key in _names(task, log.agent, number) if key in scores and texts.get(key) == text]
            own = scores[names[0]] if names else {}
            lacking += not own
            _edit(whole, sample, own, run)
        for name, board in boards.items():
            if any(row.agent == log.agent and row.score is not None for row in board.rows):
                _add_mean(whole, name, board, log.agent)
                means += 1
        inspect.write_eval_log(whole, str(folder / log.path.name))
    return samples_so_far.total(), lacking, means


def _names(task: str, agent: str, number: int) -> list[tuple[str, str]]:
    """The task and agent that a study may have for this sample of a task: further ones are agents or tasks."""
    if number == 1:
        return [(task, agent)]
    return [(task, f"{agent}#{number}"), (f"{task}#{number}", agent)]


def _edit(log: Any, sample: Any, found: Mapping[str, float], run: ScoredRun) -> None:
    from inspect_ai.log import ProvenanceData, edit_score  # noqa: PLC0415 - an extra
    from inspect_ai.scorer import ScoreEdit  # noqa: PLC0415 - an extra

    for metric, value in found.items():
        board = run.ranked[metric]
        edit = ScoreEdit(
            value=value,
            explanation=f"{value:.4g} {board.unit}",
            metadata={"signature": board.signature, "unit": board.unit},
            provenance=ProvenanceData(author=OURS, reason=f"{metric} of the study {run.study_name}"),
        )
        edit_score(log, sample.id, f"{OURS}/{metric}", edit, recompute_metrics=False, epoch=sample.epoch)


def _add_mean(log: Any, metric: str, board: Leaderboard, agent: str) -> None:
    """The agent's row of the leaderboard among the results; those of other scorers stay as they are."""
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore  # noqa: PLC0415 - an extra

    row = next((row for row in board.rows if row.agent == agent), LeaderboardRow(None, agent))
    one = row.estimate
    values = {"mean": one.value, f"low{board.level * 100:g}": one.low, f"high{board.level * 100:g}": one.high}
    log.results = log.results or EvalResults()
    name = f"{OURS}/{metric}"
    log.results.scores = [score for score in log.results.scores if score.name != name]
    log.results.scores.append(
        EvalScore(
            name=name,
            scorer=name,
            scored_samples=one.n,
            metrics={key: EvalMetric(name=key, value=value) for key, value in values.items() if value is not None},
            metadata={"signature": board.signature},
        )
    )
