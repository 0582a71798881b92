"""The report's section on agreement with people, beside how far people agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from goldless.meta_evaluation.agreement.results import Agreement, Correlation, CriterionAgreement
from goldless.metrics.label_agreement import Accuracy
from goldless.reports.document import write
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Paragraph,
    Term,
    note,
    remarks,
    result_table,
    section,
    sentence,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.run_folder import RunFolder
from goldless.statistics.bootstrap import Interval, Share

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


def _band(found: Share | Interval | None) -> tuple[Band | None, tuple[Inline, ...]]:
    """How well people agree with each other, as a band, and its sentence for the caption."""
    value = found.mean if isinstance(found, Interval) else None if found is None else found.value
    if found is None or value is None:
        return None, ()
    ceiling = Term("ceiling", "human ceiling")
    band = Band(found.low, found.high, ONE_PERSON, value)
    if found.low is None or found.high is None:
        return band, (" The grey line is the ", ceiling, "; it has no interval.")
    return band, (" The band is the ", ceiling, ": how often one person agrees with the others.")


def _drawn(name: str, kind: str, value: float | None, found: Accuracy | Correlation) -> IntervalRow:
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
    drawn = [_drawn(judge.name, judge.kind, judge.accuracy.accuracy, judge.accuracy) for judge in one.by_accuracy]
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
            [_drawn(judge.name, judge.kind, found.value, found) for judge, found in main],
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
