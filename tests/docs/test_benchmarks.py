"""Every benchmark is in the table of its README, and every mention of one names a file."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import BENCHMARKS, ROOT

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="installed without the benchmarks")
TEXTS = ("docs/*.md", "*.md", "benchmarks/**/*.py", "src/**/*.py", "tests/**/*.py", ".github/workflows/*.yml")


def test_the_table_has_a_row_for_every_script():
    table = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    scripts = {script.relative_to(BENCHMARKS).as_posix() for script in BENCHMARKS.rglob("*.py")}
    assert set(re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE)) == scripts


def test_figures_are_on_a_page_that_names_the_script():
    table = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for script, page in re.findall(r"^\| `([\w/]+\.py)` .*\]\(\.\./(docs/\w+\.md)\) \|$", table, re.MULTILINE):
        assert f"benchmarks/{script}" in (ROOT / page).read_text(encoding="utf-8"), (script, page)


def test_every_mention_names_a_file():
    texts = [path for pattern in TEXTS for path in ROOT.glob(pattern)]
    mentions = {mention for path in texts for mention in re.findall(r"benchmarks/[\w/]+\.py", path.read_text("utf-8"))}
    assert {mention for mention in mentions if not (ROOT / mention).is_file()} == set()
    assert len(mentions) > 20
