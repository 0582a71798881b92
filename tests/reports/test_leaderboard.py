"""The leaderboard: order, what is missing, whom an agent beats, and its four formats."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
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


def test_an_agent_beats_those_it_is_better_than_on_common_tasks_after_correction():
    """Of 2^12 sign flips 2 are as far from zero: p = 1/2048, times 3 comparisons is below 5 %."""
    leaderboard = board()
    beaten = {row.agent: row.better_than for row in leaderboard.rows}
    assert beaten == {"high": ("middle", "low"), "middle": ("low",), "low": (), "absent": ()}
    tested = [c for c in leaderboard.comparisons if c.p is not None]
    assert [c.p for c in tested] == [2 / 4096] * 3
    assert [c.p_holm for c in tested] == pytest.approx([6 / 4096] * 3)
    # 2 of 2^6 flips are as far from zero, for all pairs at once: 2/64 is below 5 %, Holm's 6/64 was not
    assert [len(row.better_than) for row in board(VALUES[:6]).rows] == [2, 1, 0, 0]


def test_what_is_significant_only_without_correction_does_not_count():
    """Seeded noise: of 190 comparisons of 20 equal agents some have p below 5 %, corrected none."""
    values = np.random.default_rng(1).normal(size=(30, 20))
    leaderboard = board(values, [str(i) for i in range(20)])
    assert any(c.p < 0.05 for c in leaderboard.comparisons)
    assert all(row.better_than == () for row in leaderboard.rows)


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
