"""Who is better than whom: paired differences over common tasks, corrected for many comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.html.blocks import Column, Figure, Name, Section, Table, Term
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import decimals_for, number, numeral
from goldless.statistics.standings import SIGNIFICANT

Row = Mapping[str, Any]


def comparisons_section(run: RunDocuments) -> Section | None:
    """The section; None where nothing was compared."""
    boards = {name: board for name, board in run.boards.items() if board.get("comparisons")}
    if not boards:
        return None
    figures = tuple(_figure(metric, board) for metric, board in boards.items())
    return Section("comparisons", "Who is better than whom", figures)


def _figure(metric: str, board: Row) -> Figure:
    names = [str(row["agent"]) for row in board["rows"]]
    rows = [{**row, "decided": _decided(row)} for row in board["comparisons"]]
    by_pair: dict[tuple[str, str], tuple[Row, float]] = {}
    for row in rows:
        by_pair[row["first"], row["second"]] = (row, 1.0)
        by_pair[row["second"], row["first"]] = (row, -1.0)
    largest = max((abs(number(row, "difference") or 0.0) for row in rows), default=0.0) or 1.0
    decimals = min(2, decimals_for([largest])) if largest >= 2 else decimals_for([largest]) - 1
    cells = [[_cell(by_pair.get((one, other)), largest, decimals) for other in names] for one in names]
    columns = (
        Column("first", "first", "name"),
        Column("second", "second", "name"),
        Column("difference", "difference", "signed", decimals + 1),
        Column("p", "p", "p"),
        Column("p_holm", "p (Holm)", "p"),
        Column("n", "tasks", "count"),
        Column("decided", "decided"),
    )
    picture = heat_map(
        names,
        cells,
        title=f"{metric}: differences between agents, row less column",
        corner="row less column; columns by the row's number",
        legend=Legend(((0.8, "row is better ▲"), (-0.8, "row is worse ▼"), (0.0, "not decided ·"))),
    )
    caption = (
        "Mean difference over the tasks both agents have. Coloured and bold: decided at ",
        f"{SIGNIFICANT:g}, ",
        Term("holm", "corrected for all comparisons (Holm)"),
        ". Grey: the data do not tell which of the two is better.",
    )
    table = Table(("Every comparison",), columns, tuple(rows))
    return Figure("comparisons", ("Differences under ", Name(metric)), caption, (picture,), (table,))


def _decided(row: Row) -> str:
    p, difference = number(row, "p_holm"), number(row, "difference")
    if difference is None:
        return "no common task"
    if p is None:
        return "one common task" if number(row, "n") == 1 else "no test"
    if p >= SIGNIFICANT:
        return "no"
    return "first is better" if difference > 0 else "second is better"


def _cell(found: tuple[Row, float] | None, largest: float, decimals: int) -> HeatCell | None:
    if found is None:
        return None
    row, sign = found
    difference, p = number(row, "difference"), number(row, "p_holm")
    if difference is None:
        return HeatCell(0.0, "-", "-", "no common task", sure=False)
    value = sign * difference
    sure = p is not None and p < SIGNIFICANT
    first, second = (row["first"], row["second"]) if sign > 0 else (row["second"], row["first"])
    said = "decided" if sure else _decided(row) if p is None else "not decided"
    told = f"{numeral(value, decimals + 1, signed=True)}, p (Holm) {numeral(p, absent='none')}"
    hint = f"{first} less {second}: {told}: {said}"
    strength = (0.3 + 0.7 * abs(value) / largest) * (1 if value > 0 else -1) if sure else 0.0
    mark = ("▲" if value > 0 else "▼") if sure else "·"
    return HeatCell(strength, numeral(value, decimals, signed=True), mark, hint, sure=sure)
