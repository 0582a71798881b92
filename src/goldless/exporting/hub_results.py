"""Evaluation results of a model repository on the Hugging Face Hub: ``.eval_results/NAME.yaml``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from goldless.errors import UserError
from goldless.exporting.scored_run import ScoredRun, path_name, write_folder
from goldless.reports.leaderboard import Leaderboard


def write_hub(
    run: ScoredRun,
    path: Path,
    *,
    dataset: str | None = None,
    task_id: str | None = None,
    metric: str | None = None,
    url: str | None = None,
) -> None:
    """Write the scores of one metric, the run's first by default, as the results of a benchmark on the Hub."""
    board = next(iter(run.chosen(metric).values()))
    write_results(board, path, dataset=dataset, task_id=task_id, date=run.made_at[:10], url=url)


def write_results(
    board: Leaderboard, path: Path, *, dataset: str | None, task_id: str | None, date: str, url: str | None = None
) -> None:
    """Write a folder for every agent of the board that has a score, to be copied into the model's repository."""
    if dataset is None or not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise UserError(
            f"hf-eval-results needs --dataset OWNER/NAME, the benchmark's dataset on the Hub, got {dataset!r}"
        )
    if not task_id:
        raise UserError("hf-eval-results needs --task-id, one of the tasks in the eval.yaml of the dataset")
    files = {}
    for row in board.rows:
        if row.score is None:
            continue
        file = f"{path_name(row.agent)}/.eval_results/{path_name(dataset)}.yaml"
        if file in files:
            raise UserError(f"two agents have names that give the folder {path_name(row.agent)!r}. Rename one")
        interval = "" if row.low is None else f" ({board.level * 100:g}% interval {row.low:.4g} to {row.high:.4g})"
        notes = f"{board.unit}{interval}, {row.n} tasks, {row.missing} of {row.asked} missing. {board.signature}"
        # what JSON escapes, YAML reads
        files[file] = [
            f"- dataset:\n    id: {json.dumps(dataset)}\n    task_id: {json.dumps(task_id)}\n",
            f"  value: {json.dumps(row.score)}\n",
            f"  date: {json.dumps(date)}\n" * bool(date),
            "" if url is None else f"  source:\n    url: {json.dumps(url)}\n    name: goldless\n",
            f"  notes: {json.dumps(notes)}\n",
        ]
    write_folder(path, files)
