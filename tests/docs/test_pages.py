"""The pages: every one with commands and their output is run as it is written, and prints what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.page_blocks import agrees, problem_of, run_page
from tests.support.paths import DOCS

FILES = ("answers.csv", "bot.py", "labels.csv", "logs.jsonl", "reviews.csv", "toy_server.py")
"""What pages take from docs/examples."""
PAGES = sorted(page.name for page in DOCS.glob("*.md") if "\n```console\n" in page.read_text(encoding="utf-8"))
EMBEDDED = ("gre_bench.md", "importing.md")
"""The pages that run the embedded model."""
AT_NIGHT = {"agreement.md", "gate.md", "gre_bench.md"}
"""Run at night only: test_gate_workflow.py has the heart of the gate, other pages that of the rest."""
OTHER_PROCESSORS = 0.02
"""Share by which the embedded model's numbers may differ: its sums are not the same to the bit everywhere."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DOCS.exists(), reason="installed without the docs")]


def kitchen(folder: Path) -> Path:
    """A folder with the files that pages take."""
    folder.mkdir()
    for name in FILES:
        shutil.copy(DOCS / "examples" / name, folder)
    return folder


def run(name: str, tmp_path: Path, programs: Path | None, tolerance: float = 0.0) -> str | None:
    page = (DOCS / name).read_text(encoding="utf-8")
    return problem_of(run_page(page, kitchen(tmp_path / "kitchen"), programs), tolerance=tolerance)


def test_eight_pages_are_run():
    assert len(PAGES) == 8


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in AT_NIGHT)) for name in PAGES if name not in EMBEDDED],
)
def test_a_page_prints_what_it_says(name, tmp_path, programs):
    problem = run(name, tmp_path, programs)
    assert problem is None, f"docs/{name}, {problem}"


@pytest.mark.usefixtures("embedded_journal")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in AT_NIGHT)) for name in EMBEDDED]
)
def test_a_page_with_the_embedded_model_prints_what_it_says(name, tmp_path, programs):
    problem = run(name, tmp_path, programs, OTHER_PROCESSORS)
    assert problem is None, f"docs/{name}, {problem}"


# --- the runner itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("$ echo three\nfour", "printed something other than the page says:\nfour\n----- it printed:\nthree\n"),
        ("$ (exit 3)", "ended with status 3"),
        ("$ (exit 3)\n$ echo $?\n3", None),
        ("$ exit\n$ echo here\nhere", "was not reached"),
        ("$ printf 'rating: 9 of 24 (1 failed), 2.0/s\\ndone\\n'\ndone", None),
        ("$ printf 'tvd-mi so far, 4 tasks: a 0.45, b 0.43\\ndone\\n'\ndone", None),
    ],
    ids=["other output", "a status", "a status that is shown", "an early end", "progress", "means so far"],
)
def test_what_a_page_does_not_say_is_a_problem(page, problem, tmp_path):
    (tmp_path / "empty").mkdir()
    found = problem_of(run_page(f"```console\n{page}\n```\n", tmp_path / "empty"))
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize(
    ("claimed", "printed", "tolerance"),
    [
        ("a […] c", "a b d\n", 0),
        ("a\nz", "a\nb\nz\n", 0),
        ("1 atlas 22.66 x", "1 atlas 22.67 x\n", 0),
        ("1 atlas 22.66 x", "1 atlas 24.00 x\n", 0.02),
    ],
)
def test_anything_else_is_not(claimed, printed, tolerance):
    assert not agrees(claimed, printed, tolerance=tolerance)
