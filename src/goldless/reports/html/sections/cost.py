"""Cost: what metrics and reviewers cost, and what accuracy the money buys (Auto-PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldless.reports.documents.fields import Part
from goldless.reports.documents.meta_evaluation import CostDocument, PanelCostNote, PanelsNote
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Section,
    Table,
    Term,
    counts,
    ends,
    note,
    number,
    sentence,
    signed,
)
from goldless.reports.html.charts.scatter import Point, scatter_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import numeral, percent, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column, usd_text

SPREAD = 30.0
"""Costs that are apart by more than this factor are drawn on a logarithmic axis."""


def cost_section(run: RunResults) -> Section | None:
    """The section; None where no cost was asked for."""
    found = run.cost
    if found is None:
        return None
    blocks: list[Block] = [] if found.panels is None else [*_panels(found.panels)]
    if found.rows:
        blocks.append(_rows(found))
    if found.reviewers:
        blocks.append(_reviewers(found.reviewers))
    return Section("cost", "Cost", (*blocks, *(note(sentence(text)) for text in found.notes)))


def _panels(panels: PanelsNote) -> Iterator[Block]:
    rows = list({row.reviewers: row for row in reversed([*panels.frontier, *panels.by_size])}.values())[::-1]
    priced = [row for row in rows if row.usd is not None and row.accuracy is not None]
    if len(priced) > 1:
        yield _figure(priced, {row.reviewers for row in panels.frontier}, panels)
    if panels.unpriced:
        yield note("Price unknown, so on no frontier: ", ", ".join(panels.unpriced), ".")
    if panels.note:
        yield note(sentence(panels.note))


def _figure(rows: Sequence[PanelCostNote], edge: set[tuple[str, ...]], panels: PanelsNote) -> Figure:
    # what was held out is drawn first, so that it lies below
    points = [_held_out(row) for row in rows if row.held_out.accuracy is not None]
    points += [_point(row, on_edge=row.reviewers in edge) for row in rows]
    path = sorted((point.x, point.y) for point in points if point.series == "on the frontier")
    costs = [point.x for point in points if point.x > 0]
    level = percent(panels.level)
    logarithmic = bool(costs) and max(costs) / min(costs) > SPREAD
    columns = (
        Column("panel", "panel"),
        Column("size", "size", "count"),
        Column("usd", "USD", "usd"),
        number("accuracy", "accuracy"),
        ends(),
        number("held", "held out", absent="-"),
        signed("difference", "to the best", absent="-"),
        Column("used", "pairs", "count"),
        Column("edge", "frontier"),
    )
    table = tuple(
        row.cells(panel=row.name, held=row.held_out.accuracy, edge="yes" if row.reviewers in edge else "no")
        for row in rows
    )
    return Figure(
        "cost",
        ("Accuracy against cost",),
        (
            f"Panels of reviewers: agreement with people against US dollars, with {level} intervals. The line is the ",
            Term("frontier"),
            "; rings are the same choice ",
            Term("held out", "on held-out tasks"),
            f". {sentence(f'compared: {panels.search}')}",
        ),
        pictures(
            scatter_plot,
            points,
            title="Accuracy of panels against their cost",
            x_axis=f"US dollars{' (logarithmic)' if logarithmic else ''}",
            y_axis="accuracy on pairs that people decided",
            logarithmic=logarithmic,
            lines=[("frontier", path)],
        ),
        (Table(("Panels",), columns, table),),
    )


def _point(row: PanelCostNote, *, on_edge: bool) -> Point:
    usd = row.usd or 0.0
    return Point(
        row.name,
        usd,
        row.accuracy or 0.0,
        row.low,
        row.high,
        series="on the frontier" if on_edge else "best of its size",
        shape="dot" if on_edge else "square",
        tone="blue" if on_edge else "vermilion",
        hint=f"{row.name}: {numeral(row.accuracy)} for {usd_text(usd)} USD",
    )


def _held_out(row: PanelCostNote) -> Point:
    return Point(
        row.name,
        row.usd or 0.0,
        row.held_out.accuracy or 0.0,
        series="the same choice, held out",
        shape="ring",
        tone="muted",
        hint=f"{row.name}, held out: {numeral(row.held_out.accuracy)}",
        named=False,
        size=6.5,
    )


def _rows(found: CostDocument) -> Table:
    rows = tuple(
        row.cells(metric=", ".join(row.metrics), scaled_tokens=row.scaled.tokens, scaled_usd=row.scaled.usd)
        for row in found.rows
    )
    many = f"{found.tasks:,}"
    columns = (
        Column("metric", "metric"),
        Column("part", "asks the", "name", "nobody"),
        Column("model", "model", "name", "-"),
        Column("source", "known by"),
        *counts(calls="calls", reused="from the journal", tokens="tokens"),
        Column("usd", "USD", "usd", "unknown"),
        Column("scaled_tokens", f"tokens on {many} tasks", "large", "unknown"),
        Column("scaled_usd", f"USD on {many} tasks", "usd", "unknown"),
    )
    caption = f"What it costs on {plural(found.n_tasks, 'task')}, and would cost on {many} like them"
    return Table((caption,), columns, rows)


def _reviewers(rows: Sequence[Part]) -> Table:
    columns = (
        Column("reviewer", "reviewer", "name"),
        *counts(judgements="judgements", tokens="tokens", tokens_a_judgement="a judgement"),
        Column("tokens_from", "tokens known by"),
        Column("price_from", "price known by"),
        Column("usd", "USD", "usd", "unknown"),
    )
    return Table(("What reviewers' judgements cost",), columns, tuple(row.cells() for row in rows))
