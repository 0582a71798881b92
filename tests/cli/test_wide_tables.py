"""Tables that are wider than the terminal."""

from __future__ import annotations

from goldless.cli.output import print_whole
from goldless.reports.report_table import Column, ReportTable


def test_a_table_wider_than_the_terminal_keeps_all_its_columns(capsys, monkeypatch):
    columns = (Column("agent", "agent", least=8), *(Column(f"m{i}", f"a-long-heading-{i}", "number") for i in range(8)))
    row = {"agent": "ann", **{f"m{i}": float(i) for i in range(8)}}
    print_whole(ReportTable("wide", columns, (row,)).to_rich())
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "7.0000" in line]
    assert line.split() == ["ann", *(f"{i}.0000" for i in range(8))]
    assert len(line) > 80
