"""The report's sections on whether metrics and judges can be trusted: each result's findings, and its tables drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from goldless.meta_evaluation.agreement import Agreement, JudgeAgreement
from goldless.meta_evaluation.bias import BiasReport, BiasRow
from goldless.meta_evaluation.calibration import Calibration
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost import CostReport
from goldless.meta_evaluation.crash_test import CrashResult, CrashTest, Rating
from goldless.meta_evaluation.perturbations.perturbation import Must
from goldless.reports.findings import Said, in_text
from goldless.reports.html import blocks
from goldless.reports.html.blocks import (
    Block,
    bullets,
    fold,
    interval_figure,
    remarks,
    result_table,
    section,
    term,
    words,
)
from goldless.reports.html.charts import Band, IntervalRow, Shape
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import ABSENT, Estimate

GROUPS: dict[Must, str] = {
    "fall": "Content removed: the score must fall",
    "not rise": "Superficial changes: the score must not rise",
}
RATED: dict[Rating, tuple[Shape, str, str]] = {
    "pass": ("dot", "blue", "✓\u00a0pass"),
    "fail": ("cross", "vermilion", "✕\u00a0fail"),
    "not shown": ("ring", "muted", "○\u00a0not\u00a0shown"),
}
"""Shape, colour and sign."""


def _drawn(
    slug: str,
    table: ReportTable,
    rows: Sequence[IntervalRow],
    caption: tuple[blocks.Inline, ...],
    said: Iterable[Said],
    **plot: Any,
) -> Block:
    """Values with intervals, and the table with their numbers; ``plot``: axis, reference and band."""
    finding = " ".join(in_text(one, label) for one in said)
    data = [result_table(table)]
    return interval_figure(slug, table.title, caption, rows, data, finding=finding, title=table.title, **plot)


@section("agreement", "Agreement with people")
def agreement_section(run: RunFolder) -> Iterator[Block]:
    """Accuracy on decided pairs and rank correlation, and how far people agree with each other."""
    found: Agreement | None = run.others.get("agreement")
    if found is None:
        return
    level = found.level
    for one in found.criteria:
        accuracy, *others = one.tables(level)
        caption = (
            f"Share of pairs where a judge prefers the same response as people do, with {percent(level)} intervals; a "
            "tie counts as one half, and 0.5 is chance. Blue dots are reviewers and their panel, green squares metrics."
        )
        band, told = _ceiling(one.ceiling.accuracy)
        plot: dict[str, Any] = {"axis": "accuracy", "reference": 0.5, "band": band}
        drawn = [_judge_row(judge, judge.accuracy.share) for judge in one.by_accuracy]
        yield _drawn("accuracy", accuracy, drawn, (caption, *told), one.sentences(), **plot)
        details: list[Block] = []
        if any(judge.correlations for judge in one.judges):
            correlation = others.pop(0)
            drawn = [_judge_row(judge, judge.correlation("spearman") or ABSENT) for judge in one.judges]
            drawn.sort(key=lambda row: (row.estimate.value is None, -(row.estimate.value or 0.0)))
            band, told = _ceiling(one.ceiling.spearman)
            caption = f" over the responses to a task, averaged over tasks, with {percent(level)} intervals."
            plot = {"axis": "Spearman, mean over tasks", "reference": 0.0, "band": band}
            said = [(f"{label(drawn[0].label)} is first with {numeral(drawn[0].estimate.value)}.",)]
            read = (term("spearman", "Spearman's coefficient"), caption, *told)
            details.append(_drawn("correlation", correlation, drawn, read, said, **plot))
        alpha = words("How well people agree with each other: ", term("alpha", "Krippendorff's alpha"), ", and below.")
        details += [alpha, *map(result_table, others)]
        yield fold("Rank correlations, agreement between people, and which judge exceeds which", details)
        yield from remarks([*one.notes, *([one.ceiling.note] if one.ceiling.note else [])])


def _judge_row(judge: JudgeAgreement, found: Estimate) -> IntervalRow:
    ours, aside = judge.kind in {"reviewer", "panel"}, numeral(found.value, absent="")
    return IntervalRow(judge.name, found, aside, *(("dot", "blue") if ours else ("square", "green")), hint=judge.kind)


def _ceiling(found: Estimate | None) -> tuple[Band | None, tuple[blocks.Inline, ...]]:
    """Agreement of people with each other, as a band, and its sentence for the caption."""
    if found is None or found.value is None:
        return None, ()
    said = (" Grey is the ", term("ceiling", "human ceiling"), ": how far one person agrees with the others.")
    return Band(found, "one person vs the others"), said


@section("calibration", "Agents on the people's scale")
def calibration_section(run: RunFolder) -> Iterator[Block]:
    """Means estimated from few labels."""
    found: Calibration | None = run.others.get("calibration")
    if found is None:
        return
    done = f"{found.labelled:,} of {plural(found.tasks, 'task')} are labelled"
    yield words(f"{done}; {', '.join(found.proxies) or 'nothing'} predicts the labels of the others.")
    tables = found.tables()
    if found.agents:
        caption = (f"Mean label over all tasks, with {percent(found.level)} intervals.",)
        drawn = [IntervalRow(one.agent, one.mean, numeral(one.mean.value, absent="")) for one in found.by_mean]
        yield _drawn("calibration", tables.pop(0), drawn, caption, found.sentences(), axis="mean label")
    yield from map(result_table, tables)
    yield from remarks(found.notes)


@section("crash-test", "Crash test of the metrics")
def crash_section(run: RunFolder) -> Iterator[Block]:
    """Reaction of each metric to degraded or superficially changed responses."""
    test: CrashTest | None = run.others.get("crash_test")
    if test is None:
        return
    there = plural(test.responses_there_are, "response")
    some = f"{test.responses:,} of {there}, drawn at random,"
    yield words(
        f"{there if test.responses == test.responses_there_are else some} were changed in known ways and scored again. "
        "A sound metric falls when content is removed and does not rise when a response is changed only superficially."
    )
    figures = [_crash_figure(metric, test) for metric in test.metrics]
    if len(figures) > 1:
        yield bullets(tuple(test.sentences()))
        yield result_table(test.overview())
        yield fold(f"A chart for each of the {len(figures)} metrics", figures)
    else:
        yield from figures
    if test.problems:
        rows = [{"what": what, "count": times} for what, times in test.problems.items()]
        columns = (*blocks.texts(what="what"), *blocks.counts(count="times"))
        yield blocks.table("Missing in the crash test", columns, rows)


def _crash_figure(metric: str, test: CrashTest) -> Block:
    results = test.metrics[metric].perturbations
    caption = (
        f" of {metric} after a change, with its {percent(test.level)} interval. Dot: pass; cross: fail; ring: the "
        f"interval is too wide to decide. Grey band: effects smaller than {test.margin:g} count as none."
    )
    failed = [label(row.perturbation) for row in results if row.rating == "fail"]
    return _drawn(
        "crash-test",
        test.table(metric),
        [_perturbation_row(row) for must in GROUPS for row in results if row.must == must],
        (term("smd", "Standardised mean difference"), caption),
        [(f"{label(metric)} fails {', '.join(failed) or 'no test'}.",)],
        axis="standardised mean difference: lower ← 0 → higher",
        reference=0.0,
        band=Band(Estimate(low=-test.margin, high=test.margin)) if test.margin > 0 else None,
    )


def _perturbation_row(row: CrashResult) -> IntervalRow:
    shape, tone, sign = RATED[row.rating]
    aside = f"{numeral(row.smd.value, 2, signed=True, absent='')} {sign}"
    hint = f"{row.perturbation}: {row.rating}, {row.reason or row.smd.note or ''}"
    return IntervalRow(row.perturbation, row.smd, aside, shape, tone, GROUPS[row.must], hint)


@section("bias", "Bias of judges")
def bias_section(run: RunFolder) -> Iterator[Block]:
    """Preferences of judges: position, length, markup, their own family."""
    found: BiasReport | None = run.others.get("bias")
    if found is None:
        return
    yield bullets(tuple(found.sentences()))
    yield from _matrix(found)
    for bias in dict.fromkeys(row.bias for row in found.rows):
        measures = found.measures(found.of(bias))
        figures = [_bias_figure(of, table, found.level) for of, table in measures]
        if bias == "self-preference":
            figures.insert(0, words("The ", term("gap", "preference gap"), " of every two:"))
        yield fold(
            f"{bias.capitalize()} in detail",
            [*figures, *remarks(dict.fromkeys(note for _, table in measures for note in table.notes))],
        )
    if found.unavailable:
        yield result_table(found.unavailable_table())


def _matrix(found: BiasReport) -> Iterator[Block]:
    """One table of judges by biases, those with the most biases first."""
    by_judge: dict[str, dict[str, Any]] = {}
    shown: Counter[str] = Counter()
    for row in found.rows:
        if row.kind != "reviewers" and row.neutral is not None and not row.pair and row.about in (None, row.judge):
            value = numeral(row.value, signed=row.neutral == 0.0)
            key = f"{row.bias}: {row.measure} (unbiased {row.neutral:g})"
            by_judge.setdefault(row.judge, {"judge": row.judge})[key] = f"{value} ●" if row.shown else value
            shown[row.judge] += bool(row.shown)
    if by_judge:
        keys = dict.fromkeys(key for row in by_judge.values() for key in row if key != "judge")
        columns = (*blocks.names(judge="judge"), *(Column(key, key, "figure", "-") for key in keys))
        ordered = sorted(by_judge.values(), key=lambda row: -shown[row["judge"]])
        yield blocks.table("● The interval excludes the value of an unbiased judge", columns, ordered)


def _bias_figure(rows: Sequence[BiasRow], table: ReportTable, level: float) -> Block:
    neutral = rows[0].neutral
    unknown = " Where the better response may also be the longer one, what an unbiased judge would do is not known."
    caption = f"With {percent(level)} intervals. Dot: significant bias; ring: not significant, or undecidable."
    read = (caption, unknown if neutral is None else " The line marks an unbiased judge.")
    said = [(f"{sum(bool(row.shown) for row in rows)} of {len(rows)} numbers show a bias.",)]
    axis = "difference of shares" if neutral == 0.0 else "share"
    drawn = []
    for row in rows:
        tone = "vermilion" if row.shown else "muted" if neutral is None else "blue"
        aside = numeral(row.value, absent="", signed=neutral == 0.0)
        drawn.append(IntervalRow(row.judge, row, aside, "dot" if row.shown else "ring", tone))
    return _drawn("bias", table, drawn, read, said, axis=axis, reference=neutral)


@section("cost", "Cost")
def cost_section(run: RunFolder) -> Iterator[Block]:
    """Cost of metrics and reviewers."""
    found: CostReport | None = run.others.get("cost")
    if found is not None:
        yield from map(result_table, found.tables())
        yield from remarks(found.notes)


@section("consistency", "Consistency between scorers")
def consistency_section(run: RunFolder) -> Iterator[Block]:
    """Correlations of agents' scores under two scorers."""
    found: Consistency | None = run.others.get("consistency")
    if found is not None:
        said = f"Correlation of agents' mean scores under two scorers, with {percent(found.level)} intervals."
        plot: dict[str, Any] = {"axis": "correlation", "reference": 0.0}
        drawn = []
        for row in found.rows:
            aside, group = numeral(row.over_agents.value, absent=""), f"{row.metric}: {label(row.scorers)}"
            drawn.append(IntervalRow(row.coefficient, row.over_agents, aside, group=group))
        yield _drawn("consistency", found.table(), drawn, (said,), found.sentences(), **plot)
        yield from remarks(found.notes)
