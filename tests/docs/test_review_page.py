"""The tables of docs/review.md on recorded data are what their commands print, cell by cell."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.support.paths import DOCS

pytestmark = pytest.mark.recorded
PAGE = (DOCS / "review.md").read_text(encoding="utf-8")
COMMAND, SWEEP = re.findall(r"^    goldless (review xsum_peer_review .*)$", PAGE, re.MULTILINE)
(WORTH,) = re.findall(r"`goldless (review xsum_peer_review [^`]+)`", PAGE)
CELL = r" (\.\d{4}) \|"
SCALES = ("pairwise", "5-level", "100-level")
ROWS = re.findall(rf"^\| `(--exam [^`]+)` \|{CELL * 3}$", PAGE, re.MULTILINE)
SWEPT = re.findall(rf"^\| ([\d.]+) \| (\w+) \|{CELL * 3}$", PAGE, re.MULTILINE)
PANELS = re.findall(
    r"^\| `(--[^`]+)` \| (\d+) \| ([\d.]+) \([^|]+\) \| (\.\d+) \| ([\d.]+) \| (\.\d+) \| (\.\d+) \|",
    PAGE,
    re.MULTILINE,
)


def test_the_page_has_all_rows():
    assert (len(ROWS), len(SWEPT), len(PANELS)) == (4, 9, 4)


@pytest.fixture
def printed(recorded, goldless, monkeypatch):
    """What a command of the page prints, with further options."""
    monkeypatch.chdir(recorded)

    def run(command: str, *more: str) -> dict:
        ended = goldless(*shlex.split(command), *more)
        assert ended.code == 0
        return json.loads(ended.out)

    return run


@pytest.mark.nightly
@pytest.mark.parametrize("column", range(3), ids=SCALES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: shlex.split(row[0])[1])
def test_every_cell_is_what_the_command_prints(row, column, printed):
    exam, *cells = row
    panel = printed(COMMAND, *shlex.split(exam), "--scale", SCALES[column], "--resamples", "200")["panel"]
    agreement = panel["agreement"]
    assert f"{agreement['accuracy']['value']:.4f}"[1:] == cells[column]
    assert agreement["n_pairs"] == 1793


@pytest.mark.nightly
@pytest.mark.parametrize("column", range(3), ids=SCALES)
def test_the_sweep_is_what_its_command_prints(column, printed):
    sweep = printed(SWEEP, "--scale", SCALES[column], "--resamples", "200")["sweep"]
    shown = [(float(limit), weights, cells[column]) for limit, weights, *cells in SWEPT]
    accuracies = [f"{cell['agreement']['accuracy']['value']:.4f}"[1:] for cell in sweep]
    assert shown == [(cell["limit"], cell["weights"], value) for cell, value in zip(sweep, accuracies, strict=True)]
    if column:  # "only when ξ = 0, w = 1 does the performance noticeably decrease" (PRE 5.3)
        assert min(shown, key=lambda cell: cell[2])[:2] == (0, "equal")


@pytest.mark.nightly
@pytest.mark.parametrize("row", PANELS[-1:], ids=lambda row: row[0])
def test_what_a_panel_is_worth_is_what_the_command_prints(row, printed):
    """The last row; the others are of the same command."""
    panel = printed(WORTH, *shlex.split(row[0]))["panel"]
    worth = panel["worth"]
    found = (
        str(len(panel["reviewers"])),
        f"{worth['errors']['votes']['value']:.2f}",
        f"{worth['errors']['correlation']:.3f}"[1:],
        f"{worth['votes']['votes']['value']:.2f}",
        f"{panel['agreement']['accuracy']['value']:.4f}"[1:],
        f"{worth['claimed']:.3f}"[1:],
    )
    assert found == row[1:]
