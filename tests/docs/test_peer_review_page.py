"""The tables of docs/peer_review.md on recorded data are what their commands print, cell by cell."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.recorded
PAGE = (Path(__file__).parents[2] / "docs" / "peer_review.md").read_text(encoding="utf-8")
COMMAND, SWEEP = re.findall(r"^    goldless (review xsum_peer_review .*)$", PAGE, re.MULTILINE)
CELL = r" (\.\d{4}) \|"
SCALES = ("pairwise", "5-level", "100-level")
SWEPT = re.findall(rf"^\| ([\d.]+) \| (\w+) \|{CELL * 3}$", PAGE, re.MULTILINE)
ROWS = re.findall(r"^\| `(--exam [^`]+)` \| (\.\d{4}) \| (\.\d{4}) \| (\.\d{4}) \|$", PAGE, re.MULTILINE)


def test_the_page_has_a_command_and_four_rows():
    assert "--convention auto-pre" in COMMAND
    assert len(ROWS) == 4


@pytest.mark.nightly
@pytest.mark.parametrize("column", range(3), ids=SCALES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: shlex.split(row[0])[1])
def test_every_cell_is_what_the_command_prints(row, column, recorded, goldless, monkeypatch):
    monkeypatch.chdir(recorded)
    exam, *cells = row
    ended = goldless(*shlex.split(COMMAND), *shlex.split(exam), "--scale", SCALES[column], "--resamples", "200")
    assert ended.code == 0
    printed = json.loads(ended.out)
    assert f"{printed['panel']['accuracy']:.4f}"[1:] == cells[column]
    assert printed["panel"]["n_pairs"] == 1793


@pytest.mark.nightly
@pytest.mark.parametrize("column", range(3), ids=SCALES)
def test_the_sweep_is_what_its_command_prints(column, recorded, goldless, monkeypatch):
    monkeypatch.chdir(recorded)
    ended = goldless(*shlex.split(SWEEP), "--scale", SCALES[column], "--resamples", "200")
    printed = json.loads(ended.out)["sweep"]
    shown = [(float(limit), weights, cells[column]) for limit, weights, *cells in SWEPT]
    assert shown == [(cell["limit"], cell["weights"], f"{cell['accuracy']:.4f}"[1:]) for cell in printed]
    if column:  # "only when ξ = 0, w = 1 does the performance noticeably decrease" (PRE 5.3)
        assert min(shown, key=lambda cell: cell[2])[:2] == (0, "equal")
