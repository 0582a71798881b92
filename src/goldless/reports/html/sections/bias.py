"""Bias: what judges favour besides quality: place, length, markup, their own kind (PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldless.reports.documents.meta_evaluation import BiasNote, UnavailableNote
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Heading,
    Section,
    Table,
    Term,
    counts,
    ends,
    listed,
    number,
    words,
)
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map, strength
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import numeral, percent
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column

SHOWN = {True: "yes", False: "no", None: "cannot be said"}
COLUMNS = (
    Column("judge", "judge", "name"),
    Column("measure", "measure"),
    Column("about", "about", "name", "-"),
    number("value", "value"),
    ends(),
    number("neutral", "no bias is", 1, absent="unknown"),
    Column("said", "shown"),
    *counts(asked="asked", used="used", ties="ties", n_tasks="tasks"),
    Column("note", "note", absent=""),
)


def bias_section(run: RunResults) -> Section | None:
    """The section; None where no bias was looked for."""
    found = run.bias
    if found is None:
        return None
    blocks: list[Block] = [
        words(
            "A bias is shown where the whole interval lies beside the value of a judge without it. Where the better "
            "response may also be the longer one, no such value is known and the number is for comparison only."
        )
    ]
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = [row for row in found.rows if row.bias == bias]
        gaps = [row for row in rows if row.pair]
        if gaps:
            blocks.append(_gaps(gaps))
        blocks += _figures(bias, [row for row in rows if not row.pair], percent(found.level))
    blocks += _unavailable(found.unavailable)
    return Section("bias", "Bias of judges", tuple(blocks))


def _table(caption: str, rows: Sequence[BiasNote]) -> Table:
    return Table((caption,), COLUMNS, tuple(row.cells(said=SHOWN[row.shown]) for row in rows))


def _figures(bias: str, rows: Sequence[BiasNote], level: str) -> Iterator[Figure]:
    """What is held against the same value stands together."""
    for neutral in dict.fromkeys(row.neutral for row in rows):
        mine = [row for row in rows if row.neutral == neutral]
        differences = neutral == 0.0
        order = list(dict.fromkeys(row.measure for row in mine))
        mine.sort(key=lambda row: order.index(row.measure))
        drawn = [_drawn(row, differences=differences) for row in mine]
        what = "difference of shares" if differences else "share"
        held = "for comparison only" if neutral is None else f"no bias is {neutral:g}"
        caption = (
            f"With {level} intervals. Dot: the bias is shown; ring: it is not, or that cannot be said."
            f"{'' if neutral is None else ' The line is where a judge without the bias stands.'}"
        )
        yield Figure(
            "bias",
            (f"{bias.capitalize()}: {held}",),
            (caption,),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            (_table(f"{bias.capitalize()}: every number", mine),),
        )


def _drawn(row: BiasNote, *, differences: bool) -> IntervalRow:
    about = f" about {row.about}" if row.about and row.about != row.judge else ""
    return IntervalRow(
        f"{row.judge}{about}",
        row.value,
        row.low,
        row.high,
        aside=numeral(row.value, absent="", signed=differences),
        shape="dot" if row.shown else "ring",
        tone="vermilion" if row.shown else "blue" if row.neutral is not None else "muted",
        group=row.measure,
        hint=f"{row.judge}: {numeral(row.value)}; shown: {SHOWN[row.shown]}",
    )


def _gaps(rows: Sequence[BiasNote]) -> Figure:
    names = list(dict.fromkeys(name for row in rows for name in row.pair or ()))
    by_pair = {frozenset(row.pair or ()): row for row in rows}
    largest = max((abs(row.value or 0.0) for row in rows if row.shown), default=0.0) or 1.0
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
    caption = (
        "The ",
        Term("gap", "preference gap"),
        (
            " of two reviewers that are agents too: the share of tasks on which one finds its own response better "
            "than the other's, less the share on which the other says so as well. It is the same on both sides of "
            "the diagonal."
        ),
    )
    return Figure("preference-gap", ("Preference gaps",), caption, (picture,), (_table("Preference gaps", rows),))


def _gap(row: BiasNote | None, largest: float) -> HeatCell:
    if row is None or row.value is None:
        return HeatCell(0.0, "-", "-", "missing", sure=False)
    hint = f"{row.judge}: {numeral(row.value, signed=True)}; shown: {SHOWN[row.shown]}"
    shown = bool(row.shown)
    coloured = strength(row.value, largest) if shown else 0.0
    return HeatCell(coloured, numeral(row.value, 2, signed=True), "*" if shown else "", hint, sure=shown)


def _unavailable(rows: Sequence[UnavailableNote]) -> Iterator[Block]:
    if not rows:
        return
    yield Heading(("Not measured",))
    whose = ((" of ", *listed(row.judges)) if row.judges else () for row in rows)
    yield Bullets(tuple((row.bias, *who, f": {row.reason}") for row, who in zip(rows, whose, strict=True)))
