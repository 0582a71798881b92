"""Recorded tables in one file or in parts, whole or lazy."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.studies import read_study, write_study

RESPONSES = [{"task": task, "agent": agent, "text": f"{agent} on {task}"} for task in "12" for agent in "34"]
ROWS = pl.DataFrame({"task": [1, 1, 2, 2], "target": [3, 4, 3, 4], "sum_logprob_nats": [-1.0, -2.0, -3.0, -4.0]})
TEXT_ROWS = ROWS.with_columns(pl.col("task", "target").cast(pl.String)).rows()


def in_parts(folder, frame, *cuts, table="logprobs"):
    """Write the rows between the cuts as parts of a table."""
    (folder / table).mkdir()
    for number, (start, stop) in enumerate(zip((0, *cuts), (*cuts, frame.height), strict=True)):
        frame[start:stop].write_parquet(folder / table / f"part-{number:05}.parquet")


@pytest.fixture
def parted(folder):
    path = folder(responses=RESPONSES)
    in_parts(path, ROWS, 1, 3)
    return path


def test_a_table_in_parts_is_one_table_with_its_parts_in_order(parted):
    study = read_study(parted)
    assert study.recorded == ("logprobs",)
    assert study.table("logprobs").rows() == TEXT_ROWS
    assert study.scan("logprobs").collect().rows() == TEXT_ROWS
    assert study.scan("responses").collect().height == 4
    assert study.scan("verdicts") is None


def test_a_study_is_written_with_its_parts_and_overwritten(parted, tmp_path):
    study = read_study(parted)
    write_study(study, tmp_path / "again")
    again = write_study(study, tmp_path / "again", overwrite=True)
    assert len(list((again / "logprobs").iterdir())) == 3
    assert read_study(again).table("logprobs").rows() == TEXT_ROWS


def test_responses_in_parts_are_checked_with_rows_counted_through(folder, problems):
    path = folder(tasks=[{"task": "1"}, {"task": "2"}])
    frame = pl.DataFrame(RESPONSES)
    in_parts(path, frame, 1, 3, table="responses")
    assert read_study(path).table("responses").equals(frame)
    pl.DataFrame([{"task": "2", "agent": "", "text": "x"}]).write_parquet(path / "responses" / "part-00002.parquet")
    assert [(file, line) for file, line, _ in problems(path)] == [("responses", 4)]


def test_a_table_in_a_file_and_in_parts_is_a_problem(parted, problems):
    ROWS.write_parquet(parted / "logprobs.parquet")
    assert [(file, message) for file, _, message in problems(parted)] == [
        ("logprobs.parquet", "table is already in logprobs. Keep one file per table")
    ]


def test_tasks_are_taken_from_parts_where_nothing_else_names_them(tmp_path):
    in_parts(tmp_path, ROWS, 2)
    study = read_study(tmp_path)
    assert study.tasks == ("1", "2")
    assert [agent.agent for agent in study.agents] == ["3", "4"]
