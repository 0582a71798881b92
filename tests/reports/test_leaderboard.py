"""The leaderboard: order, what is missing, whom an agent beats, and its four formats."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
from rich.console import Console

from goldless.reports.leaderboard import Leaderboard
from goldless.statistics.standings import standings

NAN = np.nan
AGENTS = ["low", "absent", "high", "middle"]
# high is 10 above middle in every task, middle 10 above low; nothing of absent was scored
BASE = np.array([3.0, -1.0, 4.0, 1.5, -9.0, 2.0, 6.0, 5.0, 3.5, -8.0, 9.0, 7.0])
VALUES = np.stack([BASE - 10, np.full(12, NAN), BASE + 10, BASE], axis=1)


def board(values=VALUES, agents=AGENTS, used=24):
    found = standings(values, agents, resamples=500)
    rows = tuple(replace(row, asked=24, used=used if row.agent != "absent" else 0) for row in found.rows)
    return Leaderboard("gem-raw", "nats", 0.95, rows, found.comparisons, "gem-raw|seed:0")


def rendered(leaderboard, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(*leaderboard.to_rich(width))
    return out.getvalue()


def test_csv_reads_back_with_the_signature_on_every_row_and_nothing_for_what_is_missing():
    agents = ["a, with comma", 'b "quoted"', "c\nlines", "d|bar"]
    leaderboard = board(VALUES[:, [2, 3, 0, 1]], agents, used=20)
    rows = list(csv.DictReader(io.StringIO(leaderboard.to_csv())))
    assert [row["agent"] for row in rows] == [row.agent for row in leaderboard.rows]
    for name, part in (("score", "value"), ("low", "low")):
        found = [getattr(row.estimate, part) or "" for row in leaderboard.rows]
        assert [row[name] and float(row[name]) for row in rows] == found
    assert {(row["missing"], row["metric"], row["signature"]) for row in rows} == {("4", "gem-raw", "gem-raw|seed:0")}
    assert (rows[3]["rank"], rows[3]["note"]) == ("", "no task was scored")


def cells(line: str) -> list[str]:
    """The cells of a Markdown row: bars after a backslash are text."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_is_one_table_with_as_many_cells_in_every_row_and_the_signature_below():
    agents = ["a|b", "c\nd", "<script>x</script>", "e&f"]
    text = board(VALUES[:, [2, 3, 0, 0]], agents).to_markdown()
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4
    assert {len(cells(line)) for line in table} == {7}
    assert {cells(line)[1] for line in table[2:]} == {r"a\|b", "c d", "&lt;script&gt;x&lt;/script&gt;", "e&amp;f"}
    assert lines[-1] == "`gem-raw|seed:0`"


def test_a_board_on_which_nothing_was_scored_can_be_shown():
    empty = board(np.full((3, 2), NAN), ["a", "b"])
    assert [row.rank for row in empty.rows] == [None, None]
    assert "missing" in rendered(empty)
    assert empty.to_csv().count("\n") == 3
