"""Rank correlations of scores with people's ratings: within each task, over all responses, over the agents' means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr

from goldless.arrays import BoolArray, FloatArray
from goldless.meta_evaluation.agreement.results import Correlation
from goldless.meta_evaluation.resampling import agent_means
from goldless.metrics.judgement_table import Convention
from goldless.statistics.bootstrap import FEW_TASKS, Draws, Interval, draw_counts, task_intervals
from goldless.statistics.rank_correlation import (
    Coefficient,
    levelled,
    percentile_interval,
    pooled_correlations,
    rank_correlations,
)

ORDER: tuple[Coefficient, ...] = ("spearman", "kendall-b", "kendall")
NAMES: dict[Coefficient, str] = {"spearman": "spearman", "kendall-b": "kendall_tau_b", "kendall": "kendall_tau_a"}


def correlations(
    scores: Sequence[FloatArray], ratings: FloatArray, *, convention: Convention, draws: Draws
) -> list[tuple[tuple[Correlation, ...], FloatArray]]:
    """All coefficients of each table of scores [tasks, agents] with the ratings, and Spearman's on each task.

    A task counts if people rated at least two of its responses. If a coefficient is not defined on a task, the task is
    left out by default, and counts 0 with the papers' convention.
    """
    rated = (~np.isnan(ratings)).sum(axis=1) > 1
    by_task = [_within_tasks(table[rated], ratings[rated], convention) for table in scores]
    columns = np.concatenate([values for values, _ in by_task], axis=1)
    within = task_intervals(columns, **draws)
    labelled = ~np.isnan(ratings).all(axis=1)
    found = []
    for i, (values, undefined) in enumerate(by_task):
        own = within[i * len(ORDER) : (i + 1) * len(ORDER)]
        parts = [
            *(_of_tasks(c, one, lost, len(values)) for c, one, lost in zip(ORDER, own, undefined, strict=True)),
            *_over_responses(scores[i], ratings, draws),
            *_over_agents(scores[i][labelled], ratings[labelled], draws),
        ]
        first = np.full(len(ratings), np.nan)
        first[rated] = values[:, 0]
        found.append((tuple(parts), first))
    return found


def _within_tasks(scores: FloatArray, ratings: FloatArray, convention: Convention) -> tuple[FloatArray, list[int]]:
    """[tasks, coefficients], and on how many tasks each is not defined."""
    values = np.stack([rank_correlations(scores, ratings, coefficient) for coefficient in ORDER], axis=1)
    undefined = np.isnan(values).sum(axis=0).tolist()
    return (np.nan_to_num(values, nan=0.0) if convention != "default" else values), undefined


def _of_tasks(coefficient: Coefficient, found: Interval, undefined: int, asked: int) -> Correlation:
    note = "not defined on any task" if found.mean is None else found.note
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
        Correlation(
            *(NAMES[c], "responses", one.mean, one.low, one.high, asked, both, 0, one.n, one.method, one.note),
            p=spearman_p(one.mean, both) if c == "spearman" else None,
        )
        for c, one in zip(ORDER, found, strict=True)
    ]


def _over_agents(scores: FloatArray, ratings: FloatArray, draws: Draws) -> list[Correlation]:
    """Over the agents' means on what is both scored and rated; intervals are percentiles over resampled tasks."""
    tables = np.stack([scores, ratings])
    there: BoolArray = np.asarray(~np.isnan(tables).any(axis=0))
    counts = int((~np.isnan(ratings)).any(axis=0).sum()), int(there.any(axis=0).sum()), int(there.any(axis=1).sum())
    whole = _agent_coefficients(tables, np.ones((1, len(ratings))))[:, 0]
    blocks = draw_counts(len(ratings), seed=draws["seed"], resamples=draws["resamples"])
    drawn = np.concatenate([_agent_coefficients(tables, block) for block in blocks], axis=1)
    return [_of_agents(c, float(whole[k]), drawn[k], draws["level"], counts) for k, c in enumerate(ORDER)]


def _of_agents(
    coefficient: Coefficient, value: float, drawn: FloatArray, level: float, counts: tuple[int, int, int]
) -> Correlation:
    """``counts``: agents rated, of these scored too, and tasks."""
    asked, used, tasks = counts
    low, high, note = None, None, f"no interval: n = {tasks}"
    if np.isnan(value):
        note = "not defined: fewer than two agents, or all means equal"
    elif tasks >= 2:
        low, high, told = percentile_interval(drawn, level=level)
        few = f"only {tasks} tasks: the interval is too narrow" if tasks < FEW_TASKS and low is not None else None
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
        p=spearman_p(value, used) if coefficient == "spearman" else None,
    )


def spearman_p(value: float | None, n: int) -> float | None:
    """Two-sided p of Spearman's coefficient by Student's t with n - 2 degrees of freedom; None: not defined."""
    if value is None or np.isnan(value) or n < 3:
        return None
    if abs(value) >= 1:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(value) * np.sqrt((n - 2) / (1 - value**2))))


def _agent_coefficients(tables: FloatArray, counts: FloatArray) -> FloatArray:
    """[coefficients, draws] of the agents' means over drawn tasks."""
    first, second = map(levelled, agent_means(tables, counts))
    return np.stack([rank_correlations(first, second, coefficient) for coefficient in ORDER])


def _held(end: float | None) -> float | None:
    return None if end is None else min(1.0, max(-1.0, end))
