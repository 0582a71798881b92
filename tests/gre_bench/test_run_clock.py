"""The contamination clock of a run folder that was written by a real run with a scripted scorer."""

from __future__ import annotations

import asyncio
import json

import pytest

from goldless.errors import UserError
from goldless.gre_bench.run_clock import public_dates, read_response_scores, run_clock
from goldless.models.scripted import ScriptedModel
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import save_run
from goldless.studies import read_study


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run_folder(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    agents = ["human", "reference1", "model"]
    write_lines(study / "tasks.jsonl", [{"task": "p1", "public_date": "2023-01-15"}, {"task": "p2"}])
    write_lines(study / "agents.jsonl", [{"agent": a, "cutoff_date": "2022-12-31"} for a in agents])
    rows = [{"task": t, "agent": a, "text": f"the paper {t} of {a}"} for t in ("p1", "p2") for a in agents]
    write_lines(study / "responses.jsonl", rows)
    scorer = ScriptedModel(logprobs=lambda c, t: [-1.0 if word in c else -2.0 for word in t.split()])
    options = Options(metrics=("gem-raw",), scorer=scorer, resamples=100, journal=tmp_path / "journal")
    return save_run(asyncio.run(evaluate_study(read_study(study), options)), tmp_path / "run")


def test_a_run_folder_has_its_dates_cut_offs_and_scores(run_folder):
    found = run_clock(run_folder, resamples=100)
    (mine,) = found.agents
    assert (mine.agent, mine.clean, mine.dated, mine.undated) == ("model", 1, 1, 1)
    scores, signatures = read_response_scores(run_folder)
    expected = next(r.score for r in scores["gem-raw"] if (r.task, r.agent) == ("p1", "model"))
    own = next(row for row in found.scores if row.scope == "own")
    assert (own.metric, own.score, own.n) == ("gem-raw", expected, 1)
    assert found.signatures == signatures


def test_an_edition_folder_is_read_through_its_run(run_folder):
    (run_folder.parent / "edition.toml").write_text("")
    assert run_clock(run_folder.parent, resamples=100) == run_clock(run_folder, resamples=100)


def test_dates_are_those_of_the_tasks_and_none_where_there_is_none(run_folder):
    assert public_dates(read_study(run_folder)) == {"p1": "2023-01-15", "p2": None}


def test_a_folder_that_is_no_run_is_told(tmp_path):
    with pytest.raises(UserError, match=r"no run folder, response_scores\.csv is not there"):
        run_clock(tmp_path)


def test_scores_that_cannot_be_read_are_told_with_the_file(run_folder):
    (run_folder / "response_scores.csv").write_text("metric,task\ngem,p1\n")
    with pytest.raises(UserError, match=r"response_scores.csv: cannot be read as metric, task, agent"):
        read_response_scores(run_folder)
