"""What numbers are worth: crash test (GEM, tables 2, 4, 5), biases (PRE, figure 3), cost (Auto-PRE, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.documents.meta_evaluation import (
    BiasNote,
    CostDocument,
    CrashCard,
    CrashTestDocument,
    PanelCostNote,
    PanelsNote,
    PerturbationNote,
)
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
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
from goldless.reports.html.labels import numeral, percent, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column, usd_text

SHAPES: dict[str, Shape] = {"pass": "dot", "fail": "cross", "not shown": "ring"}
TONES = {"pass": "blue", "fail": "vermilion", "not shown": "muted"}
SIGNS = {"pass": "✓\u00a0pass", "fail": "✕\u00a0fail", "not shown": "○\u00a0not\u00a0shown"}
GROUPS = {"fall": "Content is lost: the score must fall", "not rise": "Only dressed up: the score must not rise"}
CRASH_COLUMNS = (
    *names(perturbation="change"),
    *texts(must="score must", rating="rating", reason="why"),
    signed("smd", "SMD", 2),
    Column("smd_low smd_high", "", "signed interval", "none", 2),
    signed("paired_d", "d", 2, absent="-"),
    Column("p_holm", "p (Holm)", "probability", "-"),
    number("mean_before", "mean before", absent="-"),
    number("mean_after", "mean after", absent="-"),
    *counts(samples="n", tasks="tasks", unchanged="unchanged", not_made="not made", missing="missing"),
)


@section("crash-test", "Crash test of the metrics")
def crash_test_section(run: RunResults) -> Iterator[Block]:
    """What each metric does when responses are made worse, or only dressed up; None where there was no crash test."""
    card = run.crash_test
    if card is None:
        return
    there = plural(card.responses_there_are, "response")
    some = f"{card.responses:,} of {there}, drawn by the seed,"
    which = there if card.responses == card.responses_there_are else some
    yield words(
        f"{which} were changed in known ways and scored again. "
        "A sound metric falls where content is lost and does not rise where a response is only dressed up.",
    )
    if len(card.metrics) > 1:
        yield _overview(card.metrics)
    yield from (_crash_figure(metric, one, card) for metric, one in card.metrics.items())


def _overview(metrics: Mapping[str, CrashCard]) -> Table:
    rows: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(metrics.values()):
        for row in one.perturbations:
            mine = rows.setdefault(row.perturbation, {"perturbation": row.perturbation, "must": f"must {row.must}"})
            smd = numeral(row.smd, 2, signed=True, absent="no effect size")
            mine[f"m{place}"] = f"{smd}\u00a0{SIGNS.get(row.rating, row.rating)}"
    columns = [Column(f"m{place}", name, absent="not tested") for place, name in enumerate(metrics)]
    caption = ("All metrics side by side: ", Term("smd", "SMD"), " and rating")
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
        f"interval is too wide to tell. Grey: effects nearer to 0 than {margin:g} count as none."
    )
    told = ", ".join(f"{one.counts.get(rating, 0)} {rating}" for rating in SHAPES)
    table = Table("Every change", CRASH_COLUMNS, one.perturbations)
    term = Term("smd", "Standardised mean difference")
    return Figure("crash-test", (Name(metric), f": {told}"), (term, caption), both, [table])


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

SHOWN = {True: "yes", False: "no", None: "cannot be said"}
BIAS_COLUMNS = (
    *names(judge="judge"),
    *texts(measure="measure"),
    *names("-", about="about"),
    number("value", "value"),
    ends(),
    number("neutral", "no bias is", 1, absent="unknown"),
    *texts(said="shown"),
    *counts(asked="asked", used="used", ties="ties", n_tasks="tasks"),
    *texts("", note="note"),
)


@section("bias", "Bias of judges")
def bias_section(run: RunResults) -> Iterator[Block]:
    """What judges favour: place, length, markup, their own kind; None where no bias was looked for."""
    found = run.bias
    if found is None:
        return
    yield words(
        "A bias is shown where the whole interval lies beside the value of a judge without it. Where the better "
        "response may also be the longer one, no such value is known and the number is for comparison only."
    )
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = [row for row in found.rows if row.bias == bias]
        gaps = [row for row in rows if row.pair]
        if gaps:
            yield _gaps(gaps)
        yield from _bias_figures(bias, [row for row in rows if not row.pair], percent(found.level))
    if found.unavailable:
        yield Heading("Not measured")
        whose = ((" of ", *listed(row.judges)) if row.judges else () for row in found.unavailable)
        told = zip(found.unavailable, whose, strict=True)
        yield Bullets(tuple((row.bias, *who, f": {row.reason}") for row, who in told))


def _bias_table(caption: str, rows: Sequence[BiasNote]) -> Table:
    return Table(caption, BIAS_COLUMNS, [row.cells(said=SHOWN[row.shown]) for row in rows])


def _bias_figures(bias: str, rows: Sequence[BiasNote], level: str) -> Iterator[Figure]:
    """What is held against the same value stands together."""
    for neutral in dict.fromkeys(row.neutral for row in rows):
        mine = [row for row in rows if row.neutral == neutral]
        differences = neutral == 0.0
        order = list(dict.fromkeys(row.measure for row in mine))
        mine.sort(key=lambda row: order.index(row.measure))
        drawn = [_bias_row(row, differences=differences) for row in mine]
        what = "difference of shares" if differences else "share"
        held = "for comparison only" if neutral is None else f"no bias is {neutral:g}"
        yield Figure(
            "bias",
            f"{bias.capitalize()}: {held}",
            (
                f"With {level} intervals. Dot: the bias is shown; ring: it is not, or that cannot be said.",
                "" if neutral is None else " The line is where a judge without the bias stands.",
            ),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            [_bias_table(f"{bias.capitalize()}: every number", mine)],
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
        hint=f"{row.judge}: {numeral(row.value)}; shown: {SHOWN[row.shown]}",
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
        title="Preference gap of every two reviewers",
        corner="reviewers; columns by the row's number",
        legend=Legend(((0.9, "each leans to its own"), (-0.9, "each leans to the other's"), (0.0, "grey: not shown"))),
    )
    caption = (
        " of two reviewers that are agents too: the share of tasks on which one finds its own response better than the "
        "other's, less the share on which the other says so as well. It is the same on both sides of the diagonal."
    )
    term = Term("gap", "preference gap")
    table = _bias_table("Preference gaps", rows)
    return Figure("preference-gap", "Preference gaps", ("The ", term, caption), [picture], [table])


def _gap(row: BiasNote | None, largest: float) -> HeatCell:
    if row is None or row.value is None:
        return HeatCell(0.0, "-", "-", "missing", sure=False)
    hint = f"{row.judge}: {numeral(row.value, signed=True)}; shown: {SHOWN[row.shown]}"
    shown = bool(row.shown)
    coloured = strength(row.value, largest) if shown else 0.0
    return HeatCell(coloured, numeral(row.value, 2, signed=True), "*" if shown else "", hint, sure=shown)


# --- cost: what metrics and reviewers cost, and what accuracy the money buys -----------------------------------------

SPREAD = 30.0
"""Costs that are apart by more than this factor are drawn on a logarithmic axis."""
USD = Column("usd", "USD", "usd", "unknown")
PANEL_COLUMNS = (
    *texts(panel="panel"),
    *counts(size="size"),
    Column("usd", "USD", "usd"),
    number("accuracy", "accuracy"),
    ends(),
    number("held", "held out", absent="-"),
    signed("difference", "to the best", absent="-"),
    *counts(used="pairs"),
    *texts(edge="frontier"),
)
REVIEWER_COLUMNS = (
    *names(reviewer="reviewer"),
    *counts(judgements="judgements", tokens="tokens", tokens_a_judgement="a judgement"),
    *texts(tokens_from="tokens known by", price_from="price known by"),
    USD,
)


@section("cost", "Cost")
def cost_section(run: RunResults) -> Iterator[Block]:
    """What accuracy costs, and what metrics and reviewers do; None where no cost was asked for."""
    found = run.cost
    if found is None:
        return
    if found.panels is not None:
        yield from _panels(found.panels)
    if found.rows:
        yield _costs(found)
    if found.reviewers:
        yield Table("What reviewers' judgements cost", REVIEWER_COLUMNS, found.reviewers)
    yield from remarks(found.notes)


def _panels(panels: PanelsNote) -> Iterator[Block]:
    rows = list({row.reviewers: row for row in reversed([*panels.frontier, *panels.by_size])}.values())[::-1]
    priced = [row for row in rows if row.usd is not None and row.accuracy is not None]
    if len(priced) > 1:
        yield _panel_figure(priced, {row.reviewers for row in panels.frontier}, panels)
    if panels.unpriced:
        yield note("Price unknown, so on no frontier: ", ", ".join(panels.unpriced), ".")
    if panels.note:
        yield note(sentence(panels.note))


def _panel_figure(rows: Sequence[PanelCostNote], edge: set[tuple[str, ...]], panels: PanelsNote) -> Figure:
    # what was held out is drawn first, so that it lies below
    points = [_held_out(row) for row in rows if row.held_out.accuracy is not None]
    points += [_panel_point(row, on_edge=row.reviewers in edge) for row in rows]
    path = sorted((point.x, point.y) for point in points if point.series == "on the frontier")
    paid = [point.x for point in points if point.x > 0]
    logarithmic = bool(paid) and max(paid) / min(paid) > SPREAD
    told = [
        row.cells(panel=row.name, held=row.held_out.accuracy, edge="yes" if row.reviewers in edge else "no")
        for row in rows
    ]
    intervals = f"with {percent(panels.level)} intervals"
    return Figure(
        "cost",
        "Accuracy against cost",
        (
            f"Panels of reviewers: agreement with people against US dollars, {intervals}. The line is the ",
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
        [Table("Panels", PANEL_COLUMNS, told)],
    )


def _panel_point(row: PanelCostNote, *, on_edge: bool) -> Point:
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


def _costs(found: CostDocument) -> Table:
    many = f"{found.tasks:,}"
    columns = (
        *texts(metric="metric"),
        *names("nobody", part="asks the"),
        *names("-", model="model"),
        *texts(source="known by"),
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
    return Table(f"What it costs on {plural(found.n_tasks, 'task')}, and would cost on {many} like them", columns, rows)
