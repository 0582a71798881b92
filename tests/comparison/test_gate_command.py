"""``goldless compare`` and ``goldless gate`` by the command line."""

from __future__ import annotations

import pytest

from tests.comparison.comparison_runs import judge, noisy, reviewed, worths, written_run


@pytest.fixture
def run(tmp_path):
    return written_run(tmp_path / "run", noisy(40, -3) | {"third": [1.0] * 40})


def test_a_gate_that_cannot_decide_ends_with_7_and_says_what_it_would_take(goldless, tmp_path):
    run = written_run(tmp_path / "run", noisy(20, -0.35, seed=8))
    ended = goldless("gate", run, "--baseline", "old", "--margin", "0.5")
    assert ended.code == 7
    assert "is neither shown nor excluded: 20 tasks cannot tell how many more it would take" in " ".join(
        ended.out.split()
    )


def test_a_file_that_cannot_be_written_is_refused_before_a_judge_is_asked(goldless, tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths(12))
    (tmp_path / "taken").write_text("a file")
    ended = goldless(
        *("gate", run, "--baseline", "old", "--candidate", "new", "--margin", "0", "--aa", "5"),
        *("--reviewers", "judge=scripted:nowhere", "--junit", tmp_path / "taken" / "gate.xml"),
    )
    assert ended.code == 2
    assert "cannot write" in ended.err
