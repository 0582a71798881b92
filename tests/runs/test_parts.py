"""Tables in parts: nothing of a run before is left."""

from __future__ import annotations

import polars as pl
import pytest

from goldless import files as module
from goldless.errors import UserError
from goldless.files import write_table


def batch(number: int, rows: int = 3) -> pl.DataFrame:
    return pl.DataFrame({"task": [f"t{number}"] * rows, "value": [number + row / 10 for row in range(rows)]})


def contents(folder):
    """All files of a folder by their names in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of at least seven rows, so that a few batches fill several."""
    monkeypatch.setattr(module, "ROWS_PER_PART", 7)


@pytest.mark.parametrize("table", [None, batch(0, rows=0), batch(0, rows=0).lazy()], ids=["none", "frame", "lazy"])
def test_a_table_without_rows_leaves_no_folder(tmp_path, table):
    write_table(table, tmp_path, "verdicts")
    assert list(tmp_path.iterdir()) == []
    write_table(batch(0), tmp_path, "verdicts")
    write_table(table, tmp_path, "verdicts")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_parts")
def test_a_run_with_fewer_rows_leaves_no_part_of_the_one_before(tmp_path):
    write_table(pl.concat(batch(place) for place in range(9)), tmp_path, "logprobs")
    assert len(list((tmp_path / "logprobs").iterdir())) > 1
    write_table(batch(0), tmp_path, "logprobs")
    assert [file.name for file in (tmp_path / "logprobs").iterdir()] == ["part-00000.parquet"]
    assert pl.read_parquet(tmp_path / "logprobs").equals(batch(0))
    assert [file.name for file in tmp_path.iterdir()] == ["logprobs"]


def test_nothing_half_written_stays_where_a_part_cannot_be_written(tmp_path, monkeypatch):
    write_table(batch(0), tmp_path, "verdicts")
    before = contents(tmp_path)

    def torn(self, path, *_, **__):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", torn)
    with pytest.raises(UserError, match=r"cannot write \(disk full"):
        write_table(batch(1), tmp_path, "verdicts")
    assert contents(tmp_path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["verdicts"]
