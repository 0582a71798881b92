"""What is in the file that says how far a run is."""

from __future__ import annotations

import json

from goldless.runs.progress import Progress
from goldless.runs.progress_file import PROGRESS_FILE, ProgressFile


def test_a_stage_is_recorded_when_it_begins_however_soon_after_the_one_before(tmp_path):
    with ProgressFile(tmp_path, "score", lambda _: None) as tell:
        for stage in ("scoring", "judging"):
            tell(Progress(stage, 0, 24, 0, None))
            found = json.loads((tmp_path / PROGRESS_FILE).read_text())
            assert (found["stage"], found["done"], found["total"]) == (stage, 0, 24)
