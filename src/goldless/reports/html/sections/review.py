"""Peer review, agreement of judges with people, and agreement between scorers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldless.reports.documents.fields import Bounded
from goldless.reports.documents.meta_evaluation import AgreementDocument, CriterionNote, ValueNote
from goldless.reports.documents.panel_tables import ORDERED, peers_notes, worth_sentences
from goldless.reports.documents.scores import RankingNote, ReviewDocument, ReviewerNote, TraitNote
from goldless.reports.findings import in_text
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Heading,
    Inline,
    Name,
    Paragraph,
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
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import decimals_for, label, numeral, percent, plural
from goldless.reports.html.sections.leaderboard import interval_source
from goldless.reports.meta_findings import agreement_findings, consistency_findings
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder

RANKINGS = {
    "bradley-terry": Term("bradley-terry"),
    "mean": Term("mean of ratings", "mean"),
    "win rate": Term("win rate"),
}
"""What agents are ranked by, per name of the ranking."""
SHAPES: dict[str, Shape] = {"above": "dot", "not above": "cross"}


@section("review", "Who judged")
def review_section(run: RunFolder) -> Iterator[Block]:
    """The exam, the panel, and the ranking of agents by its votes; None if there was no review."""
    review = run.review
    if review is None:
        return
    yield _summary(review)
    yield from (words(sentence(one)) for one in worth_sentences(review.panel.worth))
    yield _reviewers(review.reviewers)
    details: list[Block] = []
    if any(row.traits for row in review.reviewers):
        details.append(_exam(review.reviewers))
    details += [*_worth(review), *(_ranking(name, ranking) for name, ranking in review.rankings.items())]
    yield Fold("The exam, the order of reviewers, and every ranking", details)
    yield from remarks(review.notes)


def _summary(review: ReviewDocument) -> Paragraph:
    panel = review.panel
    begin = f"Scale: {review.scale}; exam: {', '.join(review.exams) or 'none'}. "
    if not panel.reviewers:
        return words(begin, "There is no panel. ", review.nobody_passed)
    agrees = ""
    if panel.accuracy is not None:
        low, high = (numeral(end, absent="none") for end in (panel.accuracy_low, panel.accuracy_high))
        agrees = (
            f" Its votes agree with people on {numeral(panel.accuracy)} ({low} to {high}) of "
            f"{plural(panel.pairs_used, 'pair')} with a clear human preference."
        )
    return words(begin, "The panel is ", *listed(panel.reviewers, 12), ".", agrees)


def _reviewers(reviewers: Sequence[ReviewerNote]) -> Table:
    judged = any(row.accuracy is not None for row in reviewers)
    columns = (
        *names(name="reviewer"),
        *texts(vote="can vote"),
        number("weight", "weight", absent="none"),
        *counts("-", asked="asked", used="used", missing="missing"),
        *[number("accuracy", "agrees with people", absent="-")] * judged,
        *[number("spearman", "Spearman", 2, absent="-")] * judged,
        *texts(why="exam"),
    )
    ordered = sorted(reviewers, key=lambda row: (not row.passed, -(row.weight or 0.0)))
    return Table("Reviewers", columns, [row.cells(vote="yes" if row.passed else "no") for row in ordered])


def _exam(reviewers: Sequence[ReviewerNote]) -> Figure:
    rows = [
        trait.cells(reviewer=row.name, trait=name, outcome=_outcome(trait), **trait.ends)
        for row in reviewers
        for name, trait in row.traits.items()
    ]
    drawn = [
        IntervalRow(
            row["reviewer"],
            row["value"],
            row["low"],
            row["high"],
            aside=f"{numeral(row['value'], absent='')} {row['outcome']}",
            shape=SHAPES.get(row["outcome"], "ring"),
            tone="vermilion" if row["outcome"] == "not above" else "blue",
            group=row["trait"],
            limit=row["threshold"],
            hint=row["note"] or "",
        )
        for row in sorted(rows, key=lambda row: (str(row["trait"]), -(row["value"] or 0.0)))
    ]
    columns = (
        *names(reviewer="reviewer"),
        *texts(trait="trait"),
        number("value", "value"),
        ends(),
        number("threshold", "limit", absent="none"),
        *texts(outcome="outcome"),
        *counts(asked="asked", n="used"),
        *texts("", note="note"),
    )
    caption = (
        "Results of each reviewer: ",
        Term("consistency"),
        ", ",
        Term("pertinence"),
        " and ",
        Term("self-confidence"),
        ", with intervals. The vertical stroke is the limit to exceed: ",
        "dots are above it, crosses are not, rings have no limit.",
    )
    both = pictures(interval_plot, drawn, title="Exam results of reviewers, with limits", axis="share")
    failed = list(dict.fromkeys(row.name for row in reviewers if not row.passed))
    finding = f"{', '.join(map(label, failed))} did not pass." if failed else "All reviewers passed."
    return Figure("exam", "The exam", caption, both, [Table("Exam results", columns, rows)], finding)


def _worth(review: ReviewDocument) -> Iterator[Block]:
    """Whether position decides, and the order of reviewers without labels."""
    shown = [row for row in review.reviewers if row.first_shown is not None]
    if shown and review.settings.orders != "both":
        columns = (*names(reviewer="reviewer"), number("value", "prefers the first"), ends(), *counts(n="comparisons"))
        rows = [row.first_shown.cells(reviewer=row.name) for row in shown if row.first_shown is not None]
        yield Table("Position bias: each pair was shown once, in a drawn order; 0.5 is none", columns, rows)
    worth = review.panel.worth
    if worth is not None and worth.peers:
        known = {row.name: row.accuracy for row in review.reviewers}
        columns = (
            *names(reviewer="reviewer"),
            number("accuracy", "estimate"),
            ends(),
            *counts(n="pairs"),
            number("discrimination", "judge-aware d", 2),
            number("people", "agrees with people", absent="-"),
        )
        yield Table(ORDERED, columns, [one.cells(people=known.get(one.reviewer)) for one in worth.peers])
        yield from remarks(tuple(peers_notes(worth)))


def _outcome(trait: TraitNote) -> str:
    if trait.value is None:
        return "missing"
    if trait.threshold is None:
        return "no limit"
    return "above" if trait.value > trait.threshold else "not above"


def _ranking(name: str, ranking: RankingNote) -> Figure:
    agents, unit = ranking.agents, ranking.unit
    decimals = decimals_for(end for row in agents for end in (row.score, row.low, row.high))
    drawn = [
        IntervalRow.of(
            row.agent, row.score, row, decimals=decimals, hint=f"{row.agent}: {numeral(row.score, decimals)}"
        )
        for row in agents
    ]
    columns = (
        *counts("-", rank="#"),
        *names(agent="agent"),
        number("score", "score", decimals),
        ends(decimals=decimals),
        *counts(n_tasks="tasks", asked="asked", used="used", missing="missing"),
    )
    bounded = [row.n_tasks for row in agents if row.low is not None]
    # strengths are refitted to resampled tasks, however few there are
    source = interval_source([] if name == "bradley-terry" else bounded)
    intervals = f"with intervals {source}" if bounded else "without intervals"
    return Figure(
        "ranking",
        ("Ranking by ", Name(name)),
        ("Agents by the panel's votes: ", RANKINGS.get(name, Name(name)), f" ({unit}, higher is better), {intervals}."),
        pictures(interval_plot, drawn, title=f"Ranking of agents by {name}", axis=f"{unit}, higher is better"),
        [Table(f"Ranking by {name}", columns, agents)],
        f"{label(agents[0].agent)} is first with {numeral(agents[0].score, decimals)} {unit}." if agents else "",
    )


# --- agreement with people, beside how far people agree --------------------------------------------------------------

ONE_PERSON = "one person vs the others"
COEFFICIENTS = {"spearman": "Spearman", "kendall_tau_b": "Kendall's tau-b", "kendall_tau_a": "Kendall's tau-a"}
ACCURACY_COLUMNS = (
    *names(judge="judge"),
    *texts(kind="kind"),
    number("accuracy", "accuracy"),
    ends(),
    *counts("-", asked="pairs"),
    *counts(used="used"),
    *counts("-", missing="missing", tied="ties"),
    *counts(n_tasks="tasks"),
)
CORRELATION_COLUMNS = (
    *names(judge="judge"),
    *texts(name="coefficient", over="over"),
    number("value", "value", absent="not defined"),
    ends(),
    *counts("-", asked="asked"),
    *counts(n="used"),
    *counts("-", undefined="undefined"),
    *texts("", note="note"),
)
COMPARISON_COLUMNS = (
    *texts(statistic="of"),
    *names(first="first", second="second"),
    signed("difference", "difference", absent="nothing in common"),
    Column("low high", "", "signed interval", "none", 3),
    Column("p_holm", "p (Holm)", "probability", "-"),
    *counts(n="n"),
)


@section("agreement", "Agreement with people")
def agreement_section(run: RunFolder) -> Iterator[Block]:
    """Accuracy on decided pairs and rank correlation; None if nothing was compared with people."""
    found = AgreementDocument() if run.agreement is None else run.agreement
    level = percent(found.level)
    for one in found.criteria:
        if len(found.criteria) > 1:
            yield Heading((Name(one.criterion or "labels"),))
        told = [in_text(said, label) for said in agreement_findings(AgreementDocument(criteria=(one,)))]
        yield _labels(one)
        yield _accuracy(one, level, " ".join(told))
        details: list[Block] = [*_correlation(one, level), *_ceiling(one)]
        if one.comparisons:
            details.append(Table("Pairs of judges, on what both judged", COMPARISON_COLUMNS, one.comparisons))
        yield Fold("Rank correlations, agreement between people, and which judge exceeds which", details)
        if one.notes:
            yield Fold(plural(len(one.notes), "note"), remarks(one.notes))


def _labels(one: CriterionNote) -> Paragraph:
    labels = one.labels
    return words(
        f"{plural(labels.raters, 'rater')} gave {plural(labels.ratings, 'rating')} and "
        f"{plural(labels.preferences, 'preference')}. Of {plural(labels.pairs, 'pair')}, "
        f"{labels.decided:,} have a clear preference; {labels.tied:,} are tied and not used."
    )


def _band(found: ValueNote | None) -> tuple[Band | None, tuple[Inline, ...]]:
    """How well people agree with each other, as a band, and its sentence for the caption."""
    if found is None or found.value is None:
        return None, ()
    ceiling = Term("ceiling", "human ceiling")
    band = Band(found.low, found.high, ONE_PERSON, found.value)
    if found.low is None or found.high is None:
        return band, (" The grey line is the ", ceiling, "; it has no interval.")
    return band, (" The band is the ", ceiling, ": how often one person agrees with the others.")


def _drawn(name: str, kind: str, value: float | None, found: Bounded) -> IntervalRow:
    ours = kind in {"reviewer", "reviewers", "panel"}
    return IntervalRow.of(
        name,
        value,
        found,
        shape="dot" if ours else "square",
        tone="blue" if ours else "green",
        hint=f"{name} ({kind}): {numeral(value)}",
    )


def _accuracy(one: CriterionNote, level: str, finding: str) -> Figure:
    judges = sorted(one.judges, key=lambda judge: -(judge.accuracy.accuracy or 0.0))
    rows = [judge.accuracy.cells(judge=judge.name, kind=judge.kind) for judge in judges]
    drawn = [_drawn(judge.name, judge.kind, judge.accuracy.accuracy, judge.accuracy) for judge in judges]
    people = one.ceiling.accuracy
    band, told = _band(people)
    if people is not None and band is not None:
        rows.append(people.cells(judge=ONE_PERSON, kind="people", accuracy=people.value, used=people.n))
    caption = (
        f"Share of pairs where a judge prefers the same response as people do, with {level} intervals; "
        "a tie counts as one half, and 0.5 is chance. Blue dots are reviewers and their panel, green squares metrics."
    )
    title = "Accuracy of each judge on pairs with a human preference"
    return Figure(
        "accuracy",
        "Accuracy on pairs with a human preference",
        (caption, *told),
        pictures(interval_plot, drawn, title=title, axis="accuracy", reference=0.5, band=band),
        [Table("Accuracy", ACCURACY_COLUMNS, rows)],
        finding,
    )


def _correlation(one: CriterionNote, level: str) -> Iterator[Figure]:
    every = [(judge, found) for judge in one.judges for found in judge.correlations]
    main = [(judge, found) for judge, found in every if (found.coefficient, found.over) == ("spearman", "tasks")]
    if not main:
        return
    main.sort(key=lambda found: -(found[1].value or -2.0))
    rows = [
        found.cells(judge=judge.name, name=COEFFICIENTS.get(found.coefficient, found.coefficient))
        for judge, found in every
    ]
    people = one.ceiling.spearman
    band, told = _band(people)
    if people is not None and band is not None:
        rows.append(people.cells(judge=ONE_PERSON, name="Spearman", over="tasks", value=people.value))
    yield Figure(
        "correlation",
        "Rank correlation with people's ratings",
        (
            Term("spearman", "Spearman's coefficient"),
            f" over the responses to a task, averaged over tasks, with {level} intervals.",
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
        [Table("All coefficients", CORRELATION_COLUMNS, rows)],
        f"{label(main[0][0].name)} is first with {numeral(main[0][1].value)}.",
    )


def _ceiling(one: CriterionNote) -> Iterator[Paragraph]:
    alpha = one.ceiling.alpha
    if alpha is not None:
        low, high = (numeral(end, 2, absent="none") for end in (alpha.low, alpha.high))
        yield words(
            "Agreement between people: ",
            Term("alpha", "Krippendorff's alpha"),
            f" is {numeral(alpha.alpha, 2)} ({low} to {high}, {alpha.measurement}) over "
            f"{plural(alpha.n_values, 'label')}.",
        )
    if one.ceiling.note:
        yield note(sentence(one.ceiling.note))


# --- consistency over scorers ----------------------------------------------------------------------------------------

CONSISTENCY_COLUMNS = (
    *names(metric="metric", first="first scorer", second="second scorer"),
    *texts(coefficient="coefficient"),
    number("value", "over agents", absent="not defined"),
    ends(),
    number("within_task", "within tasks", absent="not defined"),
    *counts(n_agents="agents", n_tasks="tasks", asked="asked", used="used"),
)


@section("consistency", "Consistency between scorers")
def consistency_section(run: RunFolder) -> Iterator[Block]:
    """Whether different scorers rank agents in the same order; None if no scorers were compared."""
    found = run.consistency
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
        [Table("All coefficients", CONSISTENCY_COLUMNS, found.rows)],
        " ".join(in_text(said, label) for said in consistency_findings(found)),
    )
    yield from remarks(found.notes)
