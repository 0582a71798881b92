"""The report's sections on whether metrics and judges can be trusted: each result's findings, and its tables drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from goldless.meta_evaluation.agreement import Agreement
from goldless.meta_evaluation.bias import STAR, BiasReport
from goldless.meta_evaluation.calibration import Calibration
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost import CostReport
from goldless.meta_evaluation.crash_test import CrashTest
from goldless.reports.findings import Said, in_text
from goldless.reports.html import blocks
from goldless.reports.html.blocks import Block, bullets, figure, fold, remarks, result_table, section, term, words
from goldless.reports.html.charts import Band, IntervalRow, interval_plot, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import Estimate

RATED = {
    "pass": {"shape": "dot", "tone": "blue", "sign": "✓\u00a0pass"},
    "fail": {"shape": "cross", "tone": "vermilion", "sign": "✕\u00a0fail"},
    "not shown": {"shape": "ring", "tone": "muted", "sign": "○\u00a0not\u00a0shown"},
}
GROUPS = {"fall": "Content removed: the score must fall", "not rise": "Superficial changes: the score must not rise"}


def _drawn(
    slug: str,
    table: ReportTable,
    columns: tuple[str, str],
    caption: tuple[blocks.Inline, ...],
    said: Iterable[Said],
    *,
    prefix: str = "",
    rows: Iterable[Mapping[str, Any]] | None = None,
    **plot: Any,
) -> Block:
    """A table, or some of its rows, as values with intervals; ``columns``: of the name and value.

    The ends are in PREFIXlow and PREFIXhigh. ``plot``: axis, reference and band.
    """
    key, value = columns
    lines = [
        IntervalRow(
            *(str(row[key]), row[value], row.get(f"{prefix}low"), row.get(f"{prefix}high")),
            **{"aside": numeral(row[value], absent="", signed=row.get("neutral") == 0.0), **_look(row)},
        )
        for row in (table.rows if rows is None else rows)
    ]
    drawn = pictures(interval_plot, lines, title=table.title, **plot)
    finding = " ".join(in_text(one, label) for one in said)
    return figure(slug, table.title, caption, drawn, [result_table(table)], finding=finding)


def _look(row: Mapping[str, Any]) -> dict[str, Any]:
    """The look of a rated metric, a biased or fair judge, a judge of some kind, or a coefficient of two scorers."""
    if "rating" in row:
        how: dict[str, Any] = dict(RATED[row["rating"]])
        aside = f"{numeral(row['smd'], 2, signed=True, absent='')} {how.pop('sign')}"
        hint = f"{row['perturbation']}: {row['rating']}, {row['reason'] or row['note'] or ''}"
        return {**how, "aside": aside, "group": GROUPS[row["must"]], "hint": hint}
    if "shown" in row:
        tone = "vermilion" if row["shown"] else "blue" if row["neutral"] is not None else "muted"
        return {"shape": "dot" if row["shown"] else "ring", "tone": tone}
    if "kind" in row:
        ours = row["kind"] in {"reviewer", "panel"}
        return {"shape": "dot" if ours else "square", "tone": "blue" if ours else "green", "hint": row["kind"]}
    return {"group": f"{row['metric']}: {label(row['scorers'])}"} if "scorers" in row else {}


@section("agreement", "Agreement with people")
def agreement_section(run: RunFolder) -> Iterator[Block]:
    """Accuracy on decided pairs and rank correlation, and how far people agree with each other."""
    found: Agreement | None = run.others.get("agreement")
    for one in () if found is None else found.criteria:
        level = 0.0 if found is None else found.level
        accuracy, *others = one.tables(level)
        caption = (
            f"Share of pairs where a judge prefers the same response as people do, with {percent(level)} intervals; a "
            "tie counts as one half, and 0.5 is chance. Blue dots are reviewers and their panel, green squares metrics."
        )
        band, told = _ceiling(one.ceiling.accuracy)
        plot: dict[str, Any] = {"axis": "accuracy", "reference": 0.5, "band": band}
        yield _drawn("accuracy", accuracy, ("judge", "accuracy"), (caption, *told), one.findings(), **plot)
        details: list[Block] = []
        if any(judge.correlations for judge in one.judges):
            correlation = others.pop(0)
            kinds = {judge.name: judge.kind for judge in one.judges}
            rows = [{**row, "kind": kinds[str(row["judge"])]} for row in correlation.rows if row["over"] == "tasks"]
            rows.sort(key=lambda row: -(row["spearman"] or -2.0))
            band, told = _ceiling(one.ceiling.spearman)
            caption = f" over the responses to a task, averaged over tasks, with {percent(level)} intervals."
            plot = {"axis": "Spearman, mean over tasks", "reference": 0.0, "band": band, "rows": rows}
            said = [(f"{label(rows[0]['judge'])} is first with {numeral(rows[0]['spearman'])}.",)]
            read = (term("spearman", "Spearman's coefficient"), caption, *told)
            columns = ("judge", "spearman")
            details.append(_drawn("correlation", correlation, columns, read, said, prefix="spearman_", **plot))
        alpha = words("How well people agree with each other: ", term("alpha", "Krippendorff's alpha"), ", and below.")
        details += [alpha, *map(result_table, others)]
        yield fold("Rank correlations, agreement between people, and which judge exceeds which", details)
        yield from remarks([*one.notes, *([one.ceiling.note] if one.ceiling.note else [])])


def _ceiling(found: Estimate | None) -> tuple[Band | None, tuple[blocks.Inline, ...]]:
    """Agreement of people with each other, as a band, and its sentence for the caption."""
    if found is None or found.value is None:
        return None, ()
    said = (" Grey is the ", term("ceiling", "human ceiling"), ": how far one person agrees with the others.")
    return Band(found.low, found.high, "one person vs the others", found.value), said


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
        columns = ("agent", "mean")
        yield _drawn("calibration", tables.pop(0), columns, caption, found.findings(), axis="mean label")
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
        yield bullets(tuple(test.findings()))
        yield result_table(test.overview())
        yield fold(f"A chart for each of the {len(figures)} metrics", figures)
    else:
        yield from figures
    if test.problems:
        rows = [{"what": what, "count": times} for what, times in test.problems.items()]
        columns = (*blocks.texts(what="what"), *blocks.counts(count="times"))
        yield blocks.table("Missing in the crash test", columns, rows)


def _crash_figure(metric: str, test: CrashTest) -> Block:
    table = test.table(metric)
    caption = (
        f" of {metric} after a change, with its {percent(test.level)} interval. Dot: pass; cross: fail; ring: the "
        f"interval is too wide to decide. Grey band: effects smaller than {test.margin:g} count as none."
    )
    failed = [label(row.perturbation) for row in test.metrics[metric].perturbations if row.rating == "fail"]
    return _drawn(
        "crash-test",
        table,
        ("perturbation", "smd"),
        (term("smd", "Standardised mean difference"), caption),
        [(f"{label(metric)} fails {', '.join(failed) or 'no test'}.",)],
        prefix="smd_",
        rows=sorted(table.rows, key=lambda row: list(GROUPS).index(str(row["must"]))),
        axis="standardised mean difference: lower ← 0 → higher",
        reference=0.0,
        band=Band(-test.margin, test.margin) if test.margin > 0 else None,
    )


@section("bias", "Bias of judges")
def bias_section(run: RunFolder) -> Iterator[Block]:
    """Preferences of judges: position, length, markup, their own family."""
    found: BiasReport | None = run.others.get("bias")
    if found is None:
        return
    yield bullets(tuple(found.findings()))
    yield from _matrix(found)
    for bias in dict.fromkeys(row.bias for row in found.rows):
        rows = found.of(bias)
        figures: list[Block] = [_bias_figure(table, found.level) for table in found.measure_tables(rows)]
        if bias == "self-preference":
            figures.insert(0, words("The ", term("gap", "preference gap"), " of every two:"))
        yield fold(f"{bias.capitalize()} in detail", [*figures, *remarks([STAR] * any(row.shown for row in rows))])
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


def _bias_figure(table: ReportTable, level: float) -> Block:
    neutral: Any = table.rows[0]["neutral"]
    unknown = " Where the better response may also be the longer one, what an unbiased judge would do is not known."
    caption = f"With {percent(level)} intervals. Dot: significant bias; ring: not significant, or undecidable."
    read = (caption, unknown if neutral is None else " The line marks an unbiased judge.")
    shown = sum(bool(row["shown"]) for row in table.rows)
    said = [(f"{shown} of {len(table.rows)} numbers show a bias.",)]
    axis = "difference of shares" if neutral == 0.0 else "share"
    return _drawn("bias", table, ("judge", "value"), read, said, axis=axis, reference=neutral)


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
        yield _drawn("consistency", found.table(), ("coefficient", "value"), (said,), found.findings(), **plot)
        yield from remarks(found.notes)
