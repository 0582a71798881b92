"""Raters: how much one rater's labels tell about another's, from the labels alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.html.blocks import Block, Column, Figure, Heading, Name, Section, Table
from goldless.reports.html.charts.intervals import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import number, numeral

Row = Mapping[str, Any]


def raters_section(run: RunDocuments) -> Section | None:
    """The section; None where no metric is of raters."""
    metrics = (run.get("leaderboard") or {}).get("metrics") or {}
    found = {name: metric for name, metric in metrics.items() if "criteria" in metric}
    if not found:
        return None
    blocks: list[Block] = []
    for metric in found.values():
        for criterion, one in metric["criteria"].items():
            if len(metric["criteria"]) > 1:
                blocks.append(Heading((Name(criterion or "labels"),)))
            blocks.append(_figure(one))
    return Section("raters", "Raters", tuple(blocks))


def _figure(found: Row) -> Figure:
    rows = [{"rater": "mean over pairs of raters", **found, "partners": None}, *found["raters"]]
    drawn = []
    for row in rows:
        value, null = number(row, "value"), number(row, "null")
        aside = "" if value is None else numeral(value)
        chance = f"chance {numeral(null)}"
        drawn.append(IntervalRow(str(row["rater"]), value, aside=aside, hint=f"{row['rater']}: {aside}, {chance}"))
    columns = (
        Column("rater", "rater", "name"),
        Column("value", "TVD-MI", "number"),
        Column("null", "by chance", "number"),
        Column("excess", "excess", "signed"),
        Column("p", "p", "p"),
        Column("partners", "partners", "count", absent="-"),
    )
    null = number(found, "null")
    return Figure(
        "raters",
        ("How much labels tell about each other",),
        (
            (
                "TVD-MI between a rater's labels and the others', higher is more. The line is the mean of what "
                "shuffled labels give."
            ),
        ),
        pictures(interval_plot, drawn, title="Information between raters", axis="TVD-MI", reference=null),
        (Table(("Raters",), columns, tuple(rows)),),
    )
