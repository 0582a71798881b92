"""Tables of a review, made from its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goldless.reports.documents.panel_tables import peers_table, position_table, worth_sentences
from goldless.reports.findings import REVIEW, Said, of_one
from goldless.reports.formats import code_line, markdown_table
from goldless.reports.report_table import Cell, Column, ReportTable

# what reads documents brings pydantic: it is loaded when the first of them is read
if TYPE_CHECKING:
    from goldless.reports.documents.scores import PanelNote, RankedMetric, ReviewDocument, ReviewerNote, TraitNote

Data = Mapping[str, Any]
"""A review, as in ``review.json``."""


def _interval(level: float) -> str:
    return f"{level * 100:g}% interval"


def _review(data: Data) -> ReviewDocument:
    from goldless.reports.documents.scores import ReviewDocument  # noqa: PLC0415

    return ReviewDocument.model_validate(data)


def review_tables(data: Data, *, level: float) -> list[ReportTable]:
    """Every ranking, then the exam report; the panel's agreement with people is a note below the last ranking."""
    review = _review(data)
    tables = []
    for i, (name, board) in enumerate(review.boards.items(), 1):
        notes = _panel_notes(review.panel, review.reviewers) if i == len(review.rankings) else ()
        tables.append(_ranking_table(board, name, level=level, notes=notes))
    tables.append(_exam_table(review))
    tables += [_confidence_table(review)] * any(_sure(row) for row in review.reviewers)
    tables += [_sweep_table(review, level=level)] * bool(review.sweep)
    return [*tables, *position_table(review), *peers_table(review)]


def review_findings(data: Data) -> list[Said]:
    """Who leads, whom it beats, and who voted."""
    return found_in_review(_review(data))


def found_in_review(review: ReviewDocument) -> list[Said]:
    """The same of a document."""
    passed = sum(row.passed for row in review.reviewers)
    who = f"{passed} of {len(review.reviewers)} reviewer{'s' * (len(review.reviewers) != 1)} can vote"
    name, board = next(iter(review.boards.items()), ("", None))
    if board is None or all(row.score is None for row in board.rows):
        why = f": {review.nobody_passed}" if review.nobody_passed else ""
        return [(f"The review has no ranking; {who}{why}.",)]
    lead = of_one(f"{REVIEW}{name}", board) if review.until is None else (review.until.summary,)
    agrees: Said = ()
    if review.panel.accuracy is not None:
        used = f"{review.panel.pairs_used or review.panel.n_pairs:,}"
        agrees = (f", and agree with people on {review.panel.accuracy:.3f} of {used} pairs",)
    return [lead, (f"{who}", *agrees, ".")]


def _exam_table(review: ReviewDocument) -> ReportTable:
    """One row per reviewer and trait: value with interval and n, limit, weight of the vote, agreement."""
    judged = any(row.accuracy is not None for row in review.reviewers)
    columns = (
        Column("reviewer", "reviewer"),
        Column("passed", "passed", wide=True),
        Column("weight", "vote", "number", "none"),
        *[Column("accuracy", "accuracy", "number")] * judged,
        Column("trait", "trait"),
        Column("value", "value", "number", "missing", 3),
        Column("low high", "interval", "interval", "", 2),
        Column("n", "n", "figure"),
        Column("threshold", "> limit", "number", decimals=2),
    )
    rows = tuple(_exam_row(row, *one) for row in review.reviewers for one in (row.traits.items() or [("-", None)]))
    notes = tuple(f"{row.name} did not pass: {row.why}" for row in review.reviewers if not row.passed)
    return ReportTable("Exam report", columns, rows, review.signature, notes)


def _exam_row(row: ReviewerNote, name: str, trait: TraitNote | None) -> dict[str, Cell]:
    found: dict[str, Cell] = {"reviewer": row.name, "passed": "yes" if row.passed else "no", "trait": name}
    found |= {"weight": row.weight, "accuracy": row.accuracy}
    if trait is None:
        return found | {"value": "", "n": "", "threshold": ""}
    return found | {"value": trait.value, **trait.ends, "n": trait.n, "threshold": trait.threshold}


def _sure(row: ReviewerNote) -> bool:
    found = row.traits.get("self-confidence")
    return found is not None and found.easy is not None and found.hard is not None


def _confidence_table(review: ReviewDocument) -> ReportTable:
    """One row per reviewer: how sure it was of easy and of hard items, beside its accuracy in the human exam."""
    examined = any("human exam" in row.traits for row in review.reviewers)
    columns = (
        Column("reviewer", "reviewer"),
        Column("unit", "in"),
        *(
            Column(f"{part}_{name}", f"{part} {name}", "number")
            for part in ("easy", "hard")
            for name in ("mean", "sd", "median")
        ),
        *[Column("human exam", "human exam", "number")] * examined,
    )
    rows = []
    for row in filter(_sure, review.reviewers):
        found, exam = row.traits["self-confidence"], row.traits.get("human exam")
        cells: dict[str, Cell] = {"reviewer": row.name, "human exam": None if exam is None else exam.value}
        for part, one in (("easy", found.easy), ("hard", found.hard)):
            assert one is not None
            cells |= {"unit": one.unit}
            cells |= {f"{part}_mean": one.mean, f"{part}_sd": one.sd, f"{part}_median": one.median}
        rows.append(cells)
    title = "Self-confidence (levels: higher is surer; nats of uncertainty: lower is surer)"
    return ReportTable(title, columns, tuple(rows), review.signature)


def _sweep_table(review: ReviewDocument, *, level: float) -> ReportTable:
    """One row per limit and kind of weights."""
    columns = (
        Column("limit", "> limit", "figure"),
        Column("weights", "weights"),
        Column("accuracy", "accuracy", "number", "no panel"),
        Column("accuracy_low accuracy_high", _interval(level), "interval", "", 3),
        Column("accuracy_by_task", "by task", "number", ""),
        Column("spearman", "Spearman", "number", ""),
        Column("panel", "panel"),
    )
    rows = tuple(cell.cells(panel=", ".join(cell.reviewers)) for cell in review.sweep)
    return ReportTable("The panel's agreement with people by limit and weights", columns, rows, review.signature)


def _ranking_table(board: RankedMetric, name: str, *, level: float, notes: tuple[str, ...]) -> ReportTable:
    """One row per agent; ranks of the agents that it beats, unless that was not tested."""
    tested = any(row.better_than is not None for row in board.rows)
    columns = (
        Column("ranking", "ranking", wide=True),
        Column("rank", "#", "count"),
        Column("agent", "agent"),
        Column("score", "score", "number", "missing"),
        Column("low high", _interval(level), "interval", "", 3),
        Column("n_tasks", "tasks", "figure"),
        Column("missing asked", "missing", "fraction"),
        *[Column("beaten", "beats #")] * tested,
    )
    ranks = {row.agent: str(row.rank) for row in board.rows if row.rank is not None}
    rows = []
    for row in board.rows:
        beaten = [ranks[one] for one in row.better_than or () if one in ranks and row.agent in ranks]
        rows.append(row.cells(ranking=name, n_tasks=row.n, beaten=" ".join(beaten) or None))
    return ReportTable(f"{name} ({board.unit}, higher is better)", columns, tuple(rows), board.signature, notes)


def _panel_notes(panel: PanelNote, reviewers: Sequence[ReviewerNote]) -> tuple[str, ...]:
    worth = worth_sentences(panel.worth)
    if panel.accuracy is None:
        return worth
    ends = "" if panel.accuracy_low is None else f" ({panel.accuracy_low:.4f} … {panel.accuracy_high:.4f})"
    notes = [f"panel agrees with people on {panel.accuracy:.4f} of {panel.n_pairs} pairs{ends}"]
    if panel.accuracy_by_task is not None:
        notes.append(f"mean over tasks of its accuracy: {panel.accuracy_by_task:.4f}")
    if panel.accuracy_each_order is not None:
        notes.append(f"accuracy of its votes in each order on its own: {panel.accuracy_each_order:.4f}")
    best = max(reviewers, key=lambda row: -1.0 if row.accuracy is None else row.accuracy)
    if best.panel_difference is not None and best.panel_p_pairs is not None:
        p = f"p {best.panel_p_pairs:.4f}, paired t-test over pairs"
        notes.append(f"panel minus {best.name}, the most accurate reviewer: {best.panel_difference:+.4f} ({p})")
    return (*notes, *worth)


def review_markdown(data: Data) -> str:
    """The ranking and the exam report as Markdown, with the signature."""
    review = _review(data)
    agents = (
        [_shown(value) for value in (row.rank, row.agent, row.score, row.low, row.high, row.n_tasks)]
        for row in review.ranking
    )
    reviewers = (
        (
            row.name,
            "; ".join(f"{name} {_trait(trait)}" for name, trait in row.traits.items()) or "-",
            "yes" if row.passed else "no",
            _shown(row.weight),
            _shown(row.accuracy),
        )
        for row in review.reviewers
    )
    lines = [
        *markdown_table(("#", "agent", "score", "low", "high", "tasks"), agents),
        "",
        *markdown_table(("reviewer", "traits", "passed", "weight", "accuracy"), reviewers),
    ]
    worth = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in worth_sentences(review.panel.worth)]
    return "\n".join([*lines, "", *worth, *[""] * bool(worth), code_line(review.signature), ""])


def _trait(trait: TraitNote) -> str:
    limit = "-" if trait.threshold is None else f">{trait.threshold:.2f}"
    if trait.value is None:
        return f"missing n={trait.n} {limit}"
    low, high = trait.ends.values()
    interval = "" if low is None else f" ({low:.2f} … {high:.2f})"
    return f"{trait.value:.3f}{interval} n={trait.n} {limit}"


def _shown(value: float | str | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
