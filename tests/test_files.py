"""What is written is whole or not there; leftovers of killed processes are removed, those of living ones are not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from goldless import files as module
from goldless.errors import UserError
from goldless.files import aside, sweep, write_table, write_whole
from goldless.processes import is_running, machine, this_process
from goldless.runs.store import try_writing

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.fixture(scope="module")
def ended() -> str:
    """The name of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not is_running(process.pid)
    return f"{machine()}-{process.pid}"


def test_leftovers_of_ended_processes_are_removed_from_a_folder_when_a_run_begins_there(tmp_path, ended):
    (tmp_path / f".tasks.{ended}.parquet").touch()
    parts = tmp_path / f".judgements.{ended}"
    parts.mkdir()
    (parts / "part-00000.parquet").touch()
    kept = {f".review.{this_process()}.json", ".review.00000000-1.json", ".hidden", "review.json"}
    for name in kept:
        (tmp_path / name).touch()
    try_writing(tmp_path, "")
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_what_another_machine_left_is_removed_after_a_day(tmp_path):
    old = tmp_path / ".review.00000000-1.json"
    old.touch()
    os.utime(old, (0, 0))
    sweep(tmp_path)
    assert not old.exists()


def test_what_is_written_aside_is_known_as_a_leftover(tmp_path):
    fresh = aside(tmp_path / "tasks.parquet")
    fresh.touch()
    os.utime(fresh, (0, 0))
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_dev_full
def test_a_full_disk_is_one_message_with_the_folder_whoever_writes(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    table = pl.DataFrame({"task": ["t"] * 10_000})
    for write in (
        lambda _: table.write_parquet("/dev/full"),
        lambda _: table.write_csv("/dev/full"),
        lambda _: Path("/dev/full").write_text("words"),
    ):
        with pytest.raises(UserError, match=r"run: cannot write \(No space left on device\)\. Make room, then run the"):
            write_whole(folder / "table", write)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_user_error(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(UserError, match=r"cannot write \((Not a directory|File exists)\)"):
        write_table(pl.DataFrame({"task": ["t"]}), tmp_path / "run", "verdicts")


def test_processes_that_replace_one_table_at_the_same_time_all_end_well(tmp_path):
    """Each moves away what another has just put there; one of them, whole, stays."""
    code = """
        import sys, polars as pl
        from pathlib import Path
        from goldless.files import write_table
        sys.stdin.readline()
        for _ in range(200):
            write_table(pl.DataFrame({"task": ["t"] * 10}), Path(sys.argv[1]), "verdicts")
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        process.stdin.write("\n")
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["verdicts"]
    assert len(pl.read_parquet(tmp_path / "verdicts")) == 10


# --- tables in parts -------------------------------------------------------------------------------------------------


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
