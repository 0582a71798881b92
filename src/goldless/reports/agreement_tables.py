"""The tables of agreement with people: judges, correlations, the human ceiling, and who agrees more than whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goldless.reports.report_table import Cell, Column, ReportTable

if TYPE_CHECKING:
    from goldless.reports.documents.meta_evaluation import CriterionNote, RaterNote

Data = Mapping[str, Any]
"""The results on one criterion, as ``agreement.json`` holds them."""
SHOWN = {"spearman": "Spearman", "kendall_tau_b": "tau-b", "kendall_tau_a": "tau-a"}
OVER = {"tasks": "tasks", "responses": "all", "agents": "agents"}
MANY = 20
"""More comparisons than this are shown for the best judge only."""


def _read(data: Data) -> CriterionNote:
    from goldless.reports.documents.meta_evaluation import CriterionNote  # noqa: PLC0415 - brings pydantic

    return CriterionNote.model_validate(data)


def judge_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """One row a judge: its accuracy on the pairs that people decided."""
    found = _read(data)
    labels = found.labels
    columns = (
        Column("judge", "judge"),
        Column("accuracy", "accuracy", "number"),
        Column("low high", _interval(level), "interval", "", 3),
        Column("used", "pairs", "figure"),
        Column("missing asked", "missing", "fraction"),
        Column("tied", "ties", "figure"),
    )
    title = (
        f"Agreement with people{name}: {labels.decided} of {labels.pairs} pairs decided "
        f"({labels.tied} tied), {labels.raters} rater{'s' * (labels.raters != 1)}"
    )
    rows = tuple(judge.accuracy.cells(judge=judge.name) for judge in found.judges)
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
    for judge in _read(data).judges:
        for i, over in enumerate(OVER):
            row: dict[str, Cell] = {"judge": judge.name if i == 0 else "", "over": OVER[over]}
            for one in judge.correlations:
                if one.over == over:
                    key = one.coefficient
                    row |= {key: one.value, f"{key}_low": one.low, f"{key}_high": one.high}
            rows.append(row)
    title = (
        f"Rank correlations with the raters' medians{name}: mean over tasks, over all responses, over the agents' means"
    )
    return ReportTable(title, tuple(columns), tuple(rows), signature)


def ceiling_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """What people agree with each other on."""
    ceiling = _read(data).ceiling
    columns = (
        Column("people", "people"),
        Column("accuracy", "accuracy", "number"),
        Column("accuracy_low accuracy_high", _interval(level), "interval", "", 3),
        Column("pairs", "pairs", "figure"),
        Column("spearman", "Spearman", "number"),
        Column("spearman_low spearman_high", _interval(level), "interval", "", 3),
    )
    alpha = ceiling.alpha
    if alpha is None:
        return ReportTable(f"Human ceiling{name}: {ceiling.note}", columns, (), signature)
    what = "responses" if ceiling.source == "ratings" else "pairs"
    shown = "not defined" if alpha.alpha is None else f"{alpha.alpha:.3f}"
    ends = "" if alpha.low is None else f" ({alpha.low:.3f} … {alpha.high:.3f})"
    title = (
        f"Human ceiling{name}: Krippendorff's alpha ({alpha.measurement}) {shown}{ends}, "
        f"{alpha.n_values} {ceiling.source} of {alpha.n_units} {what}"
    )
    rows = tuple(_person(one) for one in (ceiling, *ceiling.raters))
    return ReportTable(title, columns, rows, signature)


def comparison_table(data: Data, name: str, *, level: float, signature: str) -> ReportTable:
    """One row for each two judges and statistic; where they are many, the most accurate judge against the others."""
    found, best = _read(data), ""
    shown = found.comparisons
    if len(shown) > MANY:
        first = max(
            found.judges, key=lambda judge: -1.0 if judge.accuracy.accuracy is None else judge.accuracy.accuracy
        )
        best = f"; {first.name}, the most accurate, only: all are in the CSV and JSON"
        shown = tuple(one for one in shown if first.name in {one.first, one.second})
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
    rows = tuple(one.cells() for one in shown)
    return ReportTable(f"First less second, on what both judged{name}{best}", columns, rows, signature)


def _person(found: RaterNote) -> dict[str, Cell]:
    row: dict[str, Cell] = {"people": found.rater}
    for name, part in (("accuracy", found.accuracy), ("spearman", found.spearman)):
        if part is not None:
            row |= {name: part.value, f"{name}_low": part.low, f"{name}_high": part.high}
    return row | {"pairs": None if found.accuracy is None else found.accuracy.n}


def _interval(level: float) -> str:
    return f"{level * 100:g}% interval"
