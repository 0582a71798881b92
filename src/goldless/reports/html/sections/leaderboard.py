"""The leaderboard of each metric: agents in order, with intervals, what is missing, and how far wordings matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goldless.reports.html.blocks import Block, Column, Figure, Inline, Name, Section, Table, Term, note, words
from goldless.reports.html.charts.intervals import IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.counted import counts_pairs
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.interval_words import interval_source
from goldless.reports.html.numerals import count, decimals_for, number, numeral, percent, plural

Row = Mapping[str, Any]


def leaderboard_section(run: RunDocuments) -> Section | None:
    """The section; None where no metric ranks agents."""
    boards = run.boards
    if not boards:
        return None
    blocks: list[Block] = []
    for metric, board in boards.items():
        blocks += [_figure(metric, board), *_wordings(board), *_groups(board)]
    return Section("leaderboard", "Leaderboard", tuple(blocks))


def board_decimals(board: Row) -> int:
    """How many decimals the scores of a metric are shown with."""
    return decimals_for(number(row, key) for row in board["rows"] for key in ("score", "low", "high"))


def _figure(metric: str, board: Row) -> Figure:
    rows: Sequence[Row] = board["rows"]
    decimals, level, unit = board_decimals(board), float(board.get("level", 0.95)), str(board.get("unit") or "score")
    drawn = [
        IntervalRow(
            str(row["agent"]),
            number(row, "score"),
            number(row, "low"),
            number(row, "high"),
            aside="" if number(row, "score") is None else numeral(number(row, "score"), decimals),
            hint=_hint(row, decimals),
        )
        for row in rows
    ]
    title = f"{metric}: score of each agent in {unit} with its {percent(level)} interval"
    return Figure(
        "leaderboard",
        ("Scores under ", Name(metric)),
        (
            f"Mean score over tasks ({unit}, higher is better). ",
            *_intervals(rows, level),
        ),
        pictures(interval_plot, drawn, title=title, axis=f"{unit}, higher is better"),
        (_table(metric, board, decimals),),
        unfolded=True,
    )


def _intervals(rows: Sequence[Row], level: float) -> tuple[Inline, ...]:
    tasks = [count(row, "n") for row in rows if number(row, "low") is not None]
    if not tasks:
        return ("No agent has an ", Term("interval"), ".")
    rest = "Intervals that overlap may still differ: the table of comparisons says which do."
    return ("Lines are ", Term("interval", f"{percent(level)} intervals"), f" {interval_source(tasks)}. {rest}")


def _hint(row: Row, decimals: int) -> str:
    if number(row, "score") is None:
        return f"{row['agent']}: missing; {row.get('note') or ''}"
    low, high = (numeral(number(row, key), decimals, absent="none") for key in ("low", "high"))
    return f"{row['agent']}: {numeral(number(row, 'score'), decimals)} ({low} to {high}), {row.get('n')} tasks"


def _table(metric: str, board: Row, decimals: int) -> Table:
    level = percent(float(board.get("level", 0.95)))
    rows = [{**row, "beats": len(row.get("better_than") or ())} for row in board["rows"]]
    spread = any(row.get("between_prompts") is not None for row in rows)
    grouped = any(row.get("group") for row in rows)
    columns = (
        Column("rank", "#", "count", absent="-"),
        Column("agent", "agent", "name"),
        *([Column("group", "group", "name", absent="-")] if grouped else []),
        Column("score", "score", "number", decimals),
        Column("low", f"{level} low", "number", decimals, absent="none"),
        Column("high", "high", "number", decimals, absent="none"),
        *([Column("between_prompts", "± wordings", "number", decimals, absent="-")] if spread else []),
        Column("n", "tasks", "count"),
        Column("asked", "asked", "count"),
        Column("used", "used", "count"),
        Column("missing", "missing", "count"),
        Column("beats", "better than", "count"),
    )
    counted = "pairs of responses" if counts_pairs(board) else "responses"
    caption = (Name(metric), f": asked, used and missing count {counted}; better than counts agents")
    return Table(caption, columns, tuple(rows))


def _wordings(board: Row) -> Iterator[Block]:
    by_wording: Mapping[str, Mapping[str, Any]] = board.get("by_wording") or {}
    if not by_wording:
        return
    names = list(by_wording)
    rows = [
        {"agent": row["agent"], **{f"w{place}": by_wording[name].get(row["agent"]) for place, name in enumerate(names)}}
        for row in board["rows"]
    ]
    decimals = board_decimals(board)
    columns = [Column(f"w{place}", name, "number", decimals) for place, name in enumerate(names)]
    yield Table(("Score under each wording alone",), (Column("agent", "agent", "name"), *columns), tuple(rows))
    yield note("± wordings is the standard deviation of a score between wordings: how much the prompt matters.")


def _groups(board: Row) -> Iterator[Block]:
    if "d_response" not in board:
        return
    decimals = board_decimals(board)
    low, high = (numeral(number(board, key), decimals, absent="none") for key in ("low", "high"))
    yield words(
        f"Groups, {board.get('groups') or 'the first against the second'}: the means differ by ",
        f"{numeral(number(board, 'difference'), decimals, signed=True)} ({low} to {high}) on "
        f"{plural(int(board.get('n_tasks') or 0), 'task')}. ",
        "A response of the first scores above one of the second with probability ",
        f"{numeral(number(board, 'auc'))}; standardised difference {numeral(number(board, 'd_response'), 2)}.",
    )
