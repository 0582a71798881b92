"""The crash test: what each metric does when responses are made worse, or only dressed up (GEM, tables 2, 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.documents.meta_evaluation import CrashCard, CrashTestDocument, PerturbationNote
from goldless.reports.html.blocks import Block, Figure, Name, Section, Table, Term, counts, number, signed, words
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import numeral, percent, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column

SHAPES: dict[str, Shape] = {"pass": "dot", "fail": "cross", "not shown": "ring"}
TONES = {"pass": "blue", "fail": "vermilion", "not shown": "muted"}
SIGNS = {"pass": "✓\u00a0pass", "fail": "✕\u00a0fail", "not shown": "○\u00a0not\u00a0shown"}
GROUPS = {"fall": "Content is lost: the score must fall", "not rise": "Only dressed up: the score must not rise"}
COLUMNS = (
    Column("perturbation", "change", "name"),
    Column("must", "score must"),
    Column("rating", "rating"),
    Column("reason", "why"),
    signed("smd", "SMD", 2),
    Column("smd_low smd_high", "", "signed interval", "none", 2),
    signed("paired_d", "d", 2, absent="-"),
    Column("p_holm", "p (Holm)", "probability", "-"),
    number("mean_before", "mean before", absent="-"),
    number("mean_after", "mean after", absent="-"),
    *counts(samples="n", tasks="tasks", unchanged="unchanged", not_made="not made", missing="missing"),
)


def crash_test_section(run: RunResults) -> Section | None:
    """The section; None where there was no crash test."""
    card = run.crash_test
    if card is None:
        return None
    blocks: list[Block] = [_summary(card)]
    if len(card.metrics) > 1:
        blocks.append(_overview(card.metrics))
    blocks += [_figure(metric, one, card) for metric, one in card.metrics.items()]
    return Section("crash-test", "Crash test of the metrics", tuple(blocks))


def _summary(card: CrashTestDocument) -> Block:
    drawn, there = card.responses, plural(card.responses_there_are, "response")
    which = there if drawn == card.responses_there_are else f"{drawn:,} of {there}, drawn by the seed,"
    return words(
        f"{which} were changed in known ways and scored again. A sound metric falls where content is lost and does not "
        "rise where a response is only dressed up.",
    )


def _overview(metrics: Mapping[str, CrashCard]) -> Table:
    rows: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(metrics.values()):
        for row in one.perturbations:
            mine = rows.setdefault(row.perturbation, {"perturbation": row.perturbation, "must": f"must {row.must}"})
            smd = numeral(row.smd, 2, signed=True, absent="no effect size")
            mine[f"m{place}"] = f"{smd}\u00a0{SIGNS.get(row.rating, row.rating)}"
    columns = [Column(f"m{place}", name, absent="not tested") for place, name in enumerate(metrics)]
    caption = ("All metrics side by side: ", Term("smd", "SMD"), " and rating")
    return Table(
        caption, (Column("perturbation", "change", "name"), Column("must", "score"), *columns), tuple(rows.values())
    )


def _figure(metric: str, one: CrashCard, card: CrashTestDocument) -> Figure:
    margin, order = card.margin, list(GROUPS)
    ordered = sorted(one.perturbations, key=lambda row: order.index(row.must) if row.must in order else len(order))
    both = pictures(
        interval_plot,
        [_row(row) for row in ordered],
        title=f"Crash test of {metric}: standardised mean differences",
        axis="standardised mean difference: lower after the change ← 0 → higher",
        reference=0.0,
        band=Band(-margin, margin) if margin > 0 else None,
    )
    caption = (
        Term("smd", "Standardised mean difference"),
        (
            f" of {metric} after a change, with its {percent(card.level)} interval. Dot: pass; cross: fail; ring: the "
            f"interval is too wide to tell. Grey: effects nearer to 0 than {margin:g} count as none."
        ),
    )
    told = ", ".join(f"{one.counts.get(rating, 0)} {rating}" for rating in SHAPES)
    table = Table(("Every change",), COLUMNS, tuple(row.cells() for row in one.perturbations))
    return Figure("crash-test", (Name(metric), f": {told}"), caption, both, (table,))


def _row(row: PerturbationNote) -> IntervalRow:
    value = numeral(row.smd, 2, signed=True, absent="")
    return IntervalRow(
        row.perturbation,
        row.smd,
        row.smd_low,
        row.smd_high,
        aside=f"{value} {SIGNS.get(row.rating, row.rating)}",
        shape=SHAPES.get(row.rating, "ring"),
        tone=TONES.get(row.rating, "muted"),
        group=GROUPS.get(row.must, row.must),
        hint=f"{row.perturbation}: {row.rating}, {row.reason or row.note or ''}",
    )
