"""The first screen: agents by metrics, and the texts behind the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from markupsafe import Markup

from goldless.reports.controls import comparative, direction
from goldless.reports.html.blocks import (
    Block,
    Rendered,
    note,
    remarks,
    section,
    words,
)
from goldless.reports.html.charts.axis import Scale, scale_over
from goldless.reports.html.charts.row_plots import mini_interval
from goldless.reports.html.evidence import MOST_CHARACTERS, deciding_cards, has_texts
from goldless.reports.html.labels import decimals_for, label, percent, plural
from goldless.reports.leaderboard import Leaderboard, LeaderboardRow
from goldless.reports.run_folder import RunFolder

PLOT_WIDTHS = {1: 300.0, 2: 170.0, 3: 120.0}
"""By the number of metrics; else the least."""
LEAST_PLOT_WIDTH = 84.0
NAMED = 3


def ranking_table(run: RunFolder, *, linked: bool = False) -> Rendered:
    """One table of agents by metrics, sorted by the first metric; ``linked``: with links to texts in the page."""
    boards = run.standings
    width = PLOT_WIDTHS.get(len(boards), LEAST_PLOT_WIDTH)
    metrics = [
        {
            "name": name,
            "what": f"{board.unit}, {direction(name)}",
            "above": {"better": "beats"}.get(word := comparative(name), f"{word} than"),
            "rows": {row.agent: row for row in board.rows},
            "decimals": decimals_for(board.ends),
            "plot": partial(_plot, scale_over(board.ends, 5, width - 5)),
            "beats": partial(_beats, board),
        }
        for name, board in boards.items()
    ]
    return Rendered("ranking.html", {"metrics": metrics, "agents": _agents(run), "linked": linked})


@section("ranking", "Ranking")
def ranking_section(run: RunFolder) -> Iterator[Block]:
    """The table and how to read it; None if nothing ranks agents."""
    if not run.standings:
        return
    yield ranking_table(run, linked=has_texts(run))
    levels = {board.level for board in run.standings.values()}
    yield note(
        f"Intervals of {' and '.join(percent(level) for level in sorted(levels))} over tasks. Agents with overlapping "
        "intervals can still differ, because they answered the same tasks: the column on the right says which are "
        "shown to be above which."
    )
    if run.review is not None and len(run.review.boards) == 1 and not run.boards:
        yield from remarks(run.review.notes)


def _agents(run: RunFolder) -> list[str]:
    return list(dict.fromkeys(row.agent for board in run.standings.values() for row in board.rows))


def _plot(scale: Scale, row: LeaderboardRow) -> Markup:
    return mini_interval(row.score, row.low, row.high, scale)


def _beats(board: Leaderboard, row: LeaderboardRow) -> str:
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
    tasks = 0 if run.all_scores is None else run.all_scores["task"].n_unique()
    yield words(
        "The tasks on which the two leading agents differ most, either way, with both responses. Choose an agent, or "
        "follow a score in the table above, to see where that agent did best and worst."
    )
    yield Rendered("texts.html", {"agents": _agents(run), "cards": cards})
    yield note(
        f"This file has texts of {plural(len(cards), 'task')} of {tasks:,}, at most {MOST_CHARACTERS:,} characters of "
        "each. All of them are in the viewer: goldless view."
    )
