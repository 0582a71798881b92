"""Two runs side by side: paired differences of scores on common tasks, and how their settings differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from goldless.reports.html.blocks import counts, table_html, texts
from goldless.reports.html.labels import decimals_for
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import task_intervals
from goldless.viewer.library import Library
from goldless.viewer.links import Links
from goldless.viewer.rendering import bar, render
from goldless.viewer.run_pages import PLOT, agent_link
from goldless.viewer.task_index import TaskIndex

RESAMPLES = 2_000
LEVEL = 0.95
TASKS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs under one metric."""

    metric: str
    agents: tuple[dict[str, Any], ...]
    """Second run minus first, on the tasks where both scored the agent; the mean over agents comes first."""
    tasks: tuple[dict[str, Any], ...]
    """Second run minus first, as the mean over the agents both scored, the largest difference first."""
    settings: tuple[dict[str, Any], ...]
    """Settings that differ between the two signatures."""
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
    both = one.join(two, on=("task", "agent"), suffix="_second", maintain_order="left")
    both = both.filter(pl.col("score").is_not_null() & pl.col("score_second").is_not_null())
    agents = [name for name in first[1].agent_names if name in set(both["agent"])]
    signatures = [_signature(run, metric) for run, _ in (first, second)]
    prints = [run.fingerprint for run, _ in (first, second)]
    tasks_of = [set(frame["task"]) for frame in (one, two)]
    return RunComparison(
        metric=metric,
        agents=tuple(_agents(both, agents)) if agents else (),
        tasks=tuple(_tasks(both, first[1], second[1])),
        settings=tuple(
            {"name": name, "first": signatures[0].get(name), "second": signatures[1].get(name)}
            for name in dict.fromkeys([*signatures[0], *signatures[1]])
            if signatures[0].get(name) != signatures[1].get(name)
        ),
        common_tasks=both["task"].n_unique(),
        only_first=len(tasks_of[0] - tasks_of[1]),
        only_second=len(tasks_of[1] - tasks_of[0]),
        same_study=None if "" in prints else prints[0] == prints[1],
        signed=any(signatures),
    )


def _agents(both: pl.DataFrame, agents: list[str]) -> list[dict[str, Any]]:
    sides = []
    for column in ("score", "score_second"):
        table = both.pivot("agent", index="task", values=column, maintain_order=True).select(agents)
        values = table.cast(pl.Float64).fill_null(np.nan).to_numpy()
        sides.append(np.column_stack([np.nanmean(values, axis=1), values]))
    found = []
    intervals = task_intervals(sides[1] - sides[0], tails=True, resamples=RESAMPLES, level=LEVEL)
    for place, (name, one) in enumerate(zip(["mean over agents", *agents], intervals, strict=True)):
        means = {key: float(np.nanmean(side[:, place])) for key, side in zip(("first", "second"), sides, strict=True)}
        decided = one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
        reading = "higher in the second" if (one.value or 0.0) > 0 else "lower in the second"
        row = {"difference": one.value, "low": one.low, "high": one.high, "note": one.note, "n": one.n}
        found.append({"agent": name, **means, **row, "reading": reading if decided else "undecided"})
    return found


def _tasks(both: pl.DataFrame, first: TaskIndex, second: TaskIndex) -> list[dict[str, Any]]:
    means = both.group_by("task", maintain_order=True).agg(
        pl.col("score").mean().alias("first"), pl.col("score_second").mean().alias("second"), pl.len().alias("agents")
    )
    rows = [
        {**row, "difference": row["second"] - row["first"], "numbers": (first.numbers[task], second.numbers[task])}
        for row in means.iter_rows(named=True)
        if (task := row["task"]) in first.numbers and task in second.numbers
    ]
    return sorted(rows, key=lambda row: (-abs(row["difference"]), row["numbers"]))


def _signature(run: RunFolder, metric: str) -> dict[str, str]:
    board = None if run.leaderboard is None else run.leaderboard.metrics.get(metric)
    found = run.review if metric.startswith("review: ") else board
    return Signature.parse("" if found is None else found.signature).parts


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
    return render(
        "compare.html",
        links,
        runs=library.summaries(),
        first=names[0],
        second=names[1],
        metrics=metrics,
        found=found,
        tables=[] if found is None else _tables(found, names, links),
        level=LEVEL,
        resamples=RESAMPLES,
    )


def _tables(found: RunComparison, names: tuple[str, str], links: Links) -> list[Markup]:
    """By agent, by task, and the settings that differ."""
    ends = [0.0, *(end for row in found.agents for end in (row["low"], row["high"]) if end is not None)]
    decimals = decimals_for(row[side] for row in found.agents for side in ("first", "second"))
    first = Column("first", names[0], "number", "-", decimals)
    second = Column("second", names[1], "number", "-", decimals)
    difference = Column("difference", "difference", "signed", decimals=decimals)
    interval = Column("low high", "interval", "signed interval", "", decimals, reason="note")
    by_agent = (Column("agent", "agent", "name"), first, second, difference, interval, PLOT, *counts(n="tasks"))
    by_task = (Column("task", "task", "name"), first, second, difference, *counts(agents="agents"))
    settings = (Column("name", "setting"), *texts("-", first=names[0], second=names[1]))
    agents = [
        {**row, "plot": bar(row["difference"], row["low"], row["high"], min(ends), max(ends))} for row in found.agents
    ]
    tasks = [
        {
            **row,
            "task": agent_link(row["task"], links.task(names[0], row["numbers"][0])),
            "other": agent_link("open", links.task(names[1], row["numbers"][1])),
        }
        for row in found.tasks[:TASKS_SHOWN]
    ]
    return [
        table_html((*by_agent, Column("reading", "reading")), agents, "By agent"),
        table_html((*by_task, Column("other", f"in {names[1]}")), tasks, "By task"),
        table_html(settings, found.settings, "Differences in settings"),
    ]
