"""What is written is whole or not there; leftovers of killed processes are removed, those of living ones are not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from goldless.errors import UserError
from goldless.files import aside, cannot_write, sweep, write_table, write_whole
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


def test_an_error_without_a_number_is_told_in_its_own_words():
    assert "cannot write (odd)" in str(cannot_write("run", ValueError("odd")))


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
