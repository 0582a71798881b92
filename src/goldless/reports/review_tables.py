"""The tables of a review: the exam report, and the ranking of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]


def exam_table(reviewers: Sequence[Row]) -> Table:
    """One row a reviewer and trait: its value with interval and n, the limit; the weight of its vote, agreement."""
    table = _table("Exam report")
    judged = [] if all(row.get("accuracy") is None for row in reviewers) else ["accuracy"]
    right = {"value", "n", "limit", "vote", "accuracy"}
    table.add_column("reviewer", overflow="fold", min_width=8)
    for name in ("vote", *judged, "trait", "value", "interval", "n", "limit"):
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in reviewers:
        head = [row["name"], _number(row["weight"], "none")]
        head += [_number(row.get("accuracy"))] * len(judged)
        for i, (name, trait) in enumerate(row["traits"].items() or [("-", None)]):
            cells = [*(head if i == 0 else [""] * len(head)), name, *_trait_cells(trait)]
            table.add_row(*map(_text, cells), style="" if row["passed"] else "dim")
    return table


def _trait_cells(trait: Row | None) -> tuple[str, str, str, str]:
    if trait is None:
        return "", "", "", ""
    limit = "-" if trait["threshold"] is None else f">{trait['threshold']:.2f}"
    if trait["value"] is None:
        return "missing", "", str(trait["n"]), limit
    bounded = trait["low"] is not None and trait["difference"] is None
    interval = f"{trait['low']:.2f} … {trait['high']:.2f}" if bounded else ""
    return f"{trait['value']:.3f}", interval, str(trait["n"]), limit


def _trait(trait: Row) -> str:
    value, interval, n, limit = _trait_cells(trait)
    return f"{value} ({interval}) n={n} {limit}".replace(" ()", "")


def ranking_table(ranking: Row, name: str, level: float) -> Table:
    """One row an agent."""
    table = _table(f"{name} ({ranking['unit']}, higher is better)")
    for column in ("#", "agent", "score", f"{level * 100:g}% interval", "tasks", "missing"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    for row in ranking["agents"]:
        interval = "" if row["low"] is None else f"{row['low']:.3f} … {row['high']:.3f}"
        rank = "-" if row["rank"] is None else str(row["rank"])
        missing = f"{row['asked'] - row['used']}/{row['asked']}"
        cells = (rank, row["agent"], _number(row["score"], "missing"), interval, str(row["n_tasks"]), missing)
        table.add_row(*map(_text, cells))
    return table


def review_markdown(review: Row) -> str:
    """The ranking and the exam report as Markdown, with the signature."""
    lines = ["| # | agent | score | low | high | tasks |", "|---|---|---|---|---|---|"]
    columns = ("rank", "agent", "score", "low", "high", "n_tasks")
    lines += [_line(*(row[column] for column in columns)) for row in review["ranking"]]
    lines += ["", "| reviewer | traits | passed | weight | accuracy |", "|---|---|---|---|---|"]
    for row in review["reviewers"]:
        traits = "; ".join(f"{name} {_trait(trait)}" for name, trait in row["traits"].items())
        passed = "yes" if row["passed"] else "no"
        lines.append(_line(row["name"], traits or "-", passed, row["weight"], row.get("accuracy")))
    return "\n".join([*lines, "", f"`{review['signature']}`", ""])


def _line(*cells: Any) -> str:
    shown = [_number(cell) if cell is None or isinstance(cell, float) else str(cell) for cell in cells]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in shown) + " |"


def _table(title: str) -> Table:
    return Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def _number(value: float | None, absent: str = "-") -> str:
    return absent if value is None else f"{value:.4g}"


def _text(cell: str) -> Text:
    # a name may hold what a terminal takes for a command
    return Text("".join(ch for ch in cell if ch.isprintable()))
