"""Rank correlations with people's ratings: within each task, over all responses, and over the agents' means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.resampling import Draws
from goldless.metrics.judgement_table import Convention
from goldless.statistics.bootstrap import FEW_TASKS, Interval, draw_counts, task_intervals
from goldless.statistics.rank_correlation import (
    Coefficient,
    levelled,
    percentile_interval,
    pooled_correlations,
    rank_correlations,
)

FloatArray = npt.NDArray[np.float64]
Over = Literal["tasks", "responses", "agents"]
"""What a correlation is over: within each task, then the mean over tasks; all responses; the agents' means."""
Method = Literal["bootstrap-t", "t", "percentile"]

ORDER: tuple[Coefficient, ...] = ("spearman", "kendall-b", "kendall")
NAMES: dict[Coefficient, str] = {"spearman": "spearman", "kendall-b": "kendall_tau_b", "kendall": "kendall_tau_a"}


@dataclass(frozen=True, slots=True)
class Correlation:
    """One coefficient with its interval."""

    coefficient: str
    """``spearman``, ``kendall_tau_b`` or ``kendall_tau_a``."""
    over: Over
    value: float | None
    """None: not defined."""
    low: float | None
    high: float | None
    asked: int
    """Tasks with two rated responses or more, rated responses, or rated agents."""
    n: int
    """Of these, those it rests on."""
    undefined: int
    """Tasks on which it is not defined; they count 0 with the papers' convention. 0 for the other two kinds."""
    n_tasks: int
    """Tasks that were resampled."""
    method: Method | None
    note: str | None = None


def correlations(
    scores: Sequence[FloatArray], ratings: FloatArray, *, convention: Convention, draws: Draws
) -> list[tuple[tuple[Correlation, ...], FloatArray]]:
    """All coefficients of each table of scores [tasks, agents] with the ratings, and Spearman's on each task.

    A task counts where people rated two responses or more. Where a coefficient is not defined on it the task is left
    out by default, and counts 0 with the papers' convention.
    """
    rated = (~np.isnan(ratings)).sum(axis=1) > 1
    by_task = [_within_tasks(table[rated], ratings[rated], convention) for table in scores]
    columns = np.concatenate([values for values, _ in by_task], axis=1)
    within = task_intervals(columns, **draws)
    labelled = ~np.isnan(ratings).all(axis=1)
    over_agents = _over_agents([table[labelled] for table in scores], ratings[labelled], draws)
    found = []
    for i, (values, undefined) in enumerate(by_task):
        own = within[i * len(ORDER) : (i + 1) * len(ORDER)]
        parts = [
            *(_of_tasks(c, one, lost, len(values)) for c, one, lost in zip(ORDER, own, undefined, strict=True)),
            *_over_responses(scores[i], ratings, draws),
            *over_agents[i],
        ]
        first = np.full(len(ratings), np.nan)
        first[rated] = values[:, 0]
        found.append((tuple(parts), first))
    return found


def _within_tasks(scores: FloatArray, ratings: FloatArray, convention: Convention) -> tuple[FloatArray, list[int]]:
    """[tasks, coefficients], and on how many tasks each is not defined."""
    values = np.stack([rank_correlations(scores, ratings, coefficient) for coefficient in ORDER], axis=1)
    undefined = np.isnan(values).sum(axis=0).tolist()
    return (np.nan_to_num(values, nan=0.0) if convention == "paper" else values), undefined


def _of_tasks(coefficient: Coefficient, found: Interval, undefined: int, asked: int) -> Correlation:
    note = "defined on no task" if found.mean is None else found.note
    return Correlation(
        NAMES[coefficient],
        "tasks",
        found.mean,
        _held(found.low),
        _held(found.high),
        asked=asked,
        n=found.n,
        undefined=undefined,
        n_tasks=found.n,
        method=found.method,
        note=note,
    )


def _over_responses(scores: FloatArray, ratings: FloatArray, draws: Draws) -> list[Correlation]:
    """Over all responses, whatever their task: levels of tasks count too."""
    task = np.repeat(np.arange(len(ratings)), ratings.shape[1])
    asked, both = int(np.sum(~np.isnan(ratings))), int(np.sum(~np.isnan(scores + ratings)))
    found = pooled_correlations(scores.ravel(), ratings.ravel(), task, **draws)
    return [
        Correlation(NAMES[c], "responses", one.mean, one.low, one.high, asked, both, 0, one.n, one.method, one.note)
        for c, one in zip(ORDER, found, strict=True)
    ]


def _over_agents(scores: Sequence[FloatArray], ratings: FloatArray, draws: Draws) -> list[list[Correlation]]:
    """Over the agents' means on what is both scored and rated; intervals are percentiles over resampled tasks."""
    present = [~np.isnan(table + ratings) for table in scores]
    n_tasks = [int(there.any(axis=1).sum()) for there in present]
    stacked = np.concatenate(
        [
            np.concatenate([np.where(there, table, 0.0), np.where(there, ratings, 0.0), there], axis=1)
            for table, there in zip(scores, present, strict=True)
        ],
        axis=1,
    )
    whole = _agent_coefficients(stacked.sum(axis=0)[None], len(scores))[:, :, 0]
    drawn = np.concatenate(
        [
            _agent_coefficients(counts @ stacked, len(scores))
            for counts in draw_counts(len(ratings), seed=draws["seed"], resamples=draws["resamples"])
        ],
        axis=2,
    )
    found = []
    for i, there in enumerate(present):
        asked, used = int((~np.isnan(ratings)).any(axis=0).sum()), int(there.any(axis=0).sum())
        found.append(
            [
                _of_agents(c, float(whole[i, k]), drawn[i, k], draws["level"], (asked, used, n_tasks[i]))
                for k, c in enumerate(ORDER)
            ]
        )
    return found


def _of_agents(
    coefficient: Coefficient, value: float, drawn: FloatArray, level: float, counts: tuple[int, int, int]
) -> Correlation:
    """``counts``: agents rated, of these scored too, and tasks."""
    asked, used, tasks = counts
    low, high, note = None, None, f"no interval: n = {tasks}"
    if np.isnan(value):
        note = "not defined: fewer than two agents, or all means alike"
    elif tasks >= 2:
        low, high, told = percentile_interval(drawn, level=level)
        few = f"{tasks} tasks only: the interval is too narrow" if tasks < FEW_TASKS and low is not None else None
        note = "; ".join(part for part in (few, told) if part)
    return Correlation(
        NAMES[coefficient],
        "agents",
        None if np.isnan(value) else value,
        low,
        high,
        asked=asked,
        n=used,
        undefined=0,
        n_tasks=tasks,
        method=None if low is None else "percentile",
        note=note or None,
    )


def _agent_coefficients(sums: FloatArray, judges: int) -> FloatArray:
    """[judges, coefficients, rows] from sums [rows, judges x (scores, ratings, counts) x agents]."""
    found = []
    for block in np.split(sums, judges, axis=1):
        score, rating, count = np.split(block, 3, axis=1)
        means = []
        for total in (score, rating):
            mean = np.full(total.shape, np.nan)
            np.divide(total, count, out=mean, where=count > 0)
            means.append(levelled(mean))
        found.append(np.stack([rank_correlations(means[0], means[1], coefficient) for coefficient in ORDER]))
    return np.stack(found)


def _held(end: float | None) -> float | None:
    return None if end is None else min(1.0, max(-1.0, end))
