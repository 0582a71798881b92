"""The report's section on bias: what judges favour besides quality (PRE, figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from goldless.meta_evaluation.bias.report import STAR, BiasReport, BiasRow
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Fold,
    Heading,
    Table,
    Term,
    listed,
    names,
    remarks,
    result_table,
    section,
)
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map, strength
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import numeral, percent, plural
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder

SHOWN = {True: "yes", False: "no", None: "undecidable"}


@section("bias", "Bias of judges")
def bias_section(run: RunFolder) -> Iterator[Block]:
    """What judges favour: position, length, markup, their own family; None if no bias was measured."""
    found: BiasReport | None = run.others.get("bias")
    if found is None:
        return
    yield Bullets(tuple(found.findings()))
    yield from _matrix(found)
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = [row for row in found.rows if row.bias == bias]
        gaps = [row for row in rows if row.pair]
        figures = [
            *([_gaps(gaps, found)] if gaps else []),
            *_figures(bias, [row for row in rows if not row.pair], found),
        ]
        yield Fold(f"{bias.capitalize()} in detail", [*figures, *remarks([STAR] * any(row.shown for row in rows))])
    if found.unavailable:
        yield Heading("Not measured")
        whose = ((" of ", *listed(row.judges)) if row.judges else () for row in found.unavailable)
        reasons = zip(found.unavailable, whose, strict=True)
        yield Bullets(tuple((row.bias, *who, f": {row.reason}") for row, who in reasons))


def _matrix(found: BiasReport) -> Iterator[Block]:
    """One table of judges by biases, those with the most biases first."""
    rows = [row for row in found.rows if row.kind != "reviewers" and row.neutral is not None and not row.pair]
    rows = [row for row in rows if row.about in (None, row.judge)]
    measures = list(dict.fromkeys((row.bias, row.measure, row.neutral) for row in rows))
    by_judge: dict[str, dict[str, Any]] = {}
    shown: Counter[str] = Counter()
    for row in rows:
        place = measures.index((row.bias, row.measure, row.neutral))
        value = numeral(row.value, signed=row.neutral == 0.0)
        by_judge.setdefault(row.judge, {"judge": row.judge})[f"m{place}"] = f"{value} ●" if row.shown else value
        shown[row.judge] += bool(row.shown)
    if not by_judge:
        return
    columns = [
        Column(f"m{place}", f"{bias}: {measure} (unbiased {neutral:g})", "figure", "-")
        for place, (bias, measure, neutral) in enumerate(measures)
    ]
    ordered = sorted(by_judge.values(), key=lambda row: -shown[row["judge"]])
    yield Table("● The interval excludes the value of an unbiased judge", (*names(judge="judge"), *columns), ordered)


def _figures(bias: str, rows: Sequence[BiasRow], found: BiasReport) -> Iterator[Figure]:
    """One figure per unbiased value."""
    for neutral in dict.fromkeys(row.neutral for row in rows):
        mine = [row for row in rows if row.neutral == neutral]
        differences = neutral == 0.0
        order = list(dict.fromkeys(row.measure for row in mine))
        mine.sort(key=lambda row: (order.index(row.measure), -(row.value or 0.0)))
        drawn = [_row(row, differences=differences) for row in mine]
        what = "difference of shares" if differences else "share"
        unbiased = "for comparison only" if neutral is None else f"unbiased is {neutral:g}"
        yield Figure(
            "bias",
            f"{bias.capitalize()}: {unbiased}",
            (
                f"With {percent(found.level)} intervals. Dot: significant bias; ring: not significant, or undecidable.",
                " Where the better response may also be the longer one, what an unbiased judge would do is not known."
                if neutral is None
                else " The line marks an unbiased judge.",
            ),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            list(map(result_table, found.measure_tables(mine))),
            f"{sum(bool(row.shown) for row in mine)} of {len(mine)} numbers show a bias.",
        )


def _row(row: BiasRow, *, differences: bool) -> IntervalRow:
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
        hint=f"{row.judge}: {numeral(row.value)}; significant: {SHOWN[row.shown]}",
    )


def _gaps(rows: Sequence[BiasRow], found: BiasReport) -> Figure:
    gaps = found.gaps
    reviewers = list(dict.fromkeys(name for name, _ in gaps))
    largest = max((abs(row.value or 0.0) for row in rows if row.shown), default=0.0) or 1.0
    cells = [
        [_gap(gaps.get((one, other)), largest) if one != other else None for other in reviewers] for one in reviewers
    ]
    picture = heat_map(
        reviewers,
        cells,
        title="Preference gap of each pair of reviewers",
        corner="reviewers",
        legend=Legend(((0.9, "each prefers its own"), (-0.9, "each prefers the other's"), (0.0, "not significant"))),
    )
    caption = (
        " of two reviewers that are also agents: the share of tasks where one prefers its own response to the "
        "other's, minus the share where the other agrees. It is the same on both sides of the diagonal."
    )
    term = Term("gap", "preference gap")
    tables = list(map(result_table, found.measure_tables(rows)))
    many = sum(bool(row.shown) for row in rows)
    finding = f"{many} of {plural(len(rows), 'pair')} of reviewers {'has' if many == 1 else 'have'} a significant gap."
    return Figure("preference-gap", "Preference gaps", ("The ", term, caption), [picture], tables, finding)


def _gap(row: BiasRow | None, largest: float) -> HeatCell:
    if row is None or row.value is None:
        return HeatCell(0.0, "-", "-", "missing", sure=False)
    hint = f"{row.judge}: {numeral(row.value, signed=True)}; significant: {SHOWN[row.shown]}"
    shown = bool(row.shown)
    coloured = strength(row.value, largest) if shown else 0.0
    return HeatCell(coloured, numeral(row.value, 2, signed=True), "*" if shown else "", hint, sure=shown)
