"""How far to trust the numbers: crash test (GEM, tables 2, 4, 5), biases (PRE, figure 3), cost (Auto-PRE, figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.documents.meta_evaluation import (
    BiasDocument,
    BiasNote,
    CostDocument,
    CrashCard,
    CrashTestDocument,
    PanelCostNote,
    PanelsNote,
    PerturbationNote,
)
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Fold,
    Heading,
    Name,
    Table,
    Term,
    counts,
    ends,
    listed,
    names,
    note,
    number,
    remarks,
    section,
    sentence,
    signed,
    texts,
    words,
)
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map, strength
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.scatter import Point, scatter_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.meta_findings import bias_findings, cost_findings, crash_findings
from goldless.reports.report_table import Column, usd_text
from goldless.reports.run_folder import RunFolder

SHAPES: dict[str, Shape] = {"pass": "dot", "fail": "cross", "not shown": "ring"}
TONES = {"pass": "blue", "fail": "vermilion", "not shown": "muted"}
SIGNS = {"pass": "✓\u00a0pass", "fail": "✕\u00a0fail", "not shown": "○\u00a0not\u00a0shown"}
GROUPS = {
    "fall": "Content removed: the score must fall",
    "not rise": "Superficial changes: the score must not rise",
}
CRASH_COLUMNS = (
    *names(perturbation="change"),
    *texts(must="score must", rating="rating", reason="why"),
    signed("smd", "SMD", 2),
    Column("smd_low smd_high", "", "signed interval", "none", 2),
    signed("paired_d", "d", 2, absent="-"),
    Column("p", "p", "probability", "-"),
    number("mean_before", "mean before", absent="-"),
    number("mean_after", "mean after", absent="-"),
    *counts(samples="n", tasks="tasks", unchanged="unchanged", not_made="not made", missing="missing"),
)


@section("crash-test", "Crash test of the metrics")
def crash_test_section(run: RunFolder) -> Iterator[Block]:
    """How each metric reacts to degraded or superficially changed responses; None if there was no crash test."""
    card = run.crash_test
    if card is None:
        return
    there = plural(card.responses_there_are, "response")
    some = f"{card.responses:,} of {there}, drawn at random,"
    which = there if card.responses == card.responses_there_are else some
    yield words(
        f"{which} were changed in known ways and scored again. "
        "A sound metric falls when content is removed and does not rise when a response is changed only superficially.",
    )
    figures = [_crash_figure(metric, one, card) for metric, one in card.metrics.items()]
    if len(figures) > 1:
        yield Bullets(tuple(crash_findings(card)))
        yield _overview(card.metrics)
        yield Fold(f"A chart for each of the {len(figures)} metrics", figures)
    else:
        yield from figures


def _overview(metrics: Mapping[str, CrashCard]) -> Table:
    rows: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(metrics.values()):
        for row in one.perturbations:
            mine = rows.setdefault(row.perturbation, {"perturbation": row.perturbation, "must": f"must {row.must}"})
            smd = numeral(row.smd, 2, signed=True, absent="no effect size")
            mine[f"m{place}"] = f"{smd}\u00a0{SIGNS.get(row.rating, row.rating)}"
    columns = [Column(f"m{place}", name, absent="not tested") for place, name in enumerate(metrics)]
    caption = ("All metrics: ", Term("smd", "SMD"), " and rating")
    return Table(caption, (*names(perturbation="change"), *texts(must="score"), *columns), [*rows.values()])


def _crash_figure(metric: str, one: CrashCard, card: CrashTestDocument) -> Figure:
    margin, order = card.margin, list(GROUPS)
    ordered = sorted(one.perturbations, key=lambda row: order.index(row.must) if row.must in order else len(order))
    both = pictures(
        interval_plot,
        [_crash_row(row) for row in ordered],
        title=f"Crash test of {metric}: standardised mean differences",
        axis="standardised mean difference: lower after the change ← 0 → higher",
        reference=0.0,
        band=Band(-margin, margin) if margin > 0 else None,
    )
    caption = (
        f" of {metric} after a change, with its {percent(card.level)} interval. Dot: pass; cross: fail; ring: the "
        f"interval is too wide to decide. Grey band: effects smaller than {margin:g} count as none."
    )
    counted = ", ".join(f"{one.counts.get(rating, 0)} {rating}" for rating in SHAPES)
    table = Table("All changes", CRASH_COLUMNS, one.perturbations)
    term = Term("smd", "Standardised mean difference")
    failed = [row.perturbation for row in one.perturbations if row.rating == "fail"]
    finding = f"{label(metric)} fails {', '.join(map(label, failed))}." if failed else f"{label(metric)} fails no test."
    return Figure("crash-test", (Name(metric), f": {counted}"), (term, caption), both, [table], finding)


def _crash_row(row: PerturbationNote) -> IntervalRow:
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


# --- bias: what judges favour besides quality ------------------------------------------------------------------------

SHOWN = {True: "yes", False: "no", None: "undecidable"}
BIAS_COLUMNS = (
    *names(judge="judge"),
    *texts(measure="measure"),
    *names("-", about="about"),
    number("value", "value"),
    ends(),
    number("neutral", "unbiased", 1, absent="unknown"),
    *texts(said="significant"),
    *counts(asked="asked", used="used", ties="ties", n_tasks="tasks"),
    *texts("", note="note"),
)


@section("bias", "Bias of judges")
def bias_section(run: RunFolder) -> Iterator[Block]:
    """What judges favour: position, length, markup, their own family; None if no bias was measured."""
    found = run.bias
    if found is None:
        return
    yield Bullets(tuple(bias_findings(found)))
    yield from _bias_matrix(found)
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = [row for row in found.rows if row.bias == bias]
        gaps = [row for row in rows if row.pair]
        figures = [
            *([_gaps(gaps)] if gaps else []),
            *_bias_figures(bias, [row for row in rows if not row.pair], percent(found.level)),
        ]
        yield Fold(f"{bias.capitalize()} in detail", figures)
    if found.unavailable:
        yield Heading("Not measured")
        whose = ((" of ", *listed(row.judges)) if row.judges else () for row in found.unavailable)
        reasons = zip(found.unavailable, whose, strict=True)
        yield Bullets(tuple((row.bias, *who, f": {row.reason}") for row, who in reasons))


def _bias_matrix(found: BiasDocument) -> Iterator[Block]:
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


def _bias_table(caption: str, rows: Sequence[BiasNote]) -> Table:
    return Table(caption, BIAS_COLUMNS, [row.cells(said=SHOWN[row.shown]) for row in rows])


def _bias_figures(bias: str, rows: Sequence[BiasNote], level: str) -> Iterator[Figure]:
    """One figure per unbiased value."""
    for neutral in dict.fromkeys(row.neutral for row in rows):
        mine = [row for row in rows if row.neutral == neutral]
        differences = neutral == 0.0
        order = list(dict.fromkeys(row.measure for row in mine))
        mine.sort(key=lambda row: (order.index(row.measure), -(row.value or 0.0)))
        drawn = [_bias_row(row, differences=differences) for row in mine]
        what = "difference of shares" if differences else "share"
        unbiased = "for comparison only" if neutral is None else f"unbiased is {neutral:g}"
        yield Figure(
            "bias",
            f"{bias.capitalize()}: {unbiased}",
            (
                f"With {level} intervals. Dot: significant bias; ring: not significant, or undecidable.",
                " Where the better response may also be the longer one, what an unbiased judge would do is not known."
                if neutral is None
                else " The line marks an unbiased judge.",
            ),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            [_bias_table(f"{bias.capitalize()}: all numbers", mine)],
            f"{sum(bool(row.shown) for row in mine)} of {len(mine)} numbers show a bias.",
        )


def _bias_row(row: BiasNote, *, differences: bool) -> IntervalRow:
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


def _gaps(rows: Sequence[BiasNote]) -> Figure:
    reviewers = list(dict.fromkeys(name for row in rows for name in row.pair or ()))
    by_pair = {frozenset(row.pair or ()): row for row in rows}
    largest = max((abs(row.value or 0.0) for row in rows if row.shown), default=0.0) or 1.0
    cells = [
        [_gap(by_pair.get(frozenset((one, other))), largest) if one != other else None for other in reviewers]
        for one in reviewers
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
    table = _bias_table("Preference gaps", rows)
    many = sum(bool(row.shown) for row in rows)
    finding = f"{many} of {plural(len(rows), 'pair')} of reviewers {'has' if many == 1 else 'have'} a significant gap."
    return Figure("preference-gap", "Preference gaps", ("The ", term, caption), [picture], [table], finding)


def _gap(row: BiasNote | None, largest: float) -> HeatCell:
    if row is None or row.value is None:
        return HeatCell(0.0, "-", "-", "missing", sure=False)
    hint = f"{row.judge}: {numeral(row.value, signed=True)}; significant: {SHOWN[row.shown]}"
    shown = bool(row.shown)
    coloured = strength(row.value, largest) if shown else 0.0
    return HeatCell(coloured, numeral(row.value, 2, signed=True), "*" if shown else "", hint, sure=shown)


# --- cost: what metrics and reviewers cost, and what accuracy the money buys -----------------------------------------

SPREAD = 30.0
"""Costs that differ by more than this factor get a logarithmic axis."""
USD = Column("usd", "USD", "usd", "unknown")
LETTERS = 26
PANEL_COLUMNS = (
    *texts(point="point", panel="panel"),
    *counts(size="size"),
    Column("usd", "USD", "usd"),
    number("effective_votes", "worth votes", 2, absent="-"),
    number("accuracy", "accuracy"),
    ends(),
    number("held", "held out", absent="-"),
    signed("difference", "minus the best", absent="-"),
    *counts(used="pairs"),
    *texts(edge="frontier"),
)
REVIEWER_COLUMNS = (
    *names(reviewer="reviewer"),
    *counts(judgements="judgements", tokens="tokens", tokens_a_judgement="tokens per judgement"),
    *texts(tokens_from="token source", price_from="price source"),
    USD,
)


@section("cost", "Cost")
def cost_section(run: RunFolder) -> Iterator[Block]:
    """What accuracy, metrics and reviewers cost; None if no cost was computed."""
    found = run.cost
    if found is None:
        return
    if found.panels is not None:
        yield from _panels(found.panels, " ".join(in_text(said, label) for said in cost_findings(found)))
    tables = [_costs(found)] * bool(found.rows)
    if found.reviewers:
        tables.append(Table("Cost of judgements by reviewer", REVIEWER_COLUMNS, found.reviewers))
    yield from tables if found.panels is None else [Fold("Cost of each metric and reviewer", tables)] * bool(tables)
    yield from remarks(found.notes)


def _panels(panels: PanelsNote, finding: str) -> Iterator[Block]:
    rows = list({row.reviewers: row for row in reversed([*panels.frontier, *panels.by_size])}.values())[::-1]
    priced = [row for row in rows if row.usd is not None and row.accuracy is not None]
    if len(priced) > 1:
        yield _panel_figure(priced, {row.reviewers for row in panels.frontier}, panels, finding)
    elif finding:
        yield words(finding)
    if panels.unpriced:
        yield note("Not on a frontier because the price is unknown: ", ", ".join(panels.unpriced), ".")
    if panels.note:
        yield note(sentence(panels.note))


def _panel_figure(
    rows: Sequence[PanelCostNote], edge: set[tuple[str, ...]], panels: PanelsNote, finding: str
) -> Figure:
    rows = sorted(rows, key=lambda row: (row.usd or 0.0, row.accuracy or 0.0))
    letters = [chr(ord("A") + place) if place < LETTERS else str(place + 1) for place in range(len(rows))]
    # held-out points are drawn first, so that they are behind the others
    points = [_held_out(row) for row in rows if row.held_out.accuracy is not None]
    points += [
        _panel_point(row, letter, on_edge=row.reviewers in edge) for row, letter in zip(rows, letters, strict=True)
    ]
    path = sorted((point.x, point.y) for point in points if point.series == "on the frontier")
    paid = [point.x for point in points if point.x > 0]
    logarithmic = bool(paid) and max(paid) / min(paid) > SPREAD
    cells = [
        row.cells(
            point=letter, panel=row.name, held=row.held_out.accuracy, edge="yes" if row.reviewers in edge else "no"
        )
        for row, letter in zip(rows, letters, strict=True)
    ]
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
        [Table("Panels", PANEL_COLUMNS, cells)],
        finding,
    )


def _panel_point(row: PanelCostNote, letter: str, *, on_edge: bool) -> Point:
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


def _held_out(row: PanelCostNote) -> Point:
    return Point(
        row.name,
        row.usd or 0.0,
        row.held_out.accuracy or 0.0,
        series="the same panel, held out",
        shape="ring",
        tone="muted",
        hint=f"{row.name}, held out: {numeral(row.held_out.accuracy)}",
        named=False,
        size=6.5,
    )


def _costs(found: CostDocument) -> Table:
    many = f"{found.tasks:,}"
    columns = (
        *texts(metric="metric"),
        *names("none", part="role"),
        *names("-", model="model"),
        *texts(source="source"),
        *counts(calls="calls", reused="from the journal", tokens="tokens"),
        USD,
        Column("scaled_tokens", f"tokens on {many} tasks", "large", "unknown"),
        Column("scaled_usd", f"USD on {many} tasks", "usd", "unknown"),
    )
    rows = [
        row.cells(
            metric=", ".join(row.metrics), scaled_tokens=row.scaled.get("tokens"), scaled_usd=row.scaled.get("usd")
        )
        for row in found.rows
    ]
    return Table(f"Cost on {plural(found.n_tasks, 'task')}, and estimated cost on {many} similar tasks", columns, rows)
