"""The first screen: agents by metrics, and the texts behind the numbers."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.controls import comparative, direction
from goldless.reports.html.blocks import (
    Block,
    Matrix,
    ScoreCell,
    Texts,
    note,
    remarks,
    section,
    words,
)
from goldless.reports.html.charts.axis import Scale, scale_over
from goldless.reports.html.charts.row_plots import mini_interval
from goldless.reports.html.evidence import MOST_CHARACTERS, deciding_cards, has_texts
from goldless.reports.html.labels import decimals_for, label, numeral, percent, plural
from goldless.reports.leaderboard import Leaderboard, LeaderboardRow
from goldless.reports.run_folder import RunFolder

PLOT_WIDTHS = {1: 300.0, 2: 170.0, 3: 120.0}
"""By the number of metrics; else the least."""
LEAST_PLOT_WIDTH = 84.0
NAMED = 3


def ranking_blocks(run: RunFolder) -> Iterator[Block]:
    """One table of agents by metrics, sorted by the first metric; None if nothing ranks agents."""
    boards = run.standings
    if not boards:
        return
    agents = list(dict.fromkeys(row.agent for board in boards.values() for row in board.rows))
    by_agent = [{row.agent: row for row in board.rows} for board in boards.values()]
    width = PLOT_WIDTHS.get(len(boards), LEAST_PLOT_WIDTH)
    scales = [scale_over(board.ends, 5, width - 5) for board in boards.values()]
    drawn = list(zip(boards.values(), by_agent, scales, strict=True))
    yield Matrix(
        [
            (
                name,
                f"{board.unit}, {direction(name)}",
                "beats" if (word := comparative(name)) == "better" else f"{word} than",
            )
            for name, board in boards.items()
        ],
        [
            (agent, [_cell(rows[agent], board, scale) if agent in rows else None for board, rows, scale in drawn])
            for agent in agents
        ],
        linked=has_texts(run),
    )
    levels = {board.level for board in boards.values()}
    yield note(
        f"Intervals of {' and '.join(percent(level) for level in sorted(levels))} over tasks. Agents with overlapping "
        "intervals can still differ, because they answered the same tasks: the column on the right says which are "
        "shown to be above which."
    )
    if run.review is not None and len(run.review.boards) == 1 and not run.boards:
        yield from remarks(run.review.notes)


ranking_section = section("ranking", "Ranking")(ranking_blocks)


def _cell(row: LeaderboardRow, board: Leaderboard, scale: Scale) -> ScoreCell:
    decimals = decimals_for(board.ends)
    missing = f"{row.missing:,}" if row.missing else "0"
    if row.score is None:
        return ScoreCell("", row.note or "missing", missing=missing)
    ends = "no interval"
    if row.low is not None and row.high is not None:
        ends = f"{numeral(row.low, decimals)} … {numeral(row.high, decimals)}"
    rank = "" if row.rank is None else str(row.rank)
    plot, score = mini_interval(row.score, row.low, row.high, scale), numeral(row.score, decimals)
    return ScoreCell(rank, score, repr(row.score), ends, plot, _beats(row, board), missing)


def _beats(row: LeaderboardRow, board: Leaderboard) -> str:
    """The agents that this one is shown to be above."""
    if row.better_than is None:
        return "not tested"
    below = [other.agent for other in board.rows if other.score is not None and (other.rank or 0) > (row.rank or 0)]
    if len(below) > 1 and set(below) <= set(row.better_than):
        return f"all {len(below)} below"
    more = f" and {len(row.better_than) - NAMED} more" if len(row.better_than) > NAMED else ""
    return ", ".join(map(label, row.better_than[:NAMED])) + more or "none"


@section("texts", "What they differ about")
def texts_section(run: RunFolder) -> Iterator[Block]:
    """The tasks that decide between the leading two agents, with both texts; None if the folder has no texts."""
    cards = deciding_cards(run)
    if not cards:
        return
    agents = list(dict.fromkeys(row.agent for board in run.standings.values() for row in board.rows))
    tasks = 0 if run.all_scores is None else run.all_scores["task"].n_unique()
    yield words(
        "The tasks on which the two leading agents differ most, either way, with both responses. Choose an agent, or "
        "follow a score in the table above, to see where that agent did best and worst."
    )
    yield Texts(agents, cards)
    yield note(
        f"This file has texts of {plural(len(cards), 'task')} of {tasks:,}, at most {MOST_CHARACTERS:,} characters of "
        "each. All of them are in the viewer: goldless view."
    )
