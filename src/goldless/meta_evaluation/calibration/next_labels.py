"""Which tasks to label next: drawn by what would change a decision, with chances that keep the estimate valid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError
from goldless.meta_evaluation.calibration.results import CalibratedComparison, NextLabel
from goldless.statistics.prediction_powered import Round, draw_by_size, expected_errors
from goldless.studies import Study
from goldless.studies.checking import Checking, Names, all_at_once
from goldless.studies.tables import ALLOWED, Source, is_table

AT_RANDOM = "Drawn at random, each task with the same chance. Label the responses of all agents to these tasks."
BY_CHANGE = (
    "Drawn with chances proportional to the expected change: the error to be expected of the prediction of a task's "
    "difference (half that of the labelled tasks with the most similar proxies, half that of all), as root mean square "
    "over the undecided comparisons, each in units of its own spread. Label the responses of all agents to these tasks."
)


def first_labels(tasks: Sequence[str], count: int, *, seed: int) -> list[NextLabel]:
    """Tasks at random, for a study without labels."""
    drawn = draw_by_size(np.ones(len(tasks)), count, seed=seed)
    return [NextLabel(tasks[t], float(c), None) for t, c in zip(drawn.task, drawn.chance, strict=True)]


def next_labels(
    tasks: Sequence[str],
    compared: Sequence[tuple[CalibratedComparison, FloatArray, FloatArray]],
    labelled: BoolArray,
    count: int,
    *,
    seed: int,
) -> list[NextLabel]:
    """Tasks drawn by the expected change of the undecided comparisons, largest first; empty if all are decided.

    ``compared``: each comparison with the differences of labels [tasks] and of proxies [tasks, k].
    """
    relative, change = [], []
    for comparison, labels, proxies in compared:
        if comparison.decided:
            continue
        there = ~np.isnan(proxies).any(axis=1)
        errors = np.full(len(tasks), np.nan)
        errors[there] = expected_errors(labels[there], proxies[there])
        spread = float(np.nanstd(labels))
        change.append(errors / there.sum())
        relative.append(errors / spread if spread > 0 else errors)
    if not relative:
        return []
    drawn = draw_by_size(np.where(labelled, np.nan, _root_mean_square(relative)), count, seed=seed)
    expected = _root_mean_square(change)
    found = [NextLabel(tasks[t], float(c), float(expected[t])) for t, c in zip(drawn.task, drawn.chance, strict=True)]
    return sorted(found, key=lambda one: -(one.expected_change or 0.0))


def _root_mean_square(columns: Sequence[FloatArray]) -> FloatArray:
    """Over the comparisons that have a value; 0 where none has."""
    table = np.stack(columns)
    there = ~np.isnan(table)
    mean = np.where(there, table, 0.0) ** 2
    root: FloatArray = np.sqrt(mean.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    return root


def read_rounds(paths: Sequence[Path | str], study: Study, labelled: BoolArray) -> list[Round]:
    """Drawn tasks with their chances, in the order of the files. All of them must be labelled."""
    rounds, seen = [], set[int]()
    with all_at_once("drawn tasks") as problems:
        for path in map(Path, paths):
            if not is_table(path):
                problems.add(f"no such file; {ALLOWED}", str(path))
                continue
            names = Names(study.name)
            names.update({task: number for number, task in enumerate(study.tasks)})
            check = Checking(path.name, problems)
            chance: dict[int, float] = {}
            for chunk in Source(path, path.name).chunks(problems):
                check.rows += len(chunk.rows)
                for line, row in zip(chunk.lines, chunk.rows, strict=True):
                    task, value = check.name(row, "task", line), check.number(row, "chance", line)
                    if task is None or value is None or (number := names.number(task, line)) < 0:
                        continue
                    if not 0 < value <= 1:
                        check.add(f"chance must be above 0 and at most 1, got {value:g}", line)
                    if number in seen:
                        check.duplicate(f"task {task!r} was drawn before", line)
                    seen.add(number)
                    chance[number] = value
            check.finish()
            names.report_strangers("task", path.name, problems)
            rounds.append(Round(np.array(list(chance), np.int64), np.array(list(chance.values()), np.float64)))
    drawn = [number for one in rounds for number in one.task.tolist()]
    if without := [study.tasks[number] for number in drawn if not labelled[number]]:
        raise UserError(
            f"{len(without)} of the {len(drawn)} drawn tasks have no labels: {', '.join(without[:5])}"
            f"{f' and {len(without) - 5} more' * (len(without) > 5)}. Label all of them: leaving some out is a choice "
            "that biases the estimate"
        )
    return rounds
