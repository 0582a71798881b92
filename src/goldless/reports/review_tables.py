"""The tables of a review: the exam report, and the ranking of agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.markdown import code_line, markdown_table
from goldless.reports.report_table import Cell, Column, ReportTable

Row = Mapping[str, Any]


def review_tables(review: Row, *, level: float) -> list[ReportTable]:
    """The exam report, then every ranking; what the panel agrees with people on stands below the last."""
    tables = [exam_table(review)]
    rankings = list(review["rankings"].items())
    for i, (name, ranking) in enumerate(rankings, 1):
        notes = _panel_notes(review["panel"]) if i == len(rankings) else ()
        tables.append(ranking_table(ranking, name, level=level, signature=review["signature"], notes=notes))
    return tables


def exam_table(review: Row) -> ReportTable:
    """One row a reviewer and trait: its value with interval and n, the limit; the weight of its vote, agreement."""
    reviewers = review["reviewers"]
    judged = any(row.get("accuracy") is not None for row in reviewers)
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
    rows = [_exam_row(row, *one) for row in reviewers for one in (row["traits"].items() or [("-", None)])]
    notes = tuple(f"{row['name']} did not pass: {row['why']}" for row in reviewers if not row["passed"])
    return ReportTable("Exam report", columns, tuple(rows), review["signature"], notes)


def _exam_row(row: Row, name: str, trait: Row | None) -> dict[str, Cell]:
    found: dict[str, Cell] = {"reviewer": row["name"], "passed": "yes" if row["passed"] else "no", "trait": name}
    found |= {"weight": row["weight"], "accuracy": row.get("accuracy")}
    if trait is None:
        return found | {"value": "", "n": "", "threshold": ""}
    # an interval of the difference between two sets is no interval of the value
    ends = {end: trait[end] if trait["difference"] is None else None for end in ("low", "high")}
    return found | {"value": trait["value"], **ends, "n": trait["n"], "threshold": trait["threshold"]}


def ranking_table(ranking: Row, name: str, *, level: float, signature: str, notes: tuple[str, ...] = ()) -> ReportTable:
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
    rows = tuple({**row, "ranking": name, "missing": row["asked"] - row["used"]} for row in ranking["agents"])
    return ReportTable(f"{name} ({ranking['unit']}, higher is better)", columns, rows, signature, notes)


def _panel_notes(panel: Row) -> tuple[str, ...]:
    if panel.get("accuracy") is None:
        return ()
    ends = ""
    if panel["accuracy_low"] is not None:
        ends = f" ({panel['accuracy_low']:.4f} … {panel['accuracy_high']:.4f})"
    return (f"panel agrees with people on {panel['accuracy']:.4f} of {panel['n_pairs']} pairs{ends}",)


def review_markdown(review: Row) -> str:
    """The ranking and the exam report as Markdown, with the signature."""
    columns = ("rank", "agent", "score", "low", "high", "n_tasks")
    agents = ([_shown(row[column]) for column in columns] for row in review["ranking"])
    reviewers = (
        (
            row["name"],
            "; ".join(f"{name} {_trait(trait)}" for name, trait in row["traits"].items()) or "-",
            "yes" if row["passed"] else "no",
            _shown(row["weight"]),
            _shown(row.get("accuracy")),
        )
        for row in review["reviewers"]
    )
    lines = [
        *markdown_table(("#", "agent", "score", "low", "high", "tasks"), agents),
        "",
        *markdown_table(("reviewer", "traits", "passed", "weight", "accuracy"), reviewers),
    ]
    return "\n".join([*lines, "", code_line(review["signature"]), ""])


def _trait(trait: Row) -> str:
    limit = "-" if trait["threshold"] is None else f">{trait['threshold']:.2f}"
    if trait["value"] is None:
        return f"missing n={trait['n']} {limit}"
    bounded = trait["low"] is not None and trait["difference"] is None
    interval = f" ({trait['low']:.2f} … {trait['high']:.2f})" if bounded else ""
    return f"{trait['value']:.3f}{interval} n={trait['n']} {limit}"


def _shown(value: float | str | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
