"""Peer review: the exam, the panel, and the rankings by its votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldless.reports.documents.panel_tables import ORDERED, peers_notes, worth_sentences
from goldless.reports.documents.scores import RankingNote, ReviewDocument, ReviewerNote, TraitNote
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Name,
    Paragraph,
    Table,
    Term,
    counts,
    ends,
    listed,
    names,
    number,
    remarks,
    section,
    sentence,
    texts,
    words,
)
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import decimals_for, label, numeral, plural
from goldless.reports.html.sections.leaderboard import interval_source
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
