"""Recorded evidence that cannot be used is found by ``study check``, with file and line; bombs end at once."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.errors import StudyError
from goldless.studies import read_study
from tests.support.study_files import study_folder
from tests.torture.sound_folders import tables, write

COLUMNS = ("task", "agent", "text")


@pytest.fixture
def study(tmp_path):
    """A sound study with every kind of evidence, in JSONL."""
    for name, rows in tables().items():
        write(tmp_path / "study" / f"{name}.jsonl", rows)
    return tmp_path / "study"


def rewritten(study, table, change, form="jsonl"):
    """The table with its third row changed."""
    rows = tables()[table]
    change(rows[2])
    (study / f"{table}.jsonl").unlink(missing_ok=True)
    write(study / f"{table}.{form}", rows)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("table", "column"),
    [("verdicts", "task"), ("verdicts", "second"), ("logprobs", "target"), ("judgements", "reviewer")],
)
def test_an_empty_name_is_reported_with_its_file_and_line_and_no_verb_goes_on(goldless, study, table, column, form):
    rewritten(study, table, lambda row: row.update({column: None}), form)
    line = 4 if form == "csv" else 3  # the header is a line
    for verb in (("study", "check"), ("score", "--metric", "tvd-mi", "--recorded")):
        ended = goldless(*verb[:2], study) if verb[0] == "study" else goldless(verb[0], study, *verb[1:])
        assert ended.code == 2
        assert f"{table}.{form}:{line}: {column} must be a name" in ended.err


def test_a_table_of_a_judge_is_checked_too(goldless, study):
    (study / "judge_x.csv").write_text("task,first,second,first_wins\nt0,ann,bob,1\n,ann,bob,1\n")
    assert "judge_x.csv:3: task must be a name" in goldless("study", "check", study).err


@pytest.mark.parametrize(("table", "column"), [("verdicts", "value"), ("logprobs", "sum_logprob_nats")])
@pytest.mark.parametrize("value", ["two", [1], {"a": 1}, True])
def test_a_value_of_another_type_is_found_by_study_check(goldless, study, table, column, value):
    rewritten(study, table, lambda row: row.update({column: value}))
    ended = goldless("study", "check", study)
    assert ended.code == 2
    assert f"{table}.jsonl:3: {column} must be" in ended.err


def test_a_damaged_part_is_reported_by_its_file(goldless, study):
    rows = pl.DataFrame(tables()["verdicts"])
    (study / "verdicts.jsonl").unlink()
    (study / "verdicts").mkdir()
    for number, half in enumerate((rows[:50], rows[50:])):
        half.write_parquet(study / "verdicts" / f"part-{number:05}.parquet", compression="uncompressed")
    assert goldless("study", "check", study).code == 0
    part = study / "verdicts" / "part-00001.parquet"
    data = bytearray(part.read_bytes())
    data[4:60] = b"\xff" * 56  # the first data page, behind the magic bytes
    part.write_bytes(data)
    ended = goldless("study", "check", study)
    assert ended.code == 2
    assert "verdicts/part-00001.parquet: cannot be read" in ended.err


def test_a_million_equal_rows_in_no_space_and_two_hundred_thousand_columns_are_refused(tmp_path):
    bomb = tmp_path / "answers.parquet"
    many = [pl.repeat(value, 1_100_000, eager=True).alias(name) for name, value in zip(COLUMNS, "tax", strict=True)]
    pl.DataFrame(many).write_parquet(bomb)
    with pytest.raises(StudyError, match="1,100,000 rows in a file of"):
        read_study(bomb)
    wide = tmp_path / "answers.csv"
    wide.write_text(",".join(["task", "agent", "text", *(f"c{i}" for i in range(200_000))]) + "\n")
    with pytest.raises(StudyError, match="at most 10,000 columns, got 200,003"):
        read_study(wide)


def test_a_number_of_tokens_that_cannot_be_is_not_known(tmp_path, goldless):
    texts = [{"task": "t", "agent": agent, "text": f"said {agent}"} for agent in ("ann", "bob")]
    asked = [("ann", None), ("bob", None), ("ann", "bob"), ("bob", "ann")]
    rows = [
        {"scorer": "toy", "template": "general", "task": "t", "target": target, "given": given, "tokens": 1.2e21}
        | {"sum_logprob_nats": -3.0 - (given is None)}
        for target, given in asked
    ]
    ended = goldless(
        "score", study_folder(tmp_path, responses=texts, logprobs=rows), "--recorded", "--metric", "gem-raw"
    )
    assert ended.code == 0, ended.err
    assert "1.00" in ended.out
