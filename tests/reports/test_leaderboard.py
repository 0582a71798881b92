"""The leaderboard in CSV and Markdown, whatever its agents are called, and one on which nothing was scored."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
from rich.console import Console

from goldless.reports.leaderboard import Leaderboard
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.standings import standings

NAN = np.full(12, np.nan)
BASE = np.array([3.0, -1.0, 4.0, 1.5, -9.0, 2.0, 6.0, 5.0, 3.5, -8.0, 9.0, 7.0])


def board(**agents):
    """Agents with their scores on twelve tasks."""
    found = standings(np.stack([*agents.values()], axis=1), [*agents], resamples=500)
    return Leaderboard("gem-raw", "nats", 0.95, found.rows, found.comparisons, {"metric": "gem-raw", "seed": "0"})


def test_csv_reads_back_with_the_signature_on_every_row_and_nothing_for_what_is_missing():
    made = board(**{"a, with comma": BASE + 10, 'b "quoted"': BASE, "c\nlines": BASE - 10, "d|bar": NAN})
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert [row["agent"] for row in rows] == [row.agent for row in made.rows]
    for name, part in (("score", "value"), ("low", "low")):
        found = [getattr(row.estimate, part) or "" for row in made.rows]
        assert [row[name] and float(row[name]) for row in rows] == found
    assert {(row["metric"], row["signature"]) for row in rows} == {("gem-raw", "gem-raw|seed:0")}
    assert (rows[3]["rank"], rows[3]["note"]) == ("", "no task was scored")


def cells(line: str) -> list[str]:
    """The cells of a Markdown row: bars after a backslash are text."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_is_one_table_with_as_many_cells_in_every_row_and_the_signature_below():
    made = board(**{"a|b": BASE + 10, "c\nd": BASE, "<script>x</script>": BASE - 10, "e&f": BASE - 10})
    lines = made.to_markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4
    assert {len(cells(line)) for line in table} == {7}
    assert {cells(line)[1] for line in table[2:]} == {r"a\|b", "c d", "&lt;script&gt;x&lt;/script&gt;", "e&amp;f"}
    assert lines[-1] == "`gem-raw|seed:0`"


def test_scores_too_far_apart_to_draw_can_be_shown():
    made = board(a=BASE + 1, b=BASE)
    ends = Estimate(1e308, -1e308, 1e308, n=3)
    huge = replace(made, rows=tuple(replace(row, estimate=ends) for row in made.rows))
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(*huge.to_rich(80))
    assert "1000000000" in out.getvalue()


def test_a_board_on_which_nothing_was_scored_can_be_shown():
    empty = board(a=NAN, b=NAN)
    assert [row.rank for row in empty.rows] == [None, None]
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(*empty.to_rich(80))
    assert "missing" in out.getvalue()
    assert empty.to_csv().count("\n") == 3
