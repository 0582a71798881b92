"""The tables of agreement with people: judges, correlations, the human ceiling, and who agrees more than whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.report_table import Cell, Column, ReportTable

Data = Mapping[str, Any]
SHOWN = {"spearman": "Spearman", "kendall_tau_b": "tau-b", "kendall_tau_a": "tau-a"}
OVER = {"tasks": "tasks", "responses": "all", "agents": "agents"}
MANY = 20
"""More comparisons than this are shown for the best judge only."""


def judge_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """One row a judge: its accuracy on the pairs that people decided."""
    labels = data["labels"]
    columns = (
        Column("judge", "judge"),
        Column("accuracy", "accuracy", "number"),
        Column("low high", _interval(level), "interval", "", 3),
        Column("used", "pairs", "figure"),
        Column("missing asked", "missing", "fraction"),
        Column("tied", "ties", "figure"),
    )
    title = (
        f"Agreement with people{name}: {labels['decided']} of {labels['pairs']} pairs decided "
        f"({labels['tied']} tied), {labels['raters']} rater{'s' * (labels['raters'] != 1)}"
    )
    rows = tuple({"judge": judge["name"], **judge["accuracy"]} for judge in data["judges"])
    return ReportTable(title, columns, rows, signature)


def correlation_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """One row a judge and what a correlation is over."""
    columns = [Column("judge", "judge"), Column("over", "over")]
    for coefficient, shown in SHOWN.items():
        columns += [
            Column(coefficient, shown, "number", decimals=3),
            Column(f"{coefficient}_low {coefficient}_high", f"{level * 100:g}%", "interval", "", 2, between="…"),
        ]
    rows: list[dict[str, Cell]] = []
    for judge in data["judges"]:
        for i, over in enumerate(OVER):
            row: dict[str, Cell] = {"judge": judge["name"] if i == 0 else "", "over": OVER[over]}
            for one in judge["correlations"]:
                if one["over"] == over:
                    ends = {f"{one['coefficient']}_{end}": one[end] for end in ("low", "high")}
                    row |= {one["coefficient"]: one["value"], **ends}
            rows.append(row)
    title = (
        f"Rank correlations with the raters' medians{name}: mean over tasks, over all responses, over the agents' means"
    )
    return ReportTable(title, tuple(columns), tuple(rows), signature)


def ceiling_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """What people agree with each other on."""
    ceiling = data["ceiling"]
    columns = (
        Column("people", "people"),
        Column("accuracy", "accuracy", "number"),
        Column("accuracy_low accuracy_high", _interval(level), "interval", "", 3),
        Column("pairs", "pairs", "figure"),
        Column("spearman", "Spearman", "number"),
        Column("spearman_low spearman_high", _interval(level), "interval", "", 3),
    )
    if ceiling["alpha"] is None:
        return ReportTable(f"Human ceiling{name}: {ceiling['note']}", columns, (), signature)
    alpha = ceiling["alpha"]
    what = "responses" if ceiling["source"] == "ratings" else "pairs"
    shown = "not defined" if alpha["alpha"] is None else f"{alpha['alpha']:.3f}"
    ends = "" if alpha["low"] is None else f" ({alpha['low']:.3f} … {alpha['high']:.3f})"
    title = (
        f"Human ceiling{name}: Krippendorff's alpha ({alpha['measurement']}) {shown}{ends}, "
        f"{alpha['n_values']} {ceiling['source']} of {alpha['n_units']} {what}"
    )
    rows = [_person("a rater, the rest", ceiling), *(_person(one["rater"], one) for one in ceiling["raters"])]
    return ReportTable(title, columns, tuple(rows), signature)


def comparison_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """One row for each two judges and statistic; where they are many, the most accurate judge against the others."""
    shown, best = data["comparisons"], ""
    if len(shown) > MANY:
        known = [judge for judge in data["judges"] if judge["accuracy"]["accuracy"] is not None]
        first = max(known, key=lambda judge: float(judge["accuracy"]["accuracy"]), default=data["judges"][0])["name"]
        best = f"; {first}, the most accurate, only: all are in the CSV and JSON"
        shown = [one for one in shown if first in {one["first"], one["second"]}]
    columns = (
        Column("statistic", "of"),
        Column("first", "first"),
        Column("second", "second"),
        Column("difference", "diff", "signed"),
        Column("low high", _interval(level), "interval", "", 3, between="…"),
        Column("p", "p", "probability"),
        Column("p_holm", "Holm", "probability"),
        Column("n", "n", "figure"),
    )
    return ReportTable(f"First less second, on what both judged{name}{best}", columns, tuple(shown), signature)


def _person(name: str, found: Data) -> dict[str, Cell]:
    share, spearman = found["accuracy"] or {}, found["spearman"] or {}
    return {
        "people": name,
        "accuracy": share.get("value"),
        "accuracy_low": share.get("low"),
        "accuracy_high": share.get("high"),
        "pairs": share.get("n"),
        "spearman": spearman.get("mean"),
        "spearman_low": spearman.get("low"),
        "spearman_high": spearman.get("high"),
    }


def _interval(level: float) -> str:
    return f"{level * 100:g}% interval"
