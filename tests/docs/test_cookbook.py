"""The cookbook and the tutorials: every page is run as it is written, and prints what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from page_blocks import BLOCK, agrees, problem_of, run_page, steps_of

DOCS = Path(__file__).parents[2] / "docs"
COOKBOOK = DOCS / "cookbook"
PAGES = sorted(f"{page.parent.name}/{page.name}" for page in DOCS.glob("[ct]*/*.md") if page.name != "index.md")
EMBEDDED = ("tutorials/conference_organiser.md", "tutorials/engineer_with_logs.md")
"""The pages that run the embedded model."""
LONGEST = "cookbook/gate_a_pull_request.md"
"""Run at night only; test_gate_workflow.py has the heart of it."""
OTHER_PROCESSORS = 0.02
"""Share by which the embedded model's numbers may differ: its sums are not the same to the bit everywhere."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not COOKBOOK.exists(), reason="installed without the docs")]


def kitchen(folder: Path) -> Path:
    """A folder with the files that pages take."""
    folder.mkdir()
    for file in (COOKBOOK / "files").iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return folder


def run(name: str, tmp_path: Path, *tools: Path, tolerance: float = 0.0) -> str | None:
    page = (DOCS / name).read_text(encoding="utf-8")
    return problem_of(run_page(page, kitchen(tmp_path / "kitchen"), *tools), tolerance=tolerance)


def test_there_are_eight_complete_examples():
    assert len(PAGES) == 8


@pytest.mark.parametrize("name", [name for name in PAGES if name not in {*EMBEDDED, LONGEST}])
def test_a_page_prints_what_it_says(name, warm, tmp_path):
    problem = run(name, tmp_path, warm)
    assert problem is None, f"docs/{name}, {problem}"


@pytest.mark.usefixtures("embedded_journal")
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_page_with_the_embedded_model_prints_what_it_says(name, warm, tmp_path):
    problem = run(name, tmp_path, warm, tolerance=OTHER_PROCESSORS)
    assert problem is None, f"docs/{name}, {problem}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in PAGES if name not in EMBEDDED])
def test_a_page_prints_the_same_with_a_new_process_for_every_command(name, tmp_path):
    problem = run(name, tmp_path)
    assert problem is None, f"docs/{name}, {problem}"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_is_a_file_or_commands_or_a_line_of_configuration(name):
    blocks = BLOCK.finditer((DOCS / name).read_text(encoding="utf-8"))
    assert {block["kind"] for block in blocks if block["title"] is None} <= {"console", "yaml"}


# --- the runner itself ---------------------------------------------------------------------------------------------


def test_a_command_that_prints_something_else_is_shown_with_all_it_printed(tmp_path):
    tmp_path.joinpath("empty").mkdir()
    problem = problem_of(run_page("```console\n$ echo three\nfour\n```\n", tmp_path / "empty"))
    assert problem == (
        "line 2: $ echo three\nprinted something other than the page says:\nfour\n----- it printed:\nthree\n"
    )


def test_a_command_that_fails_is_a_problem_unless_the_page_tells_its_status(tmp_path):
    tmp_path.joinpath("empty").mkdir()
    silent, told = "```console\n$ (exit 3)\n```\n", "```console\n$ (exit 3)\n$ echo $?\n3\n```\n"
    assert "ended with status 3" in str(problem_of(run_page(silent, tmp_path / "empty")))
    assert problem_of(run_page(told, tmp_path / "empty")) is None


def test_a_session_that_ends_early_leaves_its_commands_unreached(tmp_path):
    tmp_path.joinpath("empty").mkdir()
    assert "was not reached" in str(
        problem_of(run_page("```console\n$ exit\n$ echo here\nhere\n```\n", tmp_path / "empty"))
    )


def test_a_titled_block_is_written_as_a_file_before_what_follows(tmp_path):
    tmp_path.joinpath("empty").mkdir()
    page = '```csv title="a.csv"\ntask,"$HOME"\n```\n\n```console\n$ cat a.csv\ntask,"$HOME"\n```\n'
    assert problem_of(run_page(page, tmp_path / "empty")) is None


def test_a_command_goes_on_after_a_backslash():
    (step,) = steps_of("```console\n$ echo one \\\n    two\none two\n```\n")
    assert (step.command, step.claimed) == ("echo one \\\n    two", "one two")


def test_the_ellipsis_in_brackets_stands_for_part_of_a_line_or_for_any_lines():
    assert agrees("a […] c\n[…]\nz", "a b c\nskipped\n\nskipped too\nz\n")
    assert agrees("a\n[…]", "a\n")
    assert not agrees("a […] c", "a b d\n")
    assert not agrees("a\nz", "a\nb\nz\n")


def test_how_far_a_slow_command_is_does_not_count(tmp_path):
    (tmp_path / "empty").mkdir()
    lines = ("preparing for 2 seconds", "rating: 8 of 24, price unknown", "rating: 9 of 24 (1 failed), 2.0/s", "done")
    said = " ".join(f"'{line}'" for line in lines)
    assert problem_of(run_page(f"```console\n$ printf '%s\\n' {said}\ndone\n```\n", tmp_path / "empty")) is None


def test_a_column_may_be_wider_where_a_time_was_longer():
    page = " calls    time\n ─────────────\n  300k    […]\n"
    assert agrees(page, " calls   time\n ────────────\n  300k  1.6 h\n")
    assert not agrees(page, " calls\n ─────\n  300k\n")


def test_numbers_may_differ_by_the_tolerance_and_by_no_more():
    assert agrees("1 atlas 22.66 x", "1 atlas   22.70 x\n", tolerance=0.02)
    assert not agrees("1 atlas 22.66 x", "1 atlas 24.00 x\n", tolerance=0.02)
    assert not agrees("1 atlas 22.66 x", "1 atlas 22.67 x\n")
