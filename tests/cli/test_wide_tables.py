"""Tables in terminals of any width: no name and no number is cut off or broken inside a word."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from goldless.cli.console import out
from goldless.cli.output import print_whole
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.report_table import Column, ReportTable
from goldless.statistics.standings import standings

AGENTS = ["vicuna-7b", "RWKV-4-Raven-7B-v11", "baichuan2-13b", "fastchat-t5-3b", "chatgpt", "null"]
"""Agents of recorded XSum, whose names a narrow table used to break."""


def printed(table, capsys, monkeypatch, width: int) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    out.cache_clear()
    print_whole(table)
    out.cache_clear()
    return capsys.readouterr().out


def leaderboard():
    # every agent is 100 above the next in all of 12 tasks: each beats all below it
    values = np.arange(12.0)[:, None] % 5 - 100.0 * np.arange(6)[None, :]
    found = standings(values, AGENTS, resamples=200, level=0.95)
    rows = tuple(replace(row, asked=35, used=35) for row in found.rows)
    return Leaderboard("bartscore", "nats", 0.95, rows, found.comparisons, {"metric": "s"})


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_leaderboard_keeps_every_name_and_every_beaten_rank_at_any_width(capsys, monkeypatch, width):
    text = printed(leaderboard(), capsys, monkeypatch, width)
    assert all(len(line) <= width for line in text.splitlines())
    for place, agent in enumerate(AGENTS, 1):
        lines = [line for line in text.splitlines() if f" {agent} " in line]
        assert lines, f"{agent} is broken at {width} columns"
        beaten = {1: "2-6", 2: "3-6"}.get(place) or " ".join(str(rank) for rank in range(place + 1, 7)) or "-"
        assert any(line.rstrip().endswith(f" {beaten}") for line in lines)
        assert any(re.search(r"0/35", line) for line in lines)
    assert ("●" in text) == (width == 120)


def test_a_table_wider_than_the_terminal_continues_below_with_its_names(capsys, monkeypatch):
    columns = (Column("agent", "agent"), *(Column(f"m{i}", f"a-long-heading-{i}", "number") for i in range(8)))
    row = {"agent": "ann", **{f"m{i}": float(i) for i in range(8)}}
    text = printed(ReportTable("wide", columns, (row,)), capsys, monkeypatch, 80)
    lines = [line.split() for line in text.splitlines() if line.lstrip().startswith("ann")]
    assert [cell for line in lines for cell in line[1:]] == [f"{i}.0000" for i in range(8)]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_name_wider_than_the_terminal_is_not_cut(capsys, monkeypatch):
    name = "x" * 100
    table = ReportTable("long", (Column("agent", "agent"), Column("score", "score", "number")), ({"agent": name},))
    assert name in printed(table, capsys, monkeypatch, 60)
