"""Recorded tables in one file or in parts, whole or lazy."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.errors import StudyError
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


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_one_file_gives_the_lazy_frame_that_parts_give(folder, suffix):
    path = folder(responses=RESPONSES)
    write = {"parquet": ROWS.write_parquet, "jsonl": ROWS.write_ndjson, "csv": ROWS.write_csv}[suffix]
    write(path / f"logprobs.{suffix}")
    lazy = read_study(path).scan("logprobs")
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().rows() == TEXT_ROWS


def test_scanning_reads_no_rows(parted):
    """Rows that are damaged are met only when they are collected, and then the table is named."""
    frame = pl.DataFrame({"task": [f"t{i}" for i in range(2000)], "target": ["3"] * 2000})
    frame.write_parquet(parted / "logprobs" / "part-00000.parquet", compression="uncompressed")
    study = read_study(parted)
    data = (parted / "logprobs" / "part-00000.parquet").read_bytes()
    (parted / "logprobs" / "part-00000.parquet").write_bytes(b"PAR1" + b"\xff" * 900 + data[904:])
    lazy = study.scan("logprobs")
    with pytest.raises(StudyError, match="logprobs: cannot be read"), study.reading("logprobs"):
        lazy.collect()
    with pytest.raises(StudyError, match="logprobs: cannot be read"):
        study.table("logprobs")


def test_parts_may_lack_a_column_or_hold_nulls_only(folder):
    path = folder(responses=RESPONSES)
    in_parts(path, ROWS, 4)
    pl.DataFrame({"task": ["2"], "target": ["4"], "given": [3], "sum_logprob_nats": [None]}).write_parquet(
        path / "logprobs" / "part-00001.parquet"
    )
    rows = read_study(path).table("logprobs").rows()
    assert rows == [(*row, None) for row in TEXT_ROWS] + [("2", "4", None, "3")]


def test_a_part_of_a_study_scans_only_what_is_about_it(parted, tmp_path):
    part = read_study(parted).subset(tasks=["2"], agents=["4"])
    assert part.scan("logprobs").collect().rows() == [("2", "4", -4.0)]
    again = read_study(write_study(part, tmp_path / "part"))
    assert again.table("logprobs").rows() == [("2", "4", -4.0)]


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
    pl.DataFrame([{"task": "2", "agent": "4", "text": ""}]).write_parquet(path / "responses" / "part-00002.parquet")
    assert [(file, line) for file, line, _ in problems(path)] == [("responses", 4)]


def test_a_table_in_a_file_and_in_parts_is_a_problem(parted, problems):
    ROWS.write_parquet(parted / "logprobs.parquet")
    assert [(file, message) for file, _, message in problems(parted)] == [
        ("logprobs.parquet", "table is already in logprobs. Keep one file per table")
    ]


def test_parts_without_a_needed_column_are_a_problem(folder, problems):
    path = folder(responses=RESPONSES)
    in_parts(path, ROWS.rename({"target": "traget"}), 2)
    assert "no column 'target'" in problems(path)[0][2]


def test_tasks_are_taken_from_parts_where_nothing_else_names_them(tmp_path):
    in_parts(tmp_path, ROWS, 2)
    study = read_study(tmp_path)
    assert study.tasks == ("1", "2")
    assert [agent.agent for agent in study.agents] == ["3", "4"]
