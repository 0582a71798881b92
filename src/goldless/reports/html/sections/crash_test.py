"""The crash test: what each metric does when responses are made worse, or only dressed up (GEM, tables 2, 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import Block, Column, Figure, Name, Section, Table, Term, words
from goldless.reports.html.charts.intervals import Band, IntervalRow, Shape, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import count, number, numeral, percent, plural

Row = Mapping[str, Any]
SHAPES: dict[str, Shape] = {"pass": "dot", "fail": "cross", "not shown": "ring"}
TONES = {"pass": "blue", "fail": "vermilion", "not shown": "muted"}
SIGNS = {"pass": "✓\u00a0pass", "fail": "✕\u00a0fail", "not shown": "○\u00a0not\u00a0shown"}
GROUPS = {"fall": "Content is lost: the score must fall", "not rise": "Only dressed up: the score must not rise"}


def crash_test_section(run: RunDocuments) -> Section | None:
    """The section; None where there was no crash test."""
    card = run.get("crash_test")
    if card is None:
        return None
    metrics: Mapping[str, Row] = card["metrics"]
    blocks: list[Block] = [_summary(card)]
    if len(metrics) > 1:
        blocks.append(_overview(metrics))
    blocks += [_figure(metric, one, card) for metric, one in metrics.items()]
    return Section("crash-test", "Crash test of the metrics", tuple(blocks))


def _summary(card: Row) -> Block:
    drawn, there = count(card, "responses"), count(card, "responses_there_are")
    which = (
        plural(drawn, "response") if drawn == there else f"{drawn:,} of {plural(there, 'response')}, drawn by the seed,"
    )
    return words(
        f"{which} were changed in known ways and scored again. A sound metric falls where content is lost and does not "
        "rise where a response is only dressed up.",
    )


def _overview(metrics: Mapping[str, Row]) -> Table:
    names = list(metrics)
    rows: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(metrics.values()):
        for row in one["perturbations"]:
            mine = rows.setdefault(
                str(row["perturbation"]), {"perturbation": row["perturbation"], "must": f"must {row['must']}"}
            )
            smd = numeral(number(row, "smd"), 2, signed=True, absent="no effect size")
            mine[f"m{place}"] = f"{smd}\u00a0{SIGNS.get(row['rating'], row['rating'])}"
    columns = [Column(f"m{place}", name, "text", absent="not tested") for place, name in enumerate(names)]
    caption = ("All metrics side by side: ", Term("smd", "SMD"), " and rating")
    return Table(
        caption, (Column("perturbation", "change", "name"), Column("must", "score"), *columns), tuple(rows.values())
    )


def _figure(metric: str, one: Row, card: Row) -> Figure:
    rows: Sequence[Row] = one["perturbations"]
    margin, level = number(card, "margin") or 0.0, percent(number(card, "level") or 0.95)
    order = {must: place for place, must in enumerate(GROUPS)}
    drawn = [_row(row) for row in sorted(rows, key=lambda row: order.get(str(row.get("must")), len(order)))]
    counts = one.get("counts") or {}
    told = ", ".join(f"{counts.get(rating, 0)} {rating}" for rating in SHAPES)
    columns = (
        Column("perturbation", "change", "name"),
        Column("must", "score must"),
        Column("rating", "rating"),
        Column("reason", "why"),
        Column("smd", "SMD", "signed", 2),
        Column("smd_low", "low", "signed", 2, absent="none"),
        Column("smd_high", "high", "signed", 2, absent="none"),
        Column("paired_d", "d", "signed", 2, absent="-"),
        Column("p_holm", "p (Holm)", "p", absent="-"),
        Column("mean_before", "mean before", "number", absent="-"),
        Column("mean_after", "mean after", "number", absent="-"),
        Column("samples", "n", "count"),
        Column("tasks", "tasks", "count"),
        Column("unchanged", "unchanged", "count"),
        Column("not_made", "not made", "count"),
        Column("missing", "missing", "count"),
    )
    both = pictures(
        interval_plot,
        drawn,
        title=f"Crash test of {metric}: standardised mean differences",
        axis="standardised mean difference: lower after the change ← 0 → higher",
        reference=0.0,
        band=Band(-margin, margin) if margin > 0 else None,
    )
    caption = (
        Term("smd", "Standardised mean difference"),
        (
            f" of {metric} after a change, with its {level} interval. Dot: pass; cross: fail; ring: the interval is "
            f"too wide to tell. Grey: effects nearer to 0 than {margin:g} count as none."
        ),
    )
    return Figure(
        "crash-test", (Name(metric), f": {told}"), caption, both, (Table(("Every change",), columns, tuple(rows)),)
    )


def _row(row: Row) -> IntervalRow:
    rating, smd = str(row["rating"]), number(row, "smd")
    value = numeral(smd, 2, signed=True, absent="")
    return IntervalRow(
        str(row["perturbation"]),
        smd,
        number(row, "smd_low"),
        number(row, "smd_high"),
        aside=f"{value} {SIGNS.get(rating, rating)}",
        shape=SHAPES.get(rating, "ring"),
        tone=TONES.get(rating, "muted"),
        group=GROUPS.get(str(row.get("must")), str(row.get("must"))),
        hint=f"{row['perturbation']}: {rating}, {row.get('reason') or row.get('note') or ''}",
    )
