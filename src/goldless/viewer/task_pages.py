"""The page about one task: its responses side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from goldless.reports.html.labels import decimals_for
from goldless.reports.run_folder import RunFolder
from goldless.viewer.library import Library, PageNotFoundError, RunSummary
from goldless.viewer.links import Links
from goldless.viewer.rendering import render
from goldless.viewer.task_index import TaskIndex


@dataclass(frozen=True, slots=True)
class RunTask:
    """A task of a run."""

    library: Library
    run: RunFolder
    index: TaskIndex
    number: int

    @property
    def name(self) -> str:
        """The task's name."""
        return self.index.tasks[self.number]

    def agent(self, number: int) -> str:
        """The agent with that number."""
        if not 0 <= number < len(self.index.agents):
            raise PageNotFoundError(
                f"no agent {number} in this run; agents are numbered 0 to {len(self.index.agents) - 1}"
            )
        return self.index.agent_names[number]

    @property
    def around(self) -> dict[str, int | None]:
        """The tasks before and after this one."""
        last = len(self.index.tasks) - 1
        return {
            "before": self.number - 1 if self.number > 0 else None,
            "after": self.number + 1 if self.number < last else None,
        }


def find_place(library: Library, run: str, number: int) -> RunTask:
    """The task with that number in a run."""
    folder = library.run(run)
    index = library.index(folder)
    if not 0 <= number < len(index.tasks):
        raise PageNotFoundError(f"no task {number} in this run; tasks are numbered 0 to {len(index.tasks) - 1}")
    return RunTask(library, folder, index, number)


# --- one task --------------------------------------------------------------------------------------------------------


def task_page(library: Library, links: Links, run: str, number: int, given: Mapping[str, str]) -> str:
    """One task: its prompt, the agents' responses, and their scores."""
    place = find_place(library, run, number)
    tables = place.index.tables
    responses, scores = tables.responses(place.name), place.index.of_task(place.name)
    agents = [name for name in place.index.agent_names if name in responses or any(name == a for _, a in scores)]
    pairs = _pair_scores(place)
    return render(
        "task.html",
        links,
        run=RunSummary.of(place.run),
        place=place,
        task=tables.task(place.name),
        responses=responses,
        agents=agents,
        scores=scores,
        metrics=[m for m in place.index.metrics if any(m == metric for metric, _ in scores)],
        decimals=metric_decimals((metric, row["score"]) for (metric, _), row in scores.items()),
        rewrites=rows_by_agent(tables.of_task("rewrites", place.name)),
        labels=tables.of_task("labels", place.name).to_dicts(),
        failures=_failure_counts(place),
        pairs=pairs,
        whole=bool(given.get("whole")),
    )


def metric_decimals(scores: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """The number of decimals for the scores of each metric."""
    found: dict[str, list[float | None]] = {}
    for metric, score in scores:
        found.setdefault(metric, []).append(score)
    return {metric: decimals_for(values) for metric, values in found.items()}


def _pair_scores(place: RunTask) -> dict[str, dict[str, Any]]:
    """By metric: the agents in the table of pairs, their scores, and how to format them."""
    frame = place.index.tables.of_task("pair_scores", place.name)
    found: dict[str, dict[str, Any]] = {}
    for row in frame.iter_rows(named=True):
        one = found.setdefault(row["metric"], {"scores": {}, "missing": {}, "agents": {}})
        one["scores"][row["agent"], row["peer"]] = row["score"]
        one["missing"][row["agent"], row["peer"]] = row.get("missing")
        one["agents"] |= {row["agent"]: None, row["peer"]: None}
    for one in found.values():
        one["agents"] = [name for name in place.index.agent_names if name in one["agents"]]
        one["decimals"] = decimals_for(list(one["scores"].values()))
    return found


def rows_by_agent(frame: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table by their agent."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        found.setdefault(row["agent"], []).append(row)
    return found


def _failure_counts(place: RunTask) -> dict[str | None, int]:
    rows = place.index.failures.filter(pl.col("task") == place.name)
    return dict(rows.group_by("agent").agg(pl.col("count").sum()).iter_rows())
