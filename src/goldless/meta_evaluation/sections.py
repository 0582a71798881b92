"""The report's sections on whether metrics and judges can be trusted, one for each verb's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from goldless.meta_evaluation.agreement_results import Agreement, Correlation, CriterionAgreement
from goldless.meta_evaluation.bias_report import STAR, BiasReport, BiasRow
from goldless.meta_evaluation.calibration_results import Calibration
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost import CostReport
from goldless.meta_evaluation.rating_card import CrashResult, CrashTest, Rating
from goldless.metrics.label_agreement import Accuracy
from goldless.reports.document import write
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Paragraph,
    Table,
    Term,
    counts,
    listed,
    names,
    note,
    remarks,
    result_table,
    section,
    sentence,
    texts,
    words,
)
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map, strength
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import Estimate

ONE_PERSON = "one person vs the others"


@section("agreement", "Agreement with people")
def agreement_section(run: RunFolder) -> Iterator[Block]:
    """Accuracy on decided pairs and rank correlation; None if nothing was compared with people."""
    found: Agreement | None = run.others.get("agreement")
    if found is None:
        return
    level = found.level
    for one in found.criteria:
        if len(found.criteria) > 1:
            yield Heading((Name(one.criterion or "labels"),))
        yield _labels(one)
        yield _accuracy(one, level)
        details: list[Block] = [*_correlation(one, level), *_ceiling(one, level)]
        if one.comparisons:
            details.append(result_table(one.comparison_table(level)))
        yield Fold("Rank correlations, agreement between people, and which judge exceeds which", details)
        if one.notes:
            yield Fold(plural(len(one.notes), "note"), remarks(one.notes))


def _labels(one: CriterionAgreement) -> Paragraph:
    labels = one.labels
    return words(
        f"{plural(labels.raters, 'rater')} gave {plural(labels.ratings, 'rating')} and "
        f"{plural(labels.preferences, 'preference')}. Of {plural(labels.pairs, 'pair')}, "
        f"{labels.decided:,} have a clear preference; {labels.tied:,} are tied and not used."
    )


def _band(found: Estimate | None) -> tuple[Band | None, tuple[Inline, ...]]:
    """How well people agree with each other, as a band, and its sentence for the caption."""
    if found is None or found.value is None:
        return None, ()
    ceiling = Term("ceiling", "human ceiling")
    band = Band(found.low, found.high, ONE_PERSON, found.value)
    if found.low is None or found.high is None:
        return band, (" The grey line is the ", ceiling, "; it has no interval.")
    return band, (" The band is the ", ceiling, ": how often one person agrees with the others.")


def _judge_row(name: str, kind: str, value: float | None, found: Accuracy | Correlation) -> IntervalRow:
    ours = kind in {"reviewer", "reviewers", "panel"}
    return IntervalRow.of(
        name,
        value,
        found,
        shape="dot" if ours else "square",
        tone="blue" if ours else "green",
        hint=f"{name} ({kind}): {numeral(value)}",
    )


def _accuracy(one: CriterionAgreement, level: float) -> Figure:
    drawn = [_judge_row(judge.name, judge.kind, judge.accuracy.accuracy, judge.accuracy) for judge in one.by_accuracy]
    people = one.ceiling.accuracy
    band, told = _band(people)
    table = one.judge_table(level)
    if people is not None and band is not None:
        person = {**write(people), "judge": ONE_PERSON, "kind": "people", "accuracy": people.value, "used": people.n}
        table = replace(table, rows=(*table.rows, person))
    caption = (
        f"Share of pairs where a judge prefers the same response as people do, with {percent(level)} intervals; "
        "a tie counts as one half, and 0.5 is chance. Blue dots are reviewers and their panel, green squares metrics."
    )
    title = "Accuracy of each judge on pairs with a human preference"
    return Figure(
        "accuracy",
        "Accuracy on pairs with a human preference",
        (caption, *told),
        pictures(interval_plot, drawn, title=title, axis="accuracy", reference=0.5, band=band),
        [result_table(table)],
        " ".join(in_text(said, label) for said in one.findings()),
    )


def _correlation(one: CriterionAgreement, level: float) -> Iterator[Figure]:
    main = [(judge, found) for judge in one.judges if (found := judge.correlation("spearman")) is not None]
    if not main:
        return
    main.sort(key=lambda found: -(found[1].value or -2.0))
    band, told = _band(one.ceiling.spearman)
    table = one.correlation_table(level)
    yield Figure(
        "correlation",
        "Rank correlation with people's ratings",
        (
            Term("spearman", "Spearman's coefficient"),
            f" over the responses to a task, averaged over tasks, with {percent(level)} intervals.",
            *told,
            " Other coefficients are in the table.",
        ),
        pictures(
            interval_plot,
            [_judge_row(judge.name, judge.kind, found.value, found) for judge, found in main],
            title="Rank correlation of each judge with people",
            axis="Spearman, mean over tasks",
            reference=0.0,
            band=band,
        ),
        [result_table(replace(table, rows=tuple({**row, "judge": row["whose"]} for row in table.rows)))],
        f"{label(main[0][0].name)} is first with {numeral(main[0][1].value)}.",
    )


def _ceiling(one: CriterionAgreement, level: float) -> Iterator[Block]:
    alpha = one.ceiling.alpha
    if alpha is not None:
        low, high = (numeral(end, 2, absent="none") for end in (alpha.low, alpha.high))
        yield words(
            "Agreement between people: ",
            Term("alpha", "Krippendorff's alpha"),
            f" is {numeral(alpha.alpha, 2)} ({low} to {high}, {alpha.measurement}) over "
            f"{plural(alpha.n_values, 'label')}.",
        )
        yield result_table(one.ceiling_table(level))
    if one.ceiling.note:
        yield note(sentence(one.ceiling.note))


@section("calibration", "Agents on the people's scale")
def calibration_section(run: RunFolder) -> Iterator[Block]:
    """Means estimated from few labels; None if nothing was calibrated."""
    found: Calibration | None = run.others.get("calibration")
    if found is None:
        return
    yield words(
        f"{found.labelled:,} of {plural(found.tasks, 'task')} are labelled; "
        f"{', '.join(found.proxies) or 'nothing'} predicts the labels of the others.",
    )
    tables = list(map(result_table, found.tables()))
    if found.agents:
        ordered = sorted(found.agents, key=lambda one: -one.mean)
        with_figure = 1 + bool(found.comparisons)
        yield Figure(
            "calibration",
            "Mean label of each agent",
            f"Mean label over all tasks, with {percent(found.level)} intervals.",
            pictures(
                interval_plot,
                [IntervalRow.of(row.agent, row.mean, row) for row in ordered],
                title="Mean label over all tasks",
                axis="mean label",
            ),
            tables[:with_figure],
            " ".join(in_text(said, label) for said in found.findings()),
        )
        tables = tables[with_figure:]
    yield from tables
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
    margin, card = test.margin, test.metrics[metric]
    both = pictures(
        interval_plot,
        [_crash_row(row) for row in sorted(card.perturbations, key=lambda row: list(GROUPS).index(row.must))],
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


def _crash_row(row: CrashResult) -> IntervalRow:
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
            *_bias_figures(bias, [row for row in rows if not row.pair], found),
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


def _bias_figures(bias: str, rows: Sequence[BiasRow], found: BiasReport) -> Iterator[Figure]:
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
                f"With {percent(found.level)} intervals. Dot: significant bias; ring: not significant, or undecidable.",
                " Where the better response may also be the longer one, what an unbiased judge would do is not known."
                if neutral is None
                else " The line marks an unbiased judge.",
            ),
            pictures(interval_plot, drawn, title=f"{bias}: {what}", axis=what, reference=neutral),
            list(map(result_table, found.measure_tables(mine))),
            f"{sum(bool(row.shown) for row in mine)} of {len(mine)} numbers show a bias.",
        )


def _bias_row(row: BiasRow, *, differences: bool) -> IntervalRow:
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


@section("cost", "Cost")
def cost_section(run: RunFolder) -> Iterator[Block]:
    """What metrics and reviewers cost; None if no cost was computed."""
    found: CostReport | None = run.others.get("cost")
    if found is not None:
        yield from map(result_table, found.tables())
        yield from remarks(found.notes)


@section("consistency", "Consistency between scorers")
def consistency_section(run: RunFolder) -> Iterator[Block]:
    """Correlations of agents' scores under two scorers; None if no scorers were compared."""
    found: Consistency | None = run.others.get("consistency")
    if found is None:
        return
    drawn = [
        IntervalRow.of(
            row.coefficient, row.value, row, group=f"{row.metric}: {label(row.first, 24)} / {label(row.second, 24)}"
        )
        for row in found.rows
    ]
    title = "Correlation of agents' scores under two scorers"
    yield Figure(
        "consistency",
        "Agents by scorer",
        f"Correlation of agents' mean scores under two scorers, with {percent(found.level)} intervals.",
        pictures(interval_plot, drawn, title=title, axis="correlation", reference=0.0),
        [result_table(found.table())],
        " ".join(in_text(said, label) for said in found.findings()),
    )
    yield from remarks(found.notes)
