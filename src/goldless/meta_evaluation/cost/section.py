"""The report's section on cost: metrics, reviewers, and what accuracy the money buys (Auto-PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from goldless.meta_evaluation.cost.cost_report import CostReport
from goldless.meta_evaluation.cost.panels import Frontier, Panel
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Table,
    Term,
    counts,
    note,
    remarks,
    result_table,
    section,
    sentence,
    signed,
    texts,
    words,
)
from goldless.reports.html.charts.scatter import Point, scatter_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, numeral, percent
from goldless.reports.report_table import usd_text
from goldless.reports.run_folder import RunFolder

SPREAD = 30.0
"""Costs that differ by more than this factor get a logarithmic axis."""
LETTERS = 26


@section("cost", "Cost")
def cost_section(run: RunFolder) -> Iterator[Block]:
    """What accuracy, metrics and reviewers cost; None if no cost was computed."""
    found: CostReport | None = run.others.get("cost")
    if found is None:
        return
    if found.panels is not None:
        yield from _panels(found.panels, " ".join(in_text(said, label) for said in found.findings()))
    tables = [result_table(table) for table in replace(found, panels=None).tables()]
    yield from tables if found.panels is None else [Fold("Cost of each metric and reviewer", tables)]
    yield from remarks(found.notes)


def _panels(panels: Frontier, finding: str) -> Iterator[Block]:
    rows = list({row.reviewers: row for row in reversed([*panels.frontier, *panels.by_size])}.values())[::-1]
    priced = [row for row in rows if row.usd is not None and row.accuracy is not None]
    if len(priced) > 1:
        yield _panel_figure(priced, {row.reviewers for row in panels.frontier}, panels, finding)
    elif finding:
        yield words(finding)
    if panels.unpriced:
        yield note("Not on a frontier because the price is unknown: ", ", ".join(panels.unpriced), ".")
    yield note(sentence(panels.note))


def _panel_figure(rows: Sequence[Panel], edge: set[tuple[str, ...]], panels: Frontier, finding: str) -> Figure:
    rows = sorted(rows, key=lambda row: (row.usd or 0.0, row.accuracy or 0.0))
    letters = [chr(ord("A") + place) if place < LETTERS else str(place + 1) for place in range(len(rows))]
    # held-out points are drawn first, so that they are behind the others
    points = [_held_out(row) for row in rows if row.held_out is not None and row.held_out.accuracy is not None]
    points += [
        _panel_point(row, letter, on_edge=row.reviewers in edge) for row, letter in zip(rows, letters, strict=True)
    ]
    path = sorted((point.x, point.y) for point in points if point.series == "on the frontier")
    paid = [point.x for point in points if point.x > 0]
    logarithmic = bool(paid) and max(paid) / min(paid) > SPREAD
    cells = [
        {**row.row, "point": letter, "edge": "yes" if row.reviewers in edge else "no"}
        for row, letter in zip(rows, letters, strict=True)
    ]
    columns = (
        *texts(point="point"),
        *counts(size="size"),
        *panels.columns(),
        signed("difference", "minus the best", absent="-"),
        *texts(edge="frontier"),
    )
    intervals = f"with {percent(panels.level)} intervals"
    return Figure(
        "cost",
        "Accuracy and cost",
        (
            f"Panels of reviewers: agreement with people by cost in US dollars, {intervals}. The line is the ",
            Term("frontier"),
            "; rings show the same panels ",
            Term("held out", "on held-out tasks"),
            f". {sentence(f'compared: {panels.search}')} {len(rows)} are drawn: those on the frontier and the best of ",
            "each size. The table names them by their letters.",
        ),
        pictures(
            scatter_plot,
            points,
            title="Accuracy of panels by cost",
            x_axis=f"US dollars{' (log scale)' if logarithmic else ''}",
            y_axis="accuracy on pairs with a human preference",
            logarithmic=logarithmic,
            lines=[("frontier", path)],
        ),
        [Table("Panels", columns, cells)],
        finding,
    )


def _panel_point(row: Panel, letter: str, *, on_edge: bool) -> Point:
    usd = row.usd or 0.0
    return Point(
        letter,
        usd,
        row.accuracy or 0.0,
        row.low,
        row.high,
        series="on the frontier" if on_edge else "best of its size",
        shape="dot" if on_edge else "square",
        tone="blue" if on_edge else "vermilion",
        hint=f"{row.name}: {numeral(row.accuracy)} for {usd_text(usd)} USD",
    )


def _held_out(row: Panel) -> Point:
    accuracy = None if row.held_out is None else row.held_out.accuracy
    return Point(
        row.name,
        row.usd or 0.0,
        accuracy or 0.0,
        series="the same panel, held out",
        shape="ring",
        tone="muted",
        hint=f"{row.name}, held out: {numeral(accuracy)}",
        named=False,
        size=6.5,
    )
