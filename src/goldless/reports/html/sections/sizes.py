"""Score against size: agents by their number of parameters, families joined, people as a band (GEM, figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from goldless.reports.html.blocks import Column, Figure, Name, Section, Table, Term
from goldless.reports.html.charts.intervals import Band, Shape
from goldless.reports.html.charts.scatter import Point, scatter_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import large, number, numeral, percent
from goldless.reports.html.palette import SERIES
from goldless.reports.html.sections.leaderboard import board_decimals
from goldless.statistics.bootstrap import Interval, task_intervals

Row = Mapping[str, Any]
PEOPLE = frozenset({"human", "humans", "people", "person", "persons"})
"""Groups or families of agents that are people."""
SHAPES: tuple[Shape, ...] = ("dot", "square", "diamond", "triangle", "ring", "cross")
FEWEST = 2


def sizes_section(run: RunDocuments) -> Section | None:
    """The section; None where fewer than two agents have a size and a score."""
    sized = {str(row["agent"]): row for row in run.agents if (number(row, "parameters") or 0.0) > 0}
    boards = {
        name: board
        for name, board in run.boards.items()
        if sum(row["agent"] in sized and number(row, "score") is not None for row in board["rows"]) >= FEWEST
    }
    if not boards:
        return None
    figures = tuple(_figure(run, metric, board, sized) for metric, board in boards.items())
    return Section("sizes", "Score against size", figures)


def is_person(agent: Row) -> bool:
    """Whether an agent is said to be a person, by its group or family."""
    return any(str(agent.get(key) or "").strip().lower() in PEOPLE for key in ("group", "family"))


def _figure(run: RunDocuments, metric: str, board: Row, sized: Mapping[str, Row]) -> Figure:
    rows = [
        {**row, "parameters": sized[row["agent"]]["parameters"], "family": sized[row["agent"]].get("family")}
        for row in board["rows"]
        if row["agent"] in sized and number(row, "score") is not None
    ]
    families = list(dict.fromkeys(str(row["family"] or "other") for row in rows))
    decimals, unit = board_decimals(board), str(board.get("unit") or "score")
    points = [_point(row, families, decimals) for row in rows]
    lines = [
        (f"family {_tone(place)}", sorted((p.x, p.y) for p in points if p.series == family))
        for place, family in enumerate(families)
        if family != "other"
    ]
    found = _people(run, metric, board)
    band = None if found is None else Band(found.low, found.high, "people", middle=found.mean)
    both = pictures(
        scatter_plot,
        points,
        title=f"{metric}: score against number of parameters",
        x_axis="parameters (logarithmic)",
        y_axis=unit,
        logarithmic=True,
        lines=lines,
        band=band,
    )
    columns = (
        Column("agent", "agent", "name"),
        Column("family", "family", "name", absent="-"),
        Column("parameters", "parameters", "large", absent="-"),
        Column("score", "score", "number", decimals),
        Column("low", "low", "number", decimals, absent="none"),
        Column("high", "high", "number", decimals, absent="none"),
        Column("n", "tasks", "count"),
    )
    people, theirs = _told(found)
    level = percent(float(board.get("level", 0.95)))
    return Figure(
        "sizes",
        ("Score against size under ", Name(metric)),
        (
            f"Score ({unit}) against number of parameters, with ",
            Term("interval", f"{level} intervals"),
            f"; lines join a family.{people}",
        ),
        both,
        (Table(("Agents with a size",), columns, (*rows, *theirs)),),
    )


def _tone(place: int) -> str:
    return SERIES[place % len(SERIES)]


def _point(row: Row, families: Sequence[str], decimals: int) -> Point:
    family = str(row["family"] or "other")
    place = families.index(family)
    score = number(row, "score") or 0.0
    return Point(
        str(row["agent"]),
        float(row["parameters"]),
        score,
        number(row, "low"),
        number(row, "high"),
        series=family,
        shape=SHAPES[place % len(SHAPES)],
        tone=_tone(place),
        hint=f"{row['agent']}: {large(float(row['parameters']))} parameters, {numeral(score, decimals)}",
    )


def _people(run: RunDocuments, metric: str, board: Row) -> Interval | None:
    """The mean over people with its interval over tasks; None: there are none, or no score of theirs."""
    people = [str(row["agent"]) for row in run.agents if is_person(row)]
    if run.scores is None or not people:
        return None
    mine = run.scores.filter((pl.col("metric") == metric) & pl.col("agent").is_in(people))
    means = mine.group_by("task", maintain_order=True).agg(pl.col("score").mean())["score"].drop_nulls()
    values = np.asarray(means.to_numpy(), dtype=np.float64)
    if not len(values):
        return None
    (found,) = task_intervals(values[:, None], level=float(board.get("level", 0.95)))
    return None if found.mean is None else found


def _told(people: Interval | None) -> tuple[str, tuple[Row, ...]]:
    """What the caption says of people, and their row in the table."""
    if people is None:
        return "", ()
    row = {"agent": "people (mean)", "score": people.mean, "low": people.low, "high": people.high, "n": people.n}
    if people.low is None or people.high is None:
        return " The grey line is the mean of the people among the agents; it has no interval.", (row,)
    return " The grey band is the mean of the people among the agents with its interval.", (row,)
