"""The tables of a review: the exam report, and the ranking of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goldless.reports.formats import code_line, markdown_table
from goldless.reports.report_table import Cell, Column, ReportTable

if TYPE_CHECKING:
    from goldless.reports.documents.scores import PanelNote, RankingNote, ReviewDocument, ReviewerNote, TraitNote

Data = Mapping[str, Any]
"""A review, as ``review.json`` holds it."""


def _read(data: Data) -> ReviewDocument:
    from goldless.reports.documents.scores import ReviewDocument  # noqa: PLC0415 - brings pydantic

    return ReviewDocument.model_validate(data)


def review_tables(data: Data, *, level: float) -> list[ReportTable]:
    """The exam report, then every ranking; what the panel agrees with people on stands below the last."""
    review = _read(data)
    tables = [_exam_table(review)]
    for i, (name, ranking) in enumerate(review.rankings.items(), 1):
        notes = _panel_notes(review.panel) if i == len(review.rankings) else ()
        tables.append(_ranking_table(ranking, name, level=level, signature=review.signature, notes=notes))
    return tables


def _exam_table(review: ReviewDocument) -> ReportTable:
    """One row a reviewer and trait: its value with interval and n, the limit; the weight of its vote, agreement."""
    judged = any(row.accuracy is not None for row in review.reviewers)
    columns = (
        Column("reviewer", "reviewer", least=8),
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


def _ranking_table(
    ranking: RankingNote, name: str, *, level: float, signature: str, notes: tuple[str, ...]
) -> ReportTable:
    """One row an agent."""
    columns = (
        Column("ranking", "ranking", wide=True),
        Column("rank", "#", "count"),
        Column("agent", "agent"),
        Column("score", "score", "number", "missing"),
        Column("low high", f"{level * 100:g}% interval", "interval", "", 3),
        Column("n_tasks", "tasks", "figure"),
        Column("missing asked", "missing", "fraction"),
    )
    rows = tuple(row.cells(ranking=name, missing=row.missing) for row in ranking.agents)
    return ReportTable(f"{name} ({ranking.unit}, higher is better)", columns, rows, signature, notes)


def _panel_notes(panel: PanelNote) -> tuple[str, ...]:
    if panel.accuracy is None:
        return ()
    ends = "" if panel.accuracy_low is None else f" ({panel.accuracy_low:.4f} … {panel.accuracy_high:.4f})"
    return (f"panel agrees with people on {panel.accuracy:.4f} of {panel.n_pairs} pairs{ends}",)


def review_markdown(data: Data) -> str:
    """The ranking and the exam report as Markdown, with the signature."""
    review = _read(data)
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
    return "\n".join([*lines, "", code_line(review.signature), ""])


def _trait(trait: TraitNote) -> str:
    limit = "-" if trait.threshold is None else f">{trait.threshold:.2f}"
    if trait.value is None:
        return f"missing n={trait.n} {limit}"
    low, high = trait.ends.values()
    interval = "" if low is None else f" ({low:.2f} … {high:.2f})"
    return f"{trait.value:.3f}{interval} n={trait.n} {limit}"


def _shown(value: float | str | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
