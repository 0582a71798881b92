"""What a panel is worth, as sentences and tables: of a review's document, for terminal and report alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from goldless.reports.report_table import Column, ReportTable

if TYPE_CHECKING:
    from goldless.reports.documents.scores import EffectiveVotesNote, ReviewDocument, WorthNote

ORDERED = "Reviewers in the order that their votes alone show"
MEASURED = "on recorded XSum the model claimed .97 and was right on .73"


def worth_sentences(worth: WorthNote | None) -> tuple[str, ...]:
    """What the panel is worth, in a sentence without its full stop; empty: there is no panel."""
    if worth is None or not worth.reviewers:
        return ()
    many = len(worth.reviewers)
    if many == 1:
        return ("one reviewer is one vote",)
    by_errors = worth.by_errors is not None and worth.by_errors.votes is not None
    best = worth.by_errors if by_errors else worth.by_votes
    notes = () if worth.peers else worth.notes
    if best is None or best.votes is None:
        why = None if best is None else best.note
        return (f"how many votes the {many} reviewers are worth is not known: {why or 'no pair in common'}",)
    who = f"the {many}" if best.judges == many else f"{best.judges} of the {many}"
    return (f"{who} reviewers are worth {_votes(best)}: {_why(best, by_errors=by_errors)}", *notes)


def _votes(found: EffectiveVotesNote) -> str:
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} … {found.high:.2f})"
    return f"{found.votes:.2f}{ends} independent votes"


def _why(found: EffectiveVotesNote, *, by_errors: bool) -> str:
    if (found.correlation or 0.0) < 0:
        return (
            f"their {'errors' if by_errors else 'votes'} correlate at {found.correlation:.3f} on {found.n} pairs. They "
            "contradict each other, and no panel is worth more votes than it has reviewers"
        )
    if by_errors:
        return f"their errors correlate at {found.correlation:.3f} on {found.n} labelled pairs"
    return (
        f"their votes correlate at {found.correlation:.3f} on {found.n} pairs. Agreement on what is right counts as "
        "shared error here, so this is too low as a rule; labels would show"
    )


def peers_notes(worth: WorthNote) -> Iterator[str]:
    """How far the order can be trusted."""
    if worth.claimed is not None:
        claims = f"the model behind this order (Dawid-Skene) claims to be right on {worth.claimed:.3f} of the pairs"
        if worth.right is None:
            yield f"{claims}: far too much, because reviewers share errors; {MEASURED}. Trust the order, not the values"
        else:
            yield (
                f"{claims} and is right on {worth.right:.3f} of {worth.n_claimed} labelled ones: reviewers share "
                "errors. Trust the order, not the values"
            )
    yield from worth.notes


def peers_table(review: ReviewDocument) -> Iterator[ReportTable]:
    """The reviewers as their votes show them, without labels; nothing for fewer than three."""
    worth = review.panel.worth
    if worth is None or not worth.peers:
        return
    known = {row.name: row.accuracy for row in review.reviewers if row.accuracy is not None}
    columns = (
        Column("reviewer", "reviewer"),
        Column("accuracy", "estimate", "number", decimals=3),
        Column("low high", "interval", "interval", "", 2),
        Column("n", "n", "figure"),
        Column("discrimination", "judge-aware d", "number", decimals=2),
        *[Column("people", "accuracy", "number")] * bool(known),
    )
    rows = tuple(one.cells(people=known.get(one.reviewer)) for one in worth.peers)
    yield ReportTable(ORDERED, columns, rows, review.signature, tuple(peers_notes(worth)))


def position_table(review: ReviewDocument) -> Iterator[ReportTable]:
    """How far reviewers prefer the response shown first; where each pair was asked about once."""
    shown = [row for row in review.reviewers if row.first_shown is not None]
    if review.settings.orders == "both" or not shown:
        return
    columns = (
        Column("reviewer", "reviewer"),
        Column("value", "prefers the first", "number", "missing", 3),
        Column("low high", "interval", "interval", "", 3),
        Column("n", "comparisons", "figure"),
    )
    rows = tuple(row.first_shown.cells(reviewer=row.name) for row in shown if row.first_shown is not None)
    title = "Position bias: each pair was shown once, in an order drawn by the seed (.5: none)"
    yield ReportTable(title, columns, rows, review.signature)
