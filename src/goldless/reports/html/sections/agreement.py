"""Agreement with people, beside how far people agree; and of scorers with each other."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.documents.meta_evaluation import CriterionNote, MeanNote, ShareNote
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Section,
    Table,
    Term,
    counts,
    ends,
    note,
    number,
    sentence,
    signed,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column

ONE_PERSON = "one person against the others"
NAMES = {"spearman": "Spearman", "kendall_tau_b": "Kendall's tau-b", "kendall_tau_a": "Kendall's tau-a"}


def agreement_section(run: RunResults) -> Section | None:
    """Accuracy on decided pairs and rank correlation; None where nothing was held against people."""
    found = run.agreement
    if found is None:
        return None
    level = percent(found.level)
    blocks: list[Block] = []
    for one in found.criteria:
        if len(found.criteria) > 1:
            blocks.append(Heading((Name(one.criterion or "labels"),)))
        blocks += [_labels(one), _accuracy(one, level), *_correlation(one, level), *_ceiling(one), *_comparisons(one)]
        notes = tuple(note(sentence(text)) for text in one.notes)
        if notes:
            blocks.append(Fold((plural(len(notes), "note"),), notes))
    return Section("agreement", "Agreement with people", tuple(blocks))


def _labels(one: CriterionNote) -> Block:
    labels = one.labels
    return words(
        f"{plural(labels.raters, 'rater')} gave {plural(labels.ratings, 'rating')} and "
        f"{plural(labels.preferences, 'preference')}: of {plural(labels.pairs, 'pair')} they "
        f"decided {labels.decided:,}, and {labels.tied:,} are tied and leave the test."
    )


def _band(found: ShareNote | MeanNote | None) -> Band | None:
    """How far people agree with each other, as a band."""
    return None if found is None or found.value is None else Band(found.low, found.high, ONE_PERSON, found.value)


def _band_words(band: Band | None) -> tuple[Inline, ...]:
    """What the caption says of the band."""
    if band is None:
        return ()
    if band.low is None or band.high is None:
        return (" The grey line is the ", Term("ceiling", "human ceiling"), "; it has no interval.")
    return (" The band is the ", Term("ceiling", "human ceiling"), ".")


def _drawn(name: str, kind: str, value: float | None, low: float | None, high: float | None) -> IntervalRow:
    ours = kind in {"reviewer", "reviewers", "panel"}
    return IntervalRow.of(
        name,
        value,
        low,
        high,
        shape="dot" if ours else "square",
        tone="blue" if ours else "green",
        hint=f"{name} ({kind}): {numeral(value)}",
    )


def _accuracy(one: CriterionNote, level: str) -> Figure:
    judges = sorted(one.judges, key=lambda judge: -(judge.accuracy.accuracy or 0.0))
    rows = [judge.accuracy.cells(judge=judge.name, kind=judge.kind) for judge in judges]
    drawn = [_drawn(j.name, j.kind, j.accuracy.accuracy, j.accuracy.low, j.accuracy.high) for j in judges]
    people = one.ceiling.accuracy
    band = _band(people)
    if people is not None and band is not None:
        rows.append(people.cells(judge=ONE_PERSON, kind="people", accuracy=people.value, used=people.n))
    columns = (
        Column("judge", "judge", "name"),
        Column("kind", "kind"),
        number("accuracy", "accuracy"),
        ends(),
        Column("asked", "pairs asked", "count", "-"),
        Column("used", "used", "count"),
        *counts("-", missing="missing", tied="ties"),
        Column("n_tasks", "tasks", "count"),
    )
    caption = (
        f"Share of pairs on which a judge finds the same response better as people do, with {level} intervals; "
        "a tie counts one half, and 0.5 is chance."
    )
    title = "Accuracy of each judge on pairs that people decided"
    return Figure(
        "accuracy",
        ("Accuracy on pairs that people decided",),
        (caption, *_band_words(band)),
        pictures(interval_plot, drawn, title=title, axis="accuracy", reference=0.5, band=band),
        (Table(("Accuracy",), columns, tuple(rows)),),
    )


def _correlation(one: CriterionNote, level: str) -> Iterator[Figure]:
    every = [(judge, found) for judge in one.judges for found in judge.correlations]
    main = [(judge, found) for judge, found in every if (found.coefficient, found.over) == ("spearman", "tasks")]
    if not main:
        return
    main.sort(key=lambda found: -(found[1].value or -2.0))
    rows = [
        found.cells(judge=judge.name, name=NAMES.get(found.coefficient, found.coefficient)) for judge, found in every
    ]
    people = one.ceiling.spearman
    band = _band(people)
    if people is not None and band is not None:
        rows.append(people.cells(judge=ONE_PERSON, name=NAMES["spearman"], over="tasks", value=people.value))
    columns = (
        Column("judge", "judge", "name"),
        Column("name", "coefficient"),
        Column("over", "over"),
        number("value", "value", absent="not defined"),
        ends(),
        Column("asked", "asked", "count", "-"),
        Column("n", "used", "count"),
        Column("undefined", "undefined", "count", "-"),
        Column("note", "note", absent=""),
    )
    yield Figure(
        "correlation",
        ("Rank correlation with people's ratings",),
        (
            Term("spearman", "Spearman's coefficient"),
            f" over the responses to a task, its mean over tasks, with {level} intervals.",
            *_band_words(band),
            " Other coefficients are in the table.",
        ),
        pictures(
            interval_plot,
            [_drawn(judge.name, judge.kind, found.value, found.low, found.high) for judge, found in main],
            title="Rank correlation of each judge with people",
            axis="Spearman, mean over tasks",
            reference=0.0,
            band=band,
        ),
        (Table(("Every coefficient",), columns, tuple(rows)),),
    )


def _ceiling(one: CriterionNote) -> Iterator[Block]:
    alpha = one.ceiling.alpha
    if alpha is not None:
        low, high = (numeral(end, 2, absent="none") for end in (alpha.low, alpha.high))
        yield words(
            "People among themselves: ",
            Term("alpha", "Krippendorff's alpha"),
            f" is {numeral(alpha.alpha, 2)} ({low} to {high}, {alpha.measurement}) over "
            f"{plural(alpha.n_values, 'label')}.",
        )
    if one.ceiling.note:
        yield note(sentence(one.ceiling.note))


def _comparisons(one: CriterionNote) -> Iterator[Block]:
    if not one.comparisons:
        return
    columns = (
        Column("statistic", "of"),
        Column("first", "first", "name"),
        Column("second", "second", "name"),
        signed("difference", "difference", absent="nothing in common"),
        Column("low high", "", "signed interval", "none", 3),
        Column("p_holm", "p (Holm)", "probability", "-"),
        Column("n", "n", "count"),
    )
    rows = tuple(row.cells() for row in one.comparisons)
    table = Table(("Two judges on what both judged",), columns, rows)
    yield Fold(("Which judge agrees more than which: ", plural(len(rows), "comparison")), (table,))


# --- consistency over scorers ----------------------------------------------------------------------------------------


def consistency_section(run: RunResults) -> Section | None:
    """Whether agents come out in the same order whichever model scores; None where no scorers were compared."""
    found = run.consistency
    if found is None:
        return None
    drawn = [
        IntervalRow.of(
            row.coefficient,
            row.value,
            row.low,
            row.high,
            group=f"{row.metric}: {label(row.first, 24)} / {label(row.second, 24)}",
        )
        for row in found.rows
    ]
    columns = (
        Column("metric", "metric", "name"),
        Column("first", "first scorer", "name"),
        Column("second", "second scorer", "name"),
        Column("coefficient", "coefficient"),
        number("value", "over agents", absent="not defined"),
        ends(),
        number("within_task", "within tasks", absent="not defined"),
        *counts(n_agents="agents", n_tasks="tasks", asked="asked", used="used"),
    )
    title = "Correlation of agents' scores under two scorers"
    figure = Figure(
        "consistency",
        ("Agents under different scorers",),
        (f"Correlation of agents' mean scores under two scorers, with {percent(found.level)} intervals.",),
        pictures(interval_plot, drawn, title=title, axis="correlation", reference=0.0),
        (Table(("Every coefficient",), columns, tuple(row.cells() for row in found.rows)),),
    )
    return Section("consistency", "Consistency over scorers", (figure, *(note(sentence(t)) for t in found.notes)))
