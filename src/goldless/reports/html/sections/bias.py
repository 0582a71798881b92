"""Bias: what judges favour besides quality: place, length, markup, their own kind (PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import Block, Bullets, Column, Figure, Heading, Section, Table, Term, listed, words
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map
from goldless.reports.html.charts.intervals import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import number, numeral, percent

Row = Mapping[str, Any]
COLUMNS = (
    Column("judge", "judge", "name"),
    Column("measure", "measure"),
    Column("about", "about", "name", absent="-"),
    Column("value", "value", "number"),
    Column("low", "low", "number", absent="none"),
    Column("high", "high", "number", absent="none"),
    Column("neutral", "no bias is", "number", 1, absent="unknown"),
    Column("said", "shown"),
    Column("asked", "asked", "count"),
    Column("used", "used", "count"),
    Column("ties", "ties", "count"),
    Column("n_tasks", "tasks", "count"),
    Column("note", "note", absent=""),
)


def bias_section(run: RunDocuments) -> Section | None:
    """The section; None where no bias was looked for."""
    found = run.get("bias")
    if found is None:
        return None
    level = percent(number(found, "level") or 0.95)
    blocks: list[Block] = [
        words(
            "A bias is shown where the whole interval lies beside the value of a judge without it. Where the better "
            "response may also be the longer one, no such value is known and the number is for comparison only."
        )
    ]
    for bias in dict.fromkeys(str(row["bias"]) for row in found["rows"]):
        rows = [{**row, "said": _said(row)} for row in found["rows"] if row["bias"] == bias]
        gaps = [row for row in rows if row.get("pair")]
        if gaps:
            blocks.append(_gaps(gaps))
        blocks += _figures(bias, [row for row in rows if not row.get("pair")], level)
    blocks += _unavailable(found.get("unavailable") or ())
    return Section("bias", "Bias of judges", tuple(blocks))


def _said(row: Row) -> str:
    shown = row.get("shown")
    return "cannot be said" if shown is None else "yes" if shown else "no"


def _figures(bias: str, rows: Sequence[Row], level: str) -> Iterator[Figure]:
    """What is held against the same value stands together."""
    for neutral in dict.fromkeys(number(row, "neutral") for row in rows):
        mine = [row for row in rows if number(row, "neutral") == neutral]
        differences = neutral == 0.0
        order = list(dict.fromkeys(str(row["measure"]) for row in mine))
        mine.sort(key=lambda row: order.index(str(row["measure"])))
        drawn = [_drawn(row, differences=differences) for row in mine]
        what = "difference of shares" if differences else "share"
        yield Figure(
            "bias",
            (f"{bias.capitalize()}: {_held(neutral)}",),
            (
                (
                    f"With {level} intervals. Dot: the bias is shown; ring: it is not, or that cannot be said."
                    f"{'' if neutral is None else ' The line is where a judge without the bias stands.'}"
                ),
            ),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            (Table((f"{bias.capitalize()}: every number",), COLUMNS, tuple(mine)),),
        )


def _held(neutral: float | None) -> str:
    return "for comparison only" if neutral is None else f"no bias is {neutral:g}"


def _drawn(row: Row, *, differences: bool) -> IntervalRow:
    value = number(row, "value")
    about = f" about {row['about']}" if row.get("about") and row["about"] != row["judge"] else ""
    return IntervalRow(
        f"{row['judge']}{about}",
        value,
        number(row, "low"),
        number(row, "high"),
        aside=numeral(value, absent="", signed=differences),
        shape="dot" if row.get("shown") else "ring",
        tone="vermilion" if row.get("shown") else "blue" if row.get("neutral") is not None else "muted",
        group=str(row["measure"]),
        hint=f"{row['judge']}: {numeral(value)}; shown: {_said(row)}",
    )


def _gaps(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(str(name) for row in rows for name in row["pair"]))
    by_pair = {frozenset(map(str, row["pair"])): row for row in rows}
    largest = max((abs(number(row, "value") or 0.0) for row in rows if row.get("shown")), default=0.0) or 1.0
    cells = [
        [_gap(by_pair.get(frozenset((one, other))), largest) if one != other else None for other in names]
        for one in names
    ]
    picture = heat_map(
        names,
        cells,
        title="Preference gap of every two reviewers",
        corner="reviewers; columns by the row's number",
        legend=Legend(((0.9, "each leans to its own"), (-0.9, "each leans to the other's"), (0.0, "grey: not shown"))),
    )
    return Figure(
        "preference-gap",
        ("Preference gaps",),
        (
            "The ",
            Term("gap", "preference gap"),
            (
                " of two reviewers that are agents too: the share of tasks on which one finds its own response better "
                "than the other's, less the share on which the other says so as well. It is the same on both sides of "
                "the diagonal."
            ),
        ),
        (picture,),
        (Table(("Preference gaps",), COLUMNS, tuple(rows)),),
    )


def _gap(row: Row | None, largest: float) -> HeatCell | None:
    value = None if row is None else number(row, "value")
    if row is None or value is None:
        return HeatCell(0.0, "-", "-", "missing", sure=False)
    text = numeral(value, 2, signed=True)
    hint = f"{row['judge']}: {numeral(value, signed=True)}; shown: {_said(row)}"
    shown = bool(row.get("shown"))
    strength = (0.3 + 0.7 * abs(value) / largest) * (1 if value > 0 else -1) if shown else 0.0
    return HeatCell(strength, text, "*" if shown else "", hint, sure=shown)


def _unavailable(rows: Sequence[Row]) -> Iterator[Block]:
    if not rows:
        return
    items = []
    for row in rows:
        judges = [str(name) for name in row.get("judges") or ()]
        who = (" of ", *listed(judges)) if judges else ()
        items.append((str(row["bias"]), *who, f": {row['reason']}"))
    yield Heading(("Not measured",))
    yield Bullets(tuple(items))
