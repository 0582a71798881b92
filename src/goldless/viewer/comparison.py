"""Two runs side by side: paired differences of scores on common tasks, and how their settings differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.reports.html.labels import decimals_for
from goldless.reports.leaderboard import Leaderboards
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import Interval, task_intervals
from goldless.viewer.library import Library
from goldless.viewer.links import Links
from goldless.viewer.rendering import render
from goldless.viewer.task_index import TaskIndex

FloatArray = npt.NDArray[np.float64]
RESAMPLES = 2_000
LEVEL = 0.95
TASKS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class AgentDifference:
    """Second run minus first, on the tasks where both scored the agent."""

    agent: str | None
    """None: the mean over agents."""
    first: float | None
    second: float | None
    """Mean scores on the common tasks."""
    difference: Interval

    @property
    def decided(self) -> bool:
        """Whether the interval excludes zero."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and (low > 0 or high < 0)


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """Second run minus first on one task, as the mean over the agents both scored."""

    task: str
    number: int
    """The task's number in the first run."""
    second_number: int
    first: float
    second: float
    difference: float
    agents: int


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that differs between the two signatures."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs under one metric."""

    metric: str
    agents: tuple[AgentDifference, ...]
    tasks: tuple[TaskDifference, ...]
    """Largest difference first."""
    settings: tuple[SettingDifference, ...]
    common_tasks: int
    only_first: int
    only_second: int
    same_study: bool | None
    """Whether tasks and responses are the same in both; None: unknown for a run."""
    signed: bool
    """Whether the runs have signatures."""


def common_metrics(first: TaskIndex, second: TaskIndex) -> tuple[str, ...]:
    """The metrics that both runs have scores for."""
    return tuple(metric for metric in first.metrics if metric in second.metrics)


def compare_runs(first: tuple[RunFolder, TaskIndex], second: tuple[RunFolder, TaskIndex], metric: str) -> RunComparison:
    """Paired differences, second minus first, over the responses that both runs scored."""
    one, two = (index.scores.filter(pl.col("metric") == metric) for _, index in (first, second))
    both = one.join(two, on=("task", "agent"), suffix="_second", maintain_order="left").filter(
        pl.col("score").is_not_null() & pl.col("score_second").is_not_null()
    )
    tasks = list(both["task"].unique(maintain_order=True))
    agents = [name for name in first[1].agent_names if name in set(both["agent"])]
    before, after = (_table(both, column, tasks, agents) for column in ("score", "score_second"))
    signatures = [_signature(run, metric) for run, _ in (first, second)]
    prints = [run.fingerprint for run, _ in (first, second)]
    tasks_of = [set(frame["task"]) for frame in (one, two)]
    return RunComparison(
        metric=metric,
        agents=_agents(agents, before, after),
        tasks=_tasks(tasks, before, after, first[1], second[1]),
        settings=_settings(*signatures),
        common_tasks=len(tasks),
        only_first=len(tasks_of[0] - tasks_of[1]),
        only_second=len(tasks_of[1] - tasks_of[0]),
        same_study=None if "" in prints else prints[0] == prints[1],
        signed=any(signatures),
    )


def _table(rows: pl.DataFrame, column: str, tasks: list[str], agents: list[str]) -> FloatArray:
    """Scores [tasks, agents], NaN where a run has none."""
    places = {task: number for number, task in enumerate(tasks)}
    columns = {agent: number for number, agent in enumerate(agents)}
    values = np.full((len(tasks), len(agents)), np.nan)
    for task, agent, score in rows.select("task", "agent", column).iter_rows():
        if agent in columns:
            values[places[task], columns[agent]] = score
    return values


def _agents(agents: list[str], before: FloatArray, after: FloatArray) -> tuple[AgentDifference, ...]:
    if not agents:
        return ()
    names: list[str | None] = [None, *agents]
    sides = [np.column_stack([_means(values), values]) for values in (before, after)]
    intervals = task_intervals(sides[1] - sides[0], tails=True, resamples=RESAMPLES, level=LEVEL)
    return tuple(
        AgentDifference(name, _mean(sides[0][:, j]), _mean(sides[1][:, j]), interval)
        for j, (name, interval) in enumerate(zip(names, intervals, strict=True))
    )


def _means(values: FloatArray) -> FloatArray:
    """Mean over agents per task; every task here has at least one."""
    means: FloatArray = np.nanmean(values, axis=1)
    return means


def _mean(column: FloatArray) -> float | None:
    there = column[~np.isnan(column)]
    return float(there.mean()) if len(there) else None


def _tasks(
    tasks: list[str], before: FloatArray, after: FloatArray, first: TaskIndex, second: TaskIndex
) -> tuple[TaskDifference, ...]:
    if not tasks:
        return ()
    counts = np.sum(~np.isnan(before), axis=1)
    rows = [
        TaskDifference(task, first.numbers[task], second.numbers[task], float(a), float(b), float(b - a), int(n))
        for task, a, b, n in zip(tasks, _means(before), _means(after), counts, strict=True)
        if task in first.numbers and task in second.numbers
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference), row.number)))


def _signature(run: RunFolder, metric: str) -> dict[str, str]:
    board = run.leaderboard or Leaderboards()
    found = run.review if metric.startswith("review: ") else board.metrics.get(metric)
    return Signature.parse("" if found is None else found.signature).parts


def _settings(first: dict[str, str], second: dict[str, str]) -> tuple[SettingDifference, ...]:
    names = dict.fromkeys([*first, *second])
    found = (SettingDifference(name, first.get(name), second.get(name)) for name in names)
    return tuple(one for one in found if one.first != one.second)


# --- the page --------------------------------------------------------------------------------------------------------


def compare_page(library: Library, links: Links, given: Mapping[str, str]) -> str:
    """Two runs compared, or the form to choose them."""
    names = given.get("first") or "", given.get("second") or ""
    metrics: tuple[str, ...] = ()
    found = None
    if all(names):
        first, second = ((run, library.index(run)) for run in map(library.run, names))
        metrics = common_metrics(first[1], second[1])
        if metrics:
            asked = given.get("metric")
            found = compare_runs(first, second, asked if asked in metrics else metrics[0])
    agents = found.agents if found else ()
    ends = [x for row in agents for x in (0.0, row.difference.low, row.difference.high) if x is not None]
    return render(
        "compare.html",
        links,
        runs=library.summaries(),
        first=names[0],
        second=names[1],
        metrics=metrics,
        found=found,
        tasks=found.tasks[:TASKS_SHOWN] if found else (),
        lowest=min(ends, default=0.0),
        highest=max(ends, default=0.0),
        decimals=decimals_for(x for row in agents for x in (row.first, row.second)),
        level=LEVEL,
        resamples=RESAMPLES,
    )
