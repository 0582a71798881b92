"""The report's sections on whether metrics and judges can be trusted: each result's findings, figures and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from goldless.meta_evaluation.agreement_results import Agreement, CriterionAgreement
from goldless.meta_evaluation.bias_report import STAR, BiasReport, BiasRow
from goldless.meta_evaluation.calibration_results import Calibration
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost import CostReport
from goldless.meta_evaluation.rating_card import CrashTest, Rating
from goldless.reports.findings import Said, in_text
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Table,
    Term,
    counts,
    names,
    remarks,
    result_table,
    section,
    texts,
    words,
)
from goldless.reports.html.charts import Band, IntervalRow, Shape, interval_plot, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import Estimate


def _figure(
    slug: str,
    caption: str | tuple[Inline, ...],
    rows: Sequence[IntervalRow],
    tables: Iterable[ReportTable],
    said: Iterable[Said] | str,
    *,
    title: str,
    axis: str,
    heading: str | tuple[Inline, ...] | None = None,
    reference: float | None = None,
    band: Band | None = None,
) -> Figure:
    """Values with their intervals, and the tables behind them."""
    drawn = pictures(interval_plot, rows, title=title, axis=axis, reference=reference, band=band)
    finding = said if isinstance(said, str) else " ".join(in_text(one, label) for one in said)
    return Figure(slug, heading or title, caption, drawn, list(map(result_table, tables)), finding)


@section("agreement", "Agreement with people")
def agreement_section(run: RunFolder) -> Iterator[Block]:
    """Accuracy on decided pairs and rank correlation, and how far people agree with each other."""
    found: Agreement | None = run.others.get("agreement")
    for one in () if found is None else found.criteria:
        assert found is not None
        level = found.level
        if len(found.criteria) > 1:
            yield Heading((Name(one.criterion or "labels"),))
        caption = (
            f"Share of pairs where a judge prefers the same response as people do, with {percent(level)} intervals; a "
            "tie counts as one half, and 0.5 is chance. Blue dots are reviewers and their panel, green squares metrics."
        )
        band, told = _ceiling(one.ceiling.accuracy)
        yield _figure(
            "accuracy",
            (caption, *told),
            [_judge_row(one.name, one.kind, one.accuracy.accuracy, one.accuracy) for one in one.by_accuracy],
            [one.judge_table(level)],
            one.findings(),
            title="Accuracy on pairs with a human preference",
            axis="accuracy",
            reference=0.5,
            band=band,
        )
        alpha = words("How well people agree with each other: ", Term("alpha", "Krippendorff's alpha"), ", and below.")
        details: list[Block] = [*_correlations(one, level), alpha, result_table(one.ceiling_table(level))]
        details += [result_table(one.comparison_table(level))] if one.comparisons else []
        yield Fold("Rank correlations, agreement between people, and which judge exceeds which", details)
        yield from remarks([*one.notes, *([one.ceiling.note] if one.ceiling.note else [])])


def _ceiling(found: Estimate | None) -> tuple[Band | None, tuple[Inline, ...]]:
    """How well people agree with each other, as a band, and its sentence for the caption."""
    if found is None or found.value is None:
        return None, ()
    said = (" Grey is the ", Term("ceiling", "human ceiling"), ": how far one person agrees with the others.")
    return Band(found.low, found.high, "one person vs the others", found.value), said


def _judge_row(name: str, kind: str, value: float | None, bounds: Any) -> IntervalRow:
    ours = kind in {"reviewer", "reviewers", "panel"}
    shape: Shape = "dot" if ours else "square"
    hint = f"{name} ({kind}): {numeral(value)}"
    return IntervalRow.of(name, value, bounds, shape=shape, tone="blue" if ours else "green", hint=hint)


def _correlations(one: CriterionAgreement, level: float) -> Iterator[Figure]:
    main = [(judge, found) for judge in one.judges if (found := judge.correlation("spearman")) is not None]
    if not main:
        return
    main.sort(key=lambda both: -(both[1].value or -2.0))
    band, told = _ceiling(one.ceiling.spearman)
    said = f" over the responses to a task, averaged over tasks, with {percent(level)} intervals."
    yield _figure(
        "correlation",
        (Term("spearman", "Spearman's coefficient"), said, *told, " Other coefficients are in the table."),
        [_judge_row(judge.name, judge.kind, found.value, found) for judge, found in main],
        [one.correlation_table(level)],
        f"{label(main[0][0].name)} is first with {numeral(main[0][1].value)}.",
        title="Rank correlation with people's ratings",
        axis="Spearman, mean over tasks",
        reference=0.0,
        band=band,
    )


@section("calibration", "Agents on the people's scale")
def calibration_section(run: RunFolder) -> Iterator[Block]:
    """Means estimated from few labels."""
    found: Calibration | None = run.others.get("calibration")
    if found is None:
        return
    by = ", ".join(found.proxies) or "nothing"
    done = f"{found.labelled:,} of {plural(found.tasks, 'task')} are labelled"
    yield words(f"{done}; {by} predicts the labels of the others.")
    tables = found.tables()
    if found.agents:
        behind = 1 + bool(found.comparisons)
        ordered = sorted(found.agents, key=lambda one: -one.mean)
        yield _figure(
            "calibration",
            f"Mean label over all tasks, with {percent(found.level)} intervals.",
            [IntervalRow.of(row.agent, row.mean, row) for row in ordered],
            tables[:behind],
            found.findings(),
            title="Mean label of each agent",
            axis="mean label",
        )
        tables = tables[behind:]
    yield from map(result_table, tables)
    yield from remarks(found.notes)


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
    """How each metric reacts to degraded or superficially changed responses."""
    test: CrashTest | None = run.others.get("crash_test")
    if test is None:
        return
    there = plural(test.responses_there_are, "response")
    some = f"{test.responses:,} of {there}, drawn at random,"
    yield words(
        f"{there if test.responses == test.responses_there_are else some} were changed in known ways and scored again. "
        "A sound metric falls when content is removed and does not rise when a response is changed only superficially.",
    )
    figures = [_crash_figure(metric, test) for metric in test.metrics]
    if len(figures) > 1:
        yield Bullets(tuple(test.findings()))
        yield result_table(test.overview())
        yield Fold(f"A chart for each of the {len(figures)} metrics", figures)
    else:
        yield from figures
    if test.problems:
        rows = [{"what": what, "count": times} for what, times in test.problems.items()]
        yield Table("Missing in the crash test", (*texts(what="what"), *counts(count="times")), rows)


def _crash_figure(metric: str, test: CrashTest) -> Figure:
    card = test.metrics[metric]
    rows = []
    for row in sorted(card.perturbations, key=lambda row: list(GROUPS).index(row.must)):
        shape, tone, sign = DRAWN[row.rating]
        aside = f"{numeral(row.smd, 2, signed=True, absent='')} {sign}"
        hint = f"{row.perturbation}: {row.rating}, {row.reason or row.note or ''}"
        ends = (row.smd, row.smd_low, row.smd_high)
        rows.append(IntervalRow(row.perturbation, *ends, aside, shape, tone, GROUPS[row.must], hint))
    caption = (
        f" of {metric} after a change, with its {percent(test.level)} interval. Dot: pass; cross: fail; ring: the "
        f"interval is too wide to decide. Grey band: effects smaller than {test.margin:g} count as none."
    )
    counted = ", ".join(f"{count} {rating}" for rating, count in card.counts.items())
    failed = [label(row.perturbation) for row in card.perturbations if row.rating == "fail"]
    return _figure(
        "crash-test",
        (Term("smd", "Standardised mean difference"), caption),
        rows,
        [test.table(metric)],
        f"{label(metric)} fails {', '.join(failed) or 'no test'}.",
        title=f"Crash test of {metric}: standardised mean differences",
        heading=(Name(metric), f": {counted}"),
        axis="standardised mean difference: lower after the change ← 0 → higher",
        reference=0.0,
        band=Band(-test.margin, test.margin) if test.margin > 0 else None,
    )


@section("bias", "Bias of judges")
def bias_section(run: RunFolder) -> Iterator[Block]:
    """What judges favour: position, length, markup, their own family."""
    found: BiasReport | None = run.others.get("bias")
    if found is None:
        return
    yield Bullets(tuple(found.findings()))
    yield from _matrix(found)
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = found.of(bias)
        figures: list[Block] = [
            _bias_figure([row for row in rows if row.neutral == neutral], found)
            for neutral in dict.fromkeys(row.neutral for row in rows)
        ]
        if bias == "self-preference" and len(found.gaps) > 2:
            figures += [words("The ", Term("gap", "preference gap"), " of every two:"), result_table(found.gap_table())]
        yield Fold(f"{bias.capitalize()} in detail", [*figures, *remarks([STAR] * any(row.shown for row in rows))])
    if found.unavailable:
        yield result_table(found.unavailable_table())


def _matrix(found: BiasReport) -> Iterator[Table]:
    """One table of judges by biases, those with the most biases first."""
    rows = [row for row in found.rows if row.kind != "reviewers" and row.neutral is not None and not row.pair]
    rows = [row for row in rows if row.about in (None, row.judge)]
    keys = {(row.bias, row.measure): f"{row.bias}: {row.measure} (unbiased {row.neutral:g})" for row in rows}
    by_judge: dict[str, dict[str, Any]] = {}
    shown: Counter[str] = Counter()
    for row in rows:
        value = numeral(row.value, signed=row.neutral == 0.0)
        key = keys[row.bias, row.measure]
        by_judge.setdefault(row.judge, {"judge": row.judge})[key] = f"{value} ●" if row.shown else value
        shown[row.judge] += bool(row.shown)
    if by_judge:
        columns = (*names(judge="judge"), *(Column(key, key, "figure", "-") for key in keys.values()))
        ordered = sorted(by_judge.values(), key=lambda row: -shown[row["judge"]])
        yield Table("● The interval excludes the value of an unbiased judge", columns, ordered)


def _bias_figure(rows: Sequence[BiasRow], found: BiasReport) -> Figure:
    """The numbers of one bias with the same unbiased value."""
    bias, neutral = rows[0].bias, rows[0].neutral
    order = list(dict.fromkeys(row.measure for row in rows))
    ordered = sorted(rows, key=lambda row: (order.index(row.measure), -(row.value or 0.0)))
    drawn = []
    for row in ordered:
        about = f" about {row.about}" if row.about and row.about != row.judge else ""
        shape: Shape = "dot" if row.shown else "ring"
        tone = "vermilion" if row.shown else "blue" if neutral is not None else "muted"
        aside = numeral(row.value, absent="", signed=neutral == 0.0)
        ends = (row.value, row.low, row.high)
        drawn.append(IntervalRow(f"{row.judge}{about}", *ends, aside, shape, tone, row.measure))
    unknown = " Where the better response may also be the longer one, what an unbiased judge would do is not known."
    what = "difference of shares" if neutral == 0.0 else "share"
    return _figure(
        "bias",
        f"With {percent(found.level)} intervals. Dot: significant bias; ring: not significant, or undecidable."
        + (unknown if neutral is None else " The line marks an unbiased judge."),
        drawn,
        found.measure_tables(ordered),
        f"{sum(bool(row.shown) for row in rows)} of {len(rows)} numbers show a bias.",
        title=f"{bias.capitalize()}: {'for comparison only' if neutral is None else f'unbiased is {neutral:g}'}",
        axis=what,
        reference=neutral,
    )


@section("cost", "Cost")
def cost_section(run: RunFolder) -> Iterator[Block]:
    """What metrics and reviewers cost."""
    found: CostReport | None = run.others.get("cost")
    if found is not None:
        yield from map(result_table, found.tables())
        yield from remarks(found.notes)


@section("consistency", "Consistency between scorers")
def consistency_section(run: RunFolder) -> Iterator[Block]:
    """Correlations of agents' scores under two scorers."""
    found: Consistency | None = run.others.get("consistency")
    if found is None:
        return
    groups = [f"{row.metric}: {label(row.first, 24)} / {label(row.second, 24)}" for row in found.rows]
    yield _figure(
        "consistency",
        f"Correlation of agents' mean scores under two scorers, with {percent(found.level)} intervals.",
        [
            IntervalRow.of(row.coefficient, row.value, row, group=group)
            for row, group in zip(found.rows, groups, strict=True)
        ],
        found.tables(),
        found.findings(),
        title="Agents by scorer",
        axis="correlation",
        reference=0.0,
    )
    yield from remarks(found.notes)
