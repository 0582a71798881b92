"""Cost: what metrics and reviewers cost, and what accuracy the money buys (Auto-PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import Block, Column, Figure, Section, Table, Term, note, sentence
from goldless.reports.html.charts.scatter import Point, scatter_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import count, number, numeral, percent, plural, usd

Row = Mapping[str, Any]
SPREAD = 30.0
"""Costs that are apart by more than this factor are drawn on a logarithmic axis."""


def cost_section(run: RunDocuments) -> Section | None:
    """The section; None where no cost was asked for."""
    found = run.get("cost")
    if found is None:
        return None
    blocks: list[Block] = []
    panels = found.get("panels")
    if panels:
        blocks += _panels(panels)
    if found.get("rows"):
        blocks.append(_rows(found))
    if found.get("reviewers"):
        blocks.append(_reviewers(found["reviewers"]))
    blocks += [note(sentence(text)) for text in found.get("notes") or ()]
    return Section("cost", "Cost", tuple(blocks))


def _panels(panels: Row) -> Iterator[Block]:
    rows = _unique([*panels.get("frontier", ()), *panels.get("by_size", ())])
    edge = [_key(row) for row in panels.get("frontier") or ()]
    priced = [row for row in rows if number(row, "usd") is not None and number(row, "accuracy") is not None]
    if len(priced) > 1:
        yield _figure(priced, edge, panels)
    if panels.get("unpriced"):
        yield note("Price unknown, so on no frontier: ", ", ".join(map(str, panels["unpriced"])), ".")
    if panels.get("note"):
        yield note(sentence(panels["note"]))


def _key(row: Row) -> tuple[str, ...]:
    return tuple(map(str, row["reviewers"]))


def _unique(rows: Sequence[Row]) -> list[Row]:
    return list({_key(row): row for row in reversed(rows)}.values())[::-1]


def _figure(rows: Sequence[Row], edge: Sequence[tuple[str, ...]], panels: Row) -> Figure:
    # what was held out is drawn first, so that it lies below
    points = [point for row in rows if (point := _held_out(row)) is not None]
    points += [_point(row, on_edge=_key(row) in edge) for row in rows]
    path = sorted((point.x, point.y) for point in points if point.series == "on the frontier")
    costs = [point.x for point in points if point.x > 0]
    logarithmic = bool(costs) and max(costs) / min(costs) > SPREAD
    level = percent(number(panels, "level") or 0.95)
    columns = (
        Column("panel", "panel", "text"),
        Column("size", "size", "count"),
        Column("usd", "USD", "usd"),
        Column("accuracy", "accuracy", "number"),
        Column("low", "low", "number", absent="none"),
        Column("high", "high", "number", absent="none"),
        Column("held", "held out", "number", absent="-"),
        Column("difference", "to the best", "signed", absent="-"),
        Column("used", "pairs", "count"),
        Column("edge", "frontier"),
    )
    table = [
        {
            **row,
            "panel": " + ".join(_key(row)),
            "held": number(row.get("held_out") or {}, "accuracy"),
            "edge": "yes" if _key(row) in edge else "no",
        }
        for row in rows
    ]
    return Figure(
        "cost",
        ("Accuracy against cost",),
        (
            f"Panels of reviewers: agreement with people against US dollars, with {level} intervals. The line is the ",
            Term("frontier"),
            "; rings are the same choice ",
            Term("held out", "on held-out tasks"),
            f". {sentence('compared: ' + str(panels.get('search', 'unknown')))}",
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
        (Table(("Panels",), columns, tuple(table)),),
    )


def _point(row: Row, *, on_edge: bool) -> Point:
    name = " + ".join(_key(row))
    accuracy = number(row, "accuracy") or 0.0
    return Point(
        name,
        number(row, "usd") or 0.0,
        accuracy,
        number(row, "low"),
        number(row, "high"),
        series="on the frontier" if on_edge else "best of its size",
        shape="dot" if on_edge else "square",
        tone="blue" if on_edge else "vermilion",
        hint=f"{name}: {numeral(accuracy)} for {usd(number(row, 'usd'))} USD",
    )


def _held_out(row: Row) -> Point | None:
    held = number(row.get("held_out") or {}, "accuracy")
    if held is None:
        return None
    name = " + ".join(_key(row))
    return Point(
        name,
        number(row, "usd") or 0.0,
        held,
        series="the same choice, held out",
        shape="ring",
        tone="muted",
        hint=f"{name}, held out: {numeral(held)}",
        named=False,
        size=6.5,
    )


def _rows(found: Row) -> Table:
    rows = []
    for row in found["rows"]:
        scaled = row.get("scaled") or {}
        rows.append(
            {
                **row,
                "metric": ", ".join(map(str, row.get("metrics") or ())),
                "scaled_tokens": number(scaled, "tokens"),
                "scaled_usd": number(scaled, "usd"),
            }
        )
    many = f"{count(found, 'tasks'):,}"
    columns = (
        Column("metric", "metric", "text"),
        Column("part", "asks the", "name", absent="nobody"),
        Column("model", "model", "name", absent="-"),
        Column("source", "known by"),
        Column("calls", "calls", "count"),
        Column("reused", "from the journal", "count"),
        Column("tokens", "tokens", "count"),
        Column("usd", "USD", "usd", absent="unknown"),
        Column("scaled_tokens", f"tokens on {many} tasks", "large", absent="unknown"),
        Column("scaled_usd", f"USD on {many} tasks", "usd", absent="unknown"),
    )
    caption = f"What it costs on {plural(count(found, 'n_tasks'), 'task')}, and would cost on {many} like them"
    return Table((caption,), columns, tuple(rows))


def _reviewers(rows: Sequence[Row]) -> Table:
    columns = (
        Column("reviewer", "reviewer", "name"),
        Column("judgements", "judgements", "count"),
        Column("tokens", "tokens", "count"),
        Column("tokens_a_judgement", "a judgement", "count"),
        Column("tokens_from", "tokens known by"),
        Column("price_from", "price known by"),
        Column("usd", "USD", "usd", absent="unknown"),
    )
    return Table(("What reviewers' judgements cost",), columns, tuple(rows))
