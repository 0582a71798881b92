"""The report's section on the crash test of metrics (GEM, tables 2, 4, 5)."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.meta_evaluation.rating_card import CrashResult, CrashTest, Rating
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Fold,
    Name,
    Table,
    Term,
    counts,
    result_table,
    section,
    texts,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.run_folder import RunFolder

DRAWN: dict[Rating, tuple[Shape, str, str]] = {
    "pass": ("dot", "blue", "✓\u00a0pass"),
    "fail": ("cross", "vermilion", "✕\u00a0fail"),
    "not shown": ("ring", "muted", "○\u00a0not\u00a0shown"),
}
"""Shape, colour and sign of each rating."""
GROUPS = {
    "fall": "Content removed: the score must fall",
    "not rise": "Superficial changes: the score must not rise",
}


@section("crash-test", "Crash test of the metrics")
def crash_section(run: RunFolder) -> Iterator[Block]:
    """How each metric reacts to degraded or superficially changed responses; None if there was no crash test."""
    test: CrashTest | None = run.others.get("crash_test")
    if test is None:
        return
    there = plural(test.responses_there_are, "response")
    some = f"{test.responses:,} of {there}, drawn at random,"
    which = there if test.responses == test.responses_there_are else some
    yield words(
        f"{which} were changed in known ways and scored again. "
        "A sound metric falls when content is removed and does not rise when a response is changed only superficially.",
    )
    figures = [_figure(metric, test) for metric in test.metrics]
    if len(figures) > 1:
        yield Bullets(tuple(test.findings()))
        yield result_table(test.overview())
        yield Fold(f"A chart for each of the {len(figures)} metrics", figures)
    else:
        yield from figures
    if test.problems:
        rows = [{"what": what, "count": times} for what, times in test.problems.items()]
        yield Table("Missing in the crash test", (*texts(what="what"), *counts(count="times")), rows)


def _figure(metric: str, test: CrashTest) -> Figure:
    margin, card = test.margin, test.metrics[metric]
    both = pictures(
        interval_plot,
        [_row(row) for row in sorted(card.perturbations, key=lambda row: list(GROUPS).index(row.must))],
        title=f"Crash test of {metric}: standardised mean differences",
        axis="standardised mean difference: lower after the change ← 0 → higher",
        reference=0.0,
        band=Band(-margin, margin) if margin > 0 else None,
    )
    caption = (
        f" of {metric} after a change, with its {percent(test.level)} interval. Dot: pass; cross: fail; ring: the "
        f"interval is too wide to decide. Grey band: effects smaller than {margin:g} count as none."
    )
    counted = ", ".join(f"{count} {rating}" for rating, count in card.counts.items())
    failed = [row.perturbation for row in card.perturbations if row.rating == "fail"]
    return Figure(
        "crash-test",
        (Name(metric), f": {counted}"),
        (Term("smd", "Standardised mean difference"), caption),
        both,
        [result_table(test.table(metric))],
        f"{label(metric)} fails {', '.join(map(label, failed))}." if failed else f"{label(metric)} fails no test.",
    )


def _row(row: CrashResult) -> IntervalRow:
    shape, tone, sign = DRAWN[row.rating]
    return IntervalRow(
        row.perturbation,
        row.smd,
        row.smd_low,
        row.smd_high,
        aside=f"{numeral(row.smd, 2, signed=True, absent='')} {sign}",
        shape=shape,
        tone=tone,
        group=GROUPS[row.must],
        hint=f"{row.perturbation}: {row.rating}, {row.reason or row.note or ''}",
    )
