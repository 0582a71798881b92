"""Evidence in parts: a folder of Parquet files with the same columns shows as one file does."""

from __future__ import annotations

import shutil

import polars as pl
import pytest
from viewer_runs import scored_run, written_run

from goldless.apps.studio.evidence import response_page
from goldless.apps.studio.site import Site
from goldless.apps.studio.task_index import kept_index
from goldless.reports.html.page import write_report
from goldless.reports.run_folder import RunFolder

TEXTS = {f"t{i}": {"ann": f"zarn bluk {i}", "bob": f"zarn mipo {i}"} for i in range(6)}


def as_one_file(folder, table: str) -> pl.DataFrame:
    """Put a table into one file, as 0.1.0 wrote it; its rows."""
    frame = pl.read_parquet([*RunFolder(folder).files(table)])
    shutil.rmtree(folder / table, ignore_errors=True)
    frame.write_parquet(folder / f"{table}.parquet", row_group_size=5_000)
    return frame


def in_parts(folder, table: str, rows_a_part: int) -> int:
    """Put a table's rows into parts, two row groups each; how many parts there are."""
    parts = list(as_one_file(folder, table).iter_slices(rows_a_part))
    (folder / f"{table}.parquet").unlink()
    (folder / table).mkdir()
    for number, part in enumerate(parts):
        part.write_parquet(folder / table / f"part-{number:05}.parquet", row_group_size=rows_a_part // 2)
    return len(parts)


@pytest.fixture
def run(tmp_path):
    scored_run(tmp_path / "run", TEXTS, tmp_path / "j.sqlite", metrics="gem-raw")
    return tmp_path / "run"


def test_a_page_is_the_same_whether_evidence_is_one_file_or_parts(run, tmp_path):
    for table in ("logprobs", "responses"):
        as_one_file(run, table)
    library = Site(run, journal=tmp_path / "j.sqlite")
    before = [response_page(library, {}, "run", task, 0) for task in range(6)]
    assert in_parts(run, "logprobs", 4) > 2
    in_parts(run, "responses", 2)
    assert [response_page(library, {}, "run", task, 0) for task in range(6)] == before


def test_failures_are_counted_over_all_parts_by_the_viewer_and_by_the_report(tmp_path):
    failures = [("t1", "ann", "refused"), ("t2", "ann", None), ("t2", "ann", "refused"), ("t2", "bob", "timeout")]
    folder = written_run(tmp_path / "run", [("m", "t1", "ann", 1.0), ("m", "t2", "ann", 2.0)], failures=failures)
    in_parts(folder, "logprobs", 2)
    counted = kept_index(RunFolder(folder)).failures.group_by("kind").agg(pl.col("count").sum()).sort("kind")
    assert counted.rows() == [("refused", 2), ("timeout", 1)]
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Example: refused among log-probabilities" in page
    (folder / "verdicts").mkdir()  # a folder of parts that is empty is a table without rows
    assert len(kept_index(RunFolder(folder)).failures) == 3
