"""The peer review: what reviewers showed in the exam, who may vote, and the ranking of agents by their votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from goldless.reports.documents.scores import RankingNote, ReviewDocument, ReviewerNote, TraitNote
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Name,
    Section,
    Table,
    Term,
    counts,
    ends,
    listed,
    note,
    number,
    sentence,
    words,
)
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import decimals_for, numeral, plural
from goldless.reports.html.run_results import RunResults
from goldless.reports.html.sections.leaderboard import interval_source
from goldless.reports.report_table import Column

RANKINGS = {
    "bradley-terry": Term("bradley-terry"),
    "mean": Term("mean of ratings", "mean"),
    "win rate": Term("win rate"),
}
"""What agents are ranked by, by the name of the ranking."""
SHAPES: dict[str, Shape] = {"above": "dot", "not above": "cross"}


def review_section(run: RunResults) -> Section | None:
    """The section; None where there was no review."""
    review = run.review
    if review is None:
        return None
    blocks: list[Block] = [_summary(review), _reviewers(review.reviewers)]
    if any(row.traits for row in review.reviewers):
        blocks.append(_exam(review.reviewers))
    blocks += [_ranking(name, ranking) for name, ranking in review.rankings.items()]
    blocks += [note(sentence(text)) for text in review.notes]
    return Section("review", "Peer review", tuple(blocks))


def _summary(review: ReviewDocument) -> Block:
    panel = review.panel
    begin = f"Scale: {review.scale}; exam: {', '.join(review.exams) or 'none'}. "
    if not panel.reviewers:
        return words(begin, "Nobody may vote. ", review.nobody_passed)
    agrees = ""
    if panel.accuracy is not None:
        low, high = (numeral(end, absent="none") for end in (panel.accuracy_low, panel.accuracy_high))
        agrees = (
            f" Together they agree with people on {numeral(panel.accuracy)} ({low} to {high}) of "
            f"{plural(panel.pairs_used, 'pair')} that people decided."
        )
    return words(begin, "The votes of ", *listed(panel.reviewers, 12), " count.", agrees)


def _reviewers(reviewers: Sequence[ReviewerNote]) -> Table:
    judged = any(row.accuracy is not None for row in reviewers)
    columns = (
        Column("name", "reviewer", "name"),
        Column("vote", "may vote"),
        number("weight", "weight", absent="none"),
        *counts("-", asked="asked", used="used", missing="missing"),
        *[number("accuracy", "agrees with people", absent="-")] * judged,
        *[number("spearman", "Spearman", 2, absent="-")] * judged,
        Column("why", "why"),
    )
    rows = tuple(row.cells(vote="yes" if row.passed else "no") for row in reviewers)
    return Table(("Reviewers",), columns, rows)


def _exam(reviewers: Sequence[ReviewerNote]) -> Figure:
    rows = list(_traits(reviewers))
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
        for row in sorted(rows, key=lambda row: str(row["trait"]))
    ]
    columns = (
        Column("reviewer", "reviewer", "name"),
        Column("trait", "trait"),
        number("value", "value"),
        ends(),
        number("threshold", "limit", absent="none"),
        Column("outcome", "outcome"),
        *counts(asked="asked", n="used"),
        Column("note", "note", absent=""),
    )
    caption = (
        "What each reviewer showed: ",
        Term("consistency"),
        ", ",
        Term("pertinence"),
        " and ",
        Term("self-confidence"),
        (
            ", with intervals. The upright stroke is the limit it must exceed: a dot does, a cross does not, and a "
            "ring has no limit."
        ),
    )
    return Figure(
        "exam",
        ("The exam",),
        caption,
        pictures(interval_plot, drawn, title="Traits of reviewers in the exam, with limits", axis="share"),
        (Table(("Traits of the reviewers",), columns, tuple(rows)),),
    )


def _traits(reviewers: Sequence[ReviewerNote]) -> Iterator[dict[str, Any]]:
    for row in reviewers:
        for name, trait in row.traits.items():
            yield trait.cells(reviewer=row.name, trait=name, outcome=_outcome(trait), **trait.ends)


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
            row.agent,
            row.score,
            row.low,
            row.high,
            decimals=decimals,
            hint=f"{row.agent}: {numeral(row.score, decimals)}",
        )
        for row in agents
    ]
    columns = (
        Column("rank", "#", "count", "-"),
        Column("agent", "agent", "name"),
        number("score", "score", decimals),
        ends(decimals=decimals),
        *counts(n_tasks="tasks", asked="asked", used="used", missing="missing"),
    )
    bounded = [row.n_tasks for row in agents if row.low is not None]
    # strengths are fitted anew to resampled tasks however few there are
    source = interval_source([] if name == "bradley-terry" else bounded)
    intervals = f"with intervals {source}" if bounded else "without intervals"
    return Figure(
        "ranking",
        ("Ranking by ", Name(name)),
        ("Agents by the panel's votes: ", RANKINGS.get(name, Name(name)), f" ({unit}, higher is better), {intervals}."),
        pictures(interval_plot, drawn, title=f"Ranking of agents by {name}", axis=f"{unit}, higher is better"),
        (Table((f"Ranking by {name}",), columns, tuple(row.cells(missing=row.missing) for row in agents)),),
    )
