"""Task by task: how an agent's scores spread over tasks, and which tasks move its mean most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from goldless.reports.documents.scores import RankedMetric, TaskInfluence
from goldless.reports.html.blocks import Figure, Inline, Name, Row, Section, Table, Term, counts, number, signed
from goldless.reports.html.charts.row_plots import Numbered, Strip, strip_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import decimals_for, numeral, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column

EVERY_POINT_UP_TO = 200
"""Tasks beyond which quantiles stand for the points."""
OUTLIERS = 3
"""Of each agent at either end that are drawn beside the quantiles."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def task_scores_section(run: RunResults) -> Section | None:
    """The section; None where the folder holds no scores of responses."""
    scores = run.scores
    if scores is None:
        return None
    figures = tuple(
        _figure(metric, board, scores.filter(pl.col("metric") == metric))
        for metric, board in run.boards.items()
        if (scores["metric"] == metric).any()
    )
    return Section("tasks", "Task by task", figures) if figures else None


def _figure(metric: str, board: RankedMetric, scores: pl.DataFrame) -> Figure:
    numbers = {(row.agent, row.task): place for place, row in enumerate(board.influence, 1)}
    by_agent = {str(key[0]): frame for key, frame in scores.group_by("agent", maintain_order=True)}
    every = max((len(frame) for frame in by_agent.values()), default=0) <= EVERY_POINT_UP_TO
    decimals = decimals_for(board.ends)
    found = [_agent(row.agent, by_agent.get(row.agent), numbers, decimals, every=every) for row in board.rows]
    beyond = [row for _, _, far in found for row in far]
    what = "Every dot is a task" if every else "Boxes hold the middle half of the tasks, thin bars 90\u202f% of them"
    tables = (
        *[_influence(board.influence, by_agent, decimals)] * bool(board.influence),
        _spread(metric, [row for _, row, _ in found], decimals),
        *[_beyond(beyond, decimals)] * bool(beyond),
    )
    return Figure(
        "tasks",
        ("Scores on single tasks under ", Name(metric)),
        (f"{what}; the upright stroke is the median. ", *_rings(len(board.influence), len(beyond))),
        pictures(
            strip_plot,
            [strip for strip, _, _ in found],
            title=f"{metric}: scores of each agent on single tasks",
            axis=f"{board.unit}, higher is better",
        ),
        tables,
    )


def _rings(influential: int, beyond: int) -> tuple[Inline, ...]:
    """What the rings are."""
    if not influential:
        return ("Rings are tasks far out.",) if beyond else ()
    numbered = f"Numbered rings are the {plural(influential, 'score')} with most "
    return (
        numbered,
        Term("influence"),
        f" on a mean, as in the table{'; other rings are tasks far out' * bool(beyond)}.",
    )


def _agent(
    name: str, frame: pl.DataFrame | None, numbers: Mapping[tuple[str, str], int], decimals: int, *, every: bool
) -> tuple[Strip, dict[str, Any], list[dict[str, Any]]]:
    """An agent's strip, its row of quantiles, and the tasks far out."""
    all_tasks = 0 if frame is None else len(frame)
    there = None if frame is None else frame.filter(pl.col("score").is_not_null())
    if there is None or not len(there):
        return Strip(name, None), {"agent": name, "n": 0, "missing": all_tasks}, []
    values, tasks = there["score"].to_numpy(), there["task"].to_list()
    quantiles = [float(value) for value in np.quantile(values, QUANTILES)]
    row = {
        "agent": name,
        "n": len(values),
        "missing": all_tasks - len(values),
        "least": float(values.min()),
        **{f"q{place}": value for place, value in enumerate(quantiles)},
        "most": float(values.max()),
    }
    far = _far(values, quantiles)
    ringed = {place: numbers.get((name, tasks[place])) for place in far}
    ringed |= {place: numbers[name, task] for place, task in enumerate(tasks) if (name, task) in numbers}
    outliers = [
        Numbered(of, float(values[place]), f"{name} on {tasks[place]}: {numeral(float(values[place]), decimals)}")
        for place, of in ringed.items()
    ]
    points = tuple(float(value) for place, value in enumerate(values) if place not in ringed) if every else None
    found = [{"agent": name, "task": tasks[place], "score": float(values[place])} for place in far]
    low, lower, median, upper, high = quantiles
    return Strip(name, (low, lower, median, upper, high), points, tuple(outliers)), row, found


def _far(values: npt.NDArray[np.float64], quantiles: Sequence[float]) -> list[int]:
    """Scores more than 1.5 times the middle half's width beyond it (Tukey), the farthest few at either end."""
    width = quantiles[3] - quantiles[1]
    order = [int(place) for place in np.argsort(values, kind="stable")]
    below = [place for place in order if values[place] < quantiles[1] - 1.5 * width]
    above = [place for place in reversed(order) if values[place] > quantiles[3] + 1.5 * width]
    return below[:OUTLIERS] + above[:OUTLIERS]


def _influence(influence: Sequence[TaskInfluence], by_agent: Mapping[str, pl.DataFrame], decimals: int) -> Table:
    rows = []
    for place, row in enumerate(influence, 1):
        frame = by_agent.get(row.agent)
        score = None if frame is None else frame.filter(pl.col("task") == row.task)["score"].first()
        moved = "yes" if row.ranking_changes else "no"
        rows.append(row.cells(place=place, score=score, ranks=f"{row.rank} → {row.rank_without}", moved=moved))
    columns = (
        Column("place", "#", "count"),
        Column("task", "task", "name"),
        Column("agent", "agent", "name"),
        number("score", "score", decimals),
        signed("change", "mean without it", decimals + 1),
        Column("ranks", "place"),
        Column("moved", "ranking changes"),
    )
    return Table(
        ("Tasks that move a mean most: leaving the task out changes the agent's mean by so much",), columns, tuple(rows)
    )


def _spread(metric: str, rows: Sequence[Row], decimals: int) -> Table:
    shares = [(f"q{place}", f"{share * 100:g}\u202f%") for place, share in enumerate(QUANTILES)]
    columns = (
        Column("agent", "agent", "name"),
        *counts(n="tasks", missing="missing"),
        *(number(*one, decimals, absent="-") for one in (("least", "least"), *shares, ("most", "most"))),
    )
    total = plural(sum(row["n"] for row in rows), "score")
    return Table((f"Quantiles over {total} under ", Name(metric)), columns, tuple(rows))


def _beyond(rows: Sequence[Row], decimals: int) -> Table:
    columns = (
        Column("agent", "agent", "name"),
        Column("task", "task", "name"),
        number("score", "score", decimals),
    )
    caption = (
        f"Tasks far out: beyond the middle half by more than 1.5 times its width, at most {OUTLIERS} at either end"
    )
    return Table((caption,), columns, tuple(rows))
