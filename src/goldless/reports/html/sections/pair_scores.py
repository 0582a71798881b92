"""The pair matrix: how much each agent's responses tell about each other agent's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldless.reports.html.blocks import Column, Figure, Name, Section, Table, Term
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import decimals_for, number, numeral

Row = Mapping[str, Any]


def pair_scores_section(run: RunDocuments) -> Section | None:
    """The section; None where no metric scores pairs."""
    boards = {name: board for name, board in run.boards.items() if _values(board)}
    if not boards:
        return None
    blocks = tuple((_table if _apart(board) else _figure)(metric, board) for metric, board in boards.items())
    return Section("pairs", "Scores of pairs", blocks)


def _apart(board: Row) -> bool:
    """Whether agents are held against others than each other, such as references that are not ranked."""
    agents, means = board["matrix"]["agents"], board["matrix"]["means"]
    ranked = {str(row["agent"]) for row in board["rows"]}
    return any(value is not None and str(agents[j]) not in ranked for row in means for j, value in enumerate(row))


def _table(metric: str, board: Row) -> Table:
    """Every agent with every peer it was held against."""
    agents, means = [str(name) for name in board["matrix"]["agents"]], board["matrix"]["means"]
    place = {name: i for i, name in enumerate(agents)}
    rows = [
        {"agent": one, "peer": other, "score": means[place[one]][place[other]]}
        for one in (str(row["agent"]) for row in board["rows"])
        for other in agents
        if one in place and means[place[one]][place[other]] is not None
    ]
    columns = (
        Column("agent", "agent", "name"),
        Column("peer", "peer", "name"),
        Column("score", "mean score", "number"),
    )
    return Table(("Mean score with each ", Term("peer"), " under ", Name(metric)), columns, tuple(rows))


def _values(board: Row) -> list[float]:
    matrix = board.get("matrix") or {}
    return [value for row in matrix.get("means") or () for value in row if value is not None]


def _figure(metric: str, board: Row) -> Figure:
    agents, means = [str(name) for name in board["matrix"]["agents"]], board["matrix"]["means"]
    place = {name: i for i, name in enumerate(agents)}
    order = [str(row["agent"]) for row in board["rows"] if str(row["agent"]) in place]
    values = _values(board)
    least, most = min(values), max(values)
    decimals = decimals_for(values) - (1 if max(abs(least), abs(most)) >= 10 else 0)
    rows = []
    cells: list[list[HeatCell | None]] = []
    for one in order:
        line: list[HeatCell | None] = []
        for other in order:
            value = number({"mean": means[place[one]][place[other]]}, "mean")
            if one == other and value is None:
                line.append(None)
                continue
            rows.append({"agent": one, "peer": other, "score": value})
            line.append(_cell(one, other, value, (least, most), decimals))
        cells.append(line)
    unit = str(board.get("unit") or "score")
    picture = heat_map(
        order,
        cells,
        title=f"{metric}: mean score of each agent (row) with each peer (column)",
        corner="row: agent; column: peer, by the row's number",
        legend=_legend(least, most, decimals, unit),
    )
    caption = (
        f"Mean over tasks ({unit}) of the score of the agent in the row with the ",
        Term("peer"),
        (
            " in the column, in the order of the leaderboard. A row's mean is the agent's score, where every task has "
            "all agents."
        ),
    )
    columns = (
        Column("agent", "agent", "name"),
        Column("peer", "peer", "name"),
        Column("score", "mean score", "number", decimals + 1),
    )
    return Figure(
        "pairs", ("Pairs under ", Name(metric)), caption, (picture,), (Table(("Every pair",), columns, tuple(rows)),)
    )


def _strength(value: float, least: float, most: float) -> float:
    """Where zero lies between the values, by sign; else from the least to the most."""
    if least < 0 < most:
        return value / max(-least, most)
    return (value - least) / (most - least) if most > least else 0.5


def _cell(one: str, other: str, value: float | None, ends: tuple[float, float], decimals: int) -> HeatCell:
    if value is None:
        return HeatCell(0.0, "-", "-", f"{one} with {other}: missing", sure=False)
    text = numeral(value, decimals)
    return HeatCell(_strength(value, *ends), text, "", f"{one} with {other}: {numeral(value, decimals + 1)}")


def _legend(least: float, most: float, decimals: int, unit: str) -> Legend:
    ends = (least, 0.0, most) if least < 0 < most else (least, (least + most) / 2, most)
    steps = [(_strength(value, least, most), numeral(value, decimals)) for value in ends]
    return Legend((*steps[:-1], (steps[-1][0], f"{steps[-1][1]} {unit}")))
