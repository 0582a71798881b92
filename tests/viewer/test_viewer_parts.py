"""Evidence in parts: a folder of Parquet files with the same columns shows as one file does."""

from __future__ import annotations

import polars as pl
from viewer_runs import written_run

from goldless.apps.studio.task_index import kept_index
from goldless.reports.html.page import write_report
from goldless.reports.run_folder import RunFolder


def in_parts(folder, table: str, rows_a_part: int) -> None:
    """Put a table's rows into parts."""
    parts = pl.read_parquet(folder / f"{table}.parquet").iter_slices(rows_a_part)
    (folder / table).mkdir()
    for number, part in enumerate(parts):
        part.write_parquet(folder / table / f"part-{number:05}.parquet")
    (folder / f"{table}.parquet").unlink()


def test_failures_are_counted_over_all_parts_by_the_viewer_and_by_the_report(tmp_path):
    failures = [("t1", "ann", "refused"), ("t2", "ann", None), ("t2", "ann", "refused"), ("t2", "bob", "timeout")]
    folder = written_run(tmp_path / "run", [("m", "t1", "ann", 1.0), ("m", "t2", "ann", 2.0)], failures=failures)
    in_parts(folder, "logprobs", 2)
    counted = kept_index(RunFolder(folder)).failures.group_by("kind").agg(pl.len()).sort("kind")
    assert counted.rows() == [("refused", 2), ("timeout", 1)]
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Example: refused among log-probabilities" in page
    (folder / "verdicts").mkdir()  # a folder of parts that is empty is a table without rows
    assert len(kept_index(RunFolder(folder)).failures) == 3
