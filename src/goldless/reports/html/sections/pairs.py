"""Agents two by two: who is better than whom, and how much each one's responses tell about the others'."""

from __future__ import annotations

from goldless.reports.documents.scores import AgentComparison, RankedMetric
from goldless.reports.html.blocks import Figure, Name, Section, Table, Term, number, signed
from goldless.reports.html.charts.heat_map import HeatCell, Legend, heat_map, strength
from goldless.reports.html.labels import decimals_for, numeral
from goldless.reports.html.run_results import RunResults
from goldless.reports.report_table import Column
from goldless.statistics.standings import SIGNIFICANT


def comparisons_section(run: RunResults) -> Section | None:
    """Paired differences over common tasks, corrected for many comparisons; None where nothing was compared."""
    figures = tuple(_differences(metric, board) for metric, board in run.boards.items() if board.comparisons)
    return Section("comparisons", "Who is better than whom", figures) if figures else None


def _differences(metric: str, board: RankedMetric) -> Figure:
    names = [row.agent for row in board.rows]
    by_pair: dict[tuple[str, str], tuple[AgentComparison, float]] = {}
    for row in board.comparisons:
        by_pair[row.first, row.second] = (row, 1.0)
        by_pair[row.second, row.first] = (row, -1.0)
    largest = max((abs(row.difference or 0.0) for row in board.comparisons), default=0.0) or 1.0
    decimals = min(2, decimals_for([largest])) if largest >= 2 else decimals_for([largest]) - 1
    cells = [[_difference(by_pair.get((one, other)), largest, decimals) for other in names] for one in names]
    columns = (
        Column("first", "first", "name"),
        Column("second", "second", "name"),
        signed("difference", "difference", decimals + 1),
        Column("p", "p", "probability"),
        Column("p_holm", "p (Holm)", "probability"),
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
    rows = tuple(row.cells(decided=_decided(row)) for row in board.comparisons)
    table = Table(("Every comparison",), columns, rows)
    return Figure("comparisons", ("Differences under ", Name(metric)), caption, (picture,), (table,))


def _decided(row: AgentComparison) -> str:
    if row.difference is None:
        return "no common task"
    if row.p_holm is None:
        return "one common task" if row.n == 1 else "no test"
    if row.p_holm >= SIGNIFICANT:
        return "no"
    return "first is better" if row.difference > 0 else "second is better"


def _difference(found: tuple[AgentComparison, float] | None, largest: float, decimals: int) -> HeatCell | None:
    if found is None:
        return None
    row, sign = found
    if row.difference is None:
        return HeatCell(0.0, "-", "-", "no common task", sure=False)
    value = sign * row.difference
    sure = row.p_holm is not None and row.p_holm < SIGNIFICANT
    first, second = (row.first, row.second) if sign > 0 else (row.second, row.first)
    said = "decided" if sure else _decided(row) if row.p_holm is None else "not decided"
    told = f"{numeral(value, decimals + 1, signed=True)}, p (Holm) {numeral(row.p_holm, absent='none')}"
    mark = ("▲" if value > 0 else "▼") if sure else "·"
    text = numeral(value, decimals, signed=True)
    hint = f"{first} less {second}: {told}: {said}"
    return HeatCell(strength(value, largest) if sure else 0.0, text, mark, hint, sure=sure)


# --- scores of pairs -------------------------------------------------------------------------------------------------


def pair_scores_section(run: RunResults) -> Section | None:
    """The pair matrix of each metric; None where no metric scores pairs."""
    blocks = tuple(
        (_pair_table if _apart(board) else _pair_figure)(metric, board)
        for metric, board in run.boards.items()
        if board.matrix.values
    )
    return Section("pairs", "Scores of pairs", blocks) if blocks else None


def _apart(board: RankedMetric) -> bool:
    """Whether agents are held against others than each other, such as references that are not ranked."""
    ranked = {row.agent for row in board.rows}
    agents = board.matrix.agents
    return any(v is not None and agents[j] not in ranked for line in board.matrix.means for j, v in enumerate(line))


def _pairs(board: RankedMetric, peers: list[str] | None = None) -> list[list[tuple[str, str, float | None]]]:
    """Agent, peer and mean score: a line for each agent in the order of the leaderboard."""
    place = {name: i for i, name in enumerate(board.matrix.agents)}
    order = [row.agent for row in board.rows if row.agent in place]
    means = board.matrix.means
    return [
        [(one, other, means[place[one]][place[other]]) for other in (order if peers is None else peers)]
        for one in order
    ]


def _pair_columns(decimals: int) -> tuple[Column, ...]:
    return (
        Column("agent", "agent", "name"),
        Column("peer", "peer", "name"),
        number("score", "mean score", decimals),
    )


def _pair_table(metric: str, board: RankedMetric) -> Table:
    """Every agent with every peer it was held against."""
    rows = tuple(
        {"agent": one, "peer": other, "score": mean}
        for line in _pairs(board, list(board.matrix.agents))
        for one, other, mean in line
        if mean is not None
    )
    return Table(("Mean score with each ", Term("peer"), " under ", Name(metric)), _pair_columns(3), rows)


def _pair_figure(metric: str, board: RankedMetric) -> Figure:
    values = board.matrix.values
    least, most = min(values), max(values)
    decimals = decimals_for(values) - (1 if max(abs(least), abs(most)) >= 10 else 0)
    pairs = _pairs(board)
    cells = [
        [
            None if one == other and mean is None else _pair_cell(one, other, mean, (least, most), decimals)
            for one, other, mean in line
        ]
        for line in pairs
    ]
    rows = tuple(
        {"agent": one, "peer": other, "score": mean}
        for line in pairs
        for one, other, mean in line
        if one != other or mean is not None
    )
    picture = heat_map(
        [line[0][0] for line in pairs],
        cells,
        title=f"{metric}: mean score of each agent (row) with each peer (column)",
        corner="row: agent; column: peer, by the row's number",
        legend=_legend(least, most, decimals, board.unit),
    )
    caption = (
        f"Mean over tasks ({board.unit}) of the score of the agent in the row with the ",
        Term("peer"),
        (
            " in the column, in the order of the leaderboard. A row's mean is the agent's score, where every task has "
            "all agents."
        ),
    )
    table = Table(("Every pair",), _pair_columns(decimals + 1), rows)
    return Figure("pairs", ("Pairs under ", Name(metric)), caption, (picture,), (table,))


def _share(value: float, least: float, most: float) -> float:
    """Where zero lies between the values, by sign; else from the least to the most."""
    if least < 0 < most:
        return value / max(-least, most)
    return (value - least) / (most - least) if most > least else 0.5


def _pair_cell(one: str, other: str, value: float | None, ends: tuple[float, float], decimals: int) -> HeatCell:
    if value is None:
        return HeatCell(0.0, "-", "-", f"{one} with {other}: missing", sure=False)
    text = numeral(value, decimals)
    return HeatCell(_share(value, *ends), text, "", f"{one} with {other}: {numeral(value, decimals + 1)}")


def _legend(least: float, most: float, decimals: int, unit: str) -> Legend:
    ends = (least, 0.0, most) if least < 0 < most else (least, (least + most) / 2, most)
    steps = [(_share(value, least, most), numeral(value, decimals)) for value in ends]
    return Legend((*steps[:-1], (steps[-1][0], f"{steps[-1][1]} {unit}")))
