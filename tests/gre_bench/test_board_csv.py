"""CSV files of scores: everything wrong is told at once, with its line."""

from __future__ import annotations

from functools import partial

import pytest

from goldless.errors import StudyError
from goldless.gre_bench.boards import read_rows

read_benchmarks = partial(read_rows, about=("agent",), what="benchmark")


def problems(tmp_path, text, read=read_rows):
    file = tmp_path / "scores.csv"
    file.write_text(text)
    with pytest.raises(StudyError) as error:
        read(file)
    return [str(problem) for problem in error.value.problems]


def test_all_bad_cells_are_told_at_once(tmp_path):
    header = "agent,gem,parameters,size_estimated,cutoff_date\n"
    text = header + "a,high,0,maybe,soon\n,1,,,\na,inf,1e9,no,2023\na,1,1e9,no,2023\n"
    assert problems(tmp_path, text) == [
        "scores.csv:2: gem must be a finite number, got str 'high'",
        "scores.csv:2: cutoff_date must be a date such as 2023-09-30, 2023-09 or 2023, got 'soon'",
        "scores.csv:2: parameters must be a positive number such as 7e9, got 0",
        "scores.csv:2: size_estimated must be yes or no, got 'maybe'",
        "scores.csv:3: agent must be a name, got an empty cell",
        "scores.csv:4: gem must be a finite number, got str 'inf'",
        "scores.csv:4: agent 'a' is listed twice; first on line 2",
        "scores.csv:5: agent 'a' is listed twice; first on line 2",
    ]


def test_a_table_without_agents_or_without_metrics_says_what_is_lacking(tmp_path):
    assert "no column 'agent'; the columns are 'model', 'gem'" in problems(tmp_path, "model,gem\na,1\n")[0]
    assert "no metric among the columns" in problems(tmp_path, "agent,family\na,f\n")[0]
    assert "no benchmark among the columns" in problems(tmp_path, "agent\na\n", read_benchmarks)[0]
    assert "no rows" in problems(tmp_path, "agent,gem\n")[0]
    assert "has no name" in problems(tmp_path, "agent,gem,\na,1,2\n")[0]


def test_of_benchmarks_every_column_but_the_agent_is_one(tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text("agent,parameters,MMLU\na,3, \n")
    (row,) = read_benchmarks(file)
    assert row.scores == {"parameters": 3.0, "MMLU": None}
