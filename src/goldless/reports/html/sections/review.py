"""Peer review: the exam, the panel, and the rankings by its votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from goldless.metrics.exam_traits import Trait
from goldless.reports.html.blocks import (
    Block,
    Figure,
    Fold,
    Name,
    Paragraph,
    Term,
    listed,
    remarks,
    result_table,
    section,
    sentence,
    words,
)
from goldless.reports.html.charts.row_plots import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import Shape, pictures
from goldless.reports.html.labels import decimals_for, label, numeral, plural
from goldless.reports.html.sections.leaderboard import board_figure, interval_source
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.review import ReviewReport
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
    yield from (words(sentence(one)) for one in review.worth_sentences)
    yield result_table(review.reviewers_table())
    details: list[Block] = []
    if any(row.traits for row in review.reviewers):
        details.append(_exam(review))
    for table in (review.position_table(), review.peers_table()):
        if table is not None:
            details += [result_table(table), *remarks(table.notes)]
    details += [_ranking(name, board) for name, board in review.boards.items()]
    yield Fold("The exam, the order of reviewers, and every ranking", details)
    yield from remarks(review.notes)


def _summary(review: ReviewReport) -> Paragraph:
    begin = f"Scale: {review.scale}; exam: {', '.join(review.exams) or 'none'}. "
    if not review.voters:
        return words(begin, "There is no panel. ", review.nobody or "")
    found, agrees = review.panel.agreement, ""
    if found is not None and found.accuracy is not None:
        low, high = (numeral(end, absent="none") for end in (found.accuracy_low, found.accuracy_high))
        agrees = (
            f" Its votes agree with people on {numeral(found.accuracy)} ({low} to {high}) of "
            f"{plural(found.pairs_used, 'pair')} with a clear human preference."
        )
    return words(begin, "The panel is ", *listed(review.voters, 12), ".", agrees)


def _exam(review: ReviewReport) -> Figure:
    drawn = []
    traits = [(row.name, name, trait) for row in review.reviewers for name, trait in row.traits.items()]
    for reviewer, name, trait in sorted(traits, key=lambda one: (one[1], -(one[2].value or 0.0))):
        outcome = _outcome(trait)
        drawn.append(
            IntervalRow(
                reviewer,
                trait.value,
                *trait.interval,
                aside=f"{numeral(trait.value, absent='')} {outcome}",
                shape=SHAPES.get(outcome, "ring"),
                tone="vermilion" if outcome == "not above" else "blue",
                group=name,
                limit=trait.threshold,
                hint=trait.note or "",
            )
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
    failed = list(dict.fromkeys(row.name for row in review.reviewers if not row.passed))
    finding = f"{', '.join(map(label, failed))} did not pass." if failed else "All reviewers passed."
    return Figure("exam", "The exam", caption, both, [result_table(review.exam_table())], finding)


def _outcome(trait: Trait) -> str:
    if trait.value is None:
        return "missing"
    if trait.threshold is None:
        return "no limit"
    return "above" if trait.value > trait.threshold else "not above"


def _ranking(name: str, board: Leaderboard) -> Figure:
    unit, rows = board.unit, board.rows
    bounded = [row.n for row in rows if row.low is not None]
    # strengths are refitted to resampled tasks, however few there are
    source = interval_source([] if name == "bradley-terry" else bounded)
    intervals = f"with intervals {source}" if bounded else "without intervals"
    first = ""
    if rows and rows[0].score is not None:
        first = f"{label(rows[0].agent)} is first with {numeral(rows[0].score, decimals_for(board.ends))} {unit}."
    return board_figure(
        "ranking",
        ("Ranking by ", Name(name)),
        ("Agents by the panel's votes: ", RANKINGS.get(name, Name(name)), f" ({unit}, higher is better), {intervals}."),
        board,
        result_table(replace(board.table(full=True), title=f"Ranking by {name}")),
        title=f"Ranking of agents by {name}",
        axis=f"{unit}, higher is better",
        finding=first,
    )
