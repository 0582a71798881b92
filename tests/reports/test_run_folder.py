"""A run folder is read without trust: what is damaged counts as absent, and is told in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from goldless.errors import UserError
from goldless.reports.run_folder import RunFolder
from tests.support.paths import FIXTURES

SOUND = FIXTURES / "runs" / "score"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(SOUND, tmp_path / "run"))


def test_a_folder_that_is_not_there_has_nothing_and_no_problems(tmp_path):
    run = RunFolder(tmp_path / "none")
    assert (run.results, run.scores, run.failed, run.problems, run.has_results) == ({}, None, [], (), False)
    with pytest.raises(UserError, match=r"has no response_scores\.csv\. Score the study again"):
        run.required_scores()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("leaderboard", "{", "cannot be read (JSONDecodeError"),
        ("review", "[]", "must be a JSON object, got list"),
        ("review", "null", "must be a JSON object, got NoneType"),
        ("leaderboard", '{"metrics": []}', "does not match what this version of goldless expects (metrics:"),
        ("review", '{"rankings": []}', "does not match what this version of goldless expects (rankings:"),
    ],
)
def test_a_damaged_document_counts_as_absent_and_is_told_where_it_is_needed(folder, name, text, said):
    (folder / f"{name}.json").write_text(text)
    run = RunFolder(folder)
    assert getattr(run, name) is None
    assert len([problem for problem in run.problems if problem.startswith(f"{name}.json {said}")]) == 1
    for read in (run.required, run.data):
        with pytest.raises(UserError) as told:
            read(name)
        assert f"{folder}: {name}.json {said}" in str(told.value)


def test_scores_need_no_counts_and_a_damaged_file_of_them_is_told(folder):
    file = folder / "response_scores.csv"
    pl.read_csv(file).select("metric", "task", "agent", "score").write_csv(file)
    assert RunFolder(folder).required_scores()["asked"].null_count() == RunFolder(folder).scores.height
    file.write_text("metric,task\nm,t\n")
    run = RunFolder(folder)
    assert run.scores is None
    assert "response_scores.csv cannot be read as metric, task, agent, score" in "; ".join(run.problems)
    with pytest.raises(UserError, match="cannot be read as metric, task, agent, score"):
        run.required_scores()


def test_results_of_different_studies_are_named(folder):
    assert set(RunFolder(folder).results) == {"leaderboard"}
    (folder / "review.json").write_text('{"fingerprint": "0123456789"}')
    assert "the results belong to different studies" in RunFolder(folder).problems[-1]
