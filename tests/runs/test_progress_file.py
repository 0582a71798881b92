"""What is in the file that says how far a run is."""

from __future__ import annotations

import json
import threading

from goldless.reports.document import read_document
from goldless.reports.run_record import AgentSoFar, BoardSoFar, RunProgress
from goldless.runs.progress import PROGRESS_FILE, Progress, ProgressFile


def test_a_stage_is_recorded_when_it_begins_however_soon_after_the_one_before(tmp_path):
    with ProgressFile(tmp_path, "score", lambda _: None) as tell:
        for stage in ("scoring", "judging"):
            tell(Progress(stage, 0, 24, 0, None))
            found = json.loads((tmp_path / PROGRESS_FILE).read_text())
            assert (found["stage"], found["done"], found["total"]) == (stage, 0, 24)


def test_a_run_that_ends_in_two_threads_at_once_has_its_record(tmp_path):
    for _ in range(200):  # a second signal ends the process from another thread while the first one is obeyed
        progress = ProgressFile(tmp_path, "score", lambda _: None)
        ending = threading.Thread(target=progress.interrupt)
        progress.__enter__()
        ending.start()
        progress.__exit__(KeyboardInterrupt)
        ending.join()
        assert json.loads((tmp_path / PROGRESS_FILE).read_text())["state"] == "interrupted"


def test_what_is_known_of_the_agents_stays_in_the_file_when_the_run_is_stopped(tmp_path):
    board = BoardSoFar("gem", "nats", (AgentSoFar("ann", 1.5, 2), AgentSoFar("bob", None, 0)))
    with ProgressFile(tmp_path, "score", lambda _: None) as tell:
        tell.so_far([board])
        tell(Progress("scoring", 3, 24, 0, None))
        tell.interrupt()
    found = read_document(tmp_path / PROGRESS_FILE, RunProgress)
    assert found.state == "interrupted"
    assert [(row.agent, row.score, row.tasks) for row in found.so_far[0].rows] == [("ann", 1.5, 2), ("bob", None, 0)]
