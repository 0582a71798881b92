"""The page on panels: what runs from a clone prints what it says, and the table is what the command gives."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from page_blocks import problem_of, run_page
from test_cookbook import kitchen

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "panels.md").read_text(encoding="utf-8") if (DOCS / "panels.md").exists() else ""
COMMAND = re.search(r"`goldless (review xsum_peer_review [^`]+)`", PAGE)
ROW = r"^\| `(--[^`]+)` \| (\d+) \| ([\d.]+) \([^|]+\) \| (\.\d+) \| ([\d.]+) \| (\.\d+) \| (\.\d+) \|"
ROWS = re.findall(ROW, PAGE, re.MULTILINE)

pytestmark = pytest.mark.skipif(not PAGE, reason="installed without the docs")


@pytest.mark.slow
def test_the_page_prints_what_it_says(warm, tmp_path):
    problem = problem_of(run_page(PAGE, kitchen(tmp_path / "kitchen"), warm))
    assert problem is None, problem


def test_the_table_has_four_rows():
    assert len(ROWS) == 4


@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS[-1:], ids=lambda row: row[0])
def test_a_row_is_what_the_command_gives(row, recorded, goldless, monkeypatch):
    """The last row; the others are of the same command."""
    monkeypatch.chdir(recorded)
    panel = json.loads(goldless(*shlex.split(COMMAND[1]), *shlex.split(row[0])).out)["panel"]
    worth = panel["worth"]
    found = (
        str(len(panel["reviewers"])),
        f"{worth['effective_votes']:.2f}",
        f"{worth['by_errors']['correlation']:.3f}"[1:],
        f"{worth['by_votes']['votes']:.2f}",
        f"{panel['accuracy']:.4f}"[1:],
        f"{worth['claimed']:.3f}"[1:],
    )
    assert found == row[1:]
