"""The table of docs/peer_review.md on recorded data is what its command prints, cell by cell."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.recorded
PAGE = (Path(__file__).parents[2] / "docs" / "peer_review.md").read_text(encoding="utf-8")
COMMAND = re.search(r"^    goldless (review xsum_peer_review .*)$", PAGE, re.MULTILINE)[1]
ROWS = re.findall(r"^\| `(--exam [^`]+)` \| (\.\d{4}) \| (\.\d{4}) \| (\.\d{4}) \|$", PAGE, re.MULTILINE)


def test_the_page_has_a_command_and_four_rows():
    assert "--convention auto-pre" in COMMAND
    assert len(ROWS) == 4


@pytest.mark.parametrize("row", ROWS, ids=lambda row: shlex.split(row[0])[1])
def test_every_cell_is_what_the_command_prints(row, recorded, goldless, monkeypatch):
    monkeypatch.chdir(recorded)
    for scale, cell in zip(("pairwise", "5-level", "100-level"), row[1:], strict=True):
        line = [*shlex.split(COMMAND), *shlex.split(row[0]), "--scale", scale, "--resamples", "200"]
        ended = goldless(*line)
        assert ended.code == 0
        printed = json.loads(ended.out)
        assert f"{printed['panel']['accuracy']:.4f}"[1:] == cell
        assert printed["panel"]["n_pairs"] == 1793
