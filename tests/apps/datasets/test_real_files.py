"""The converters on the real files, where a folder with copies of the repositories is there.

GOLDLESS_PUBLIC_SETS names it: each repository under its own name, at the commit that the catalogue fixes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from goldless.apps.datasets.catalogue import DATASETS
from goldless.apps.datasets.fetching import fetch_study

pytestmark = pytest.mark.recorded

COUNTS = {
    # tasks, agents, responses, ratings, preferences: as the owners publish them
    "summeval": (100, 16, 1600, 6400, 0),
    "realsumm": (100, 24, 2400, 2400, 0),
    "newsroom": (60, 7, 420, 1680, 0),
    "faithbench": (80, 10, 800, 800, 0),
    "ted_zhen": (529, 15, 7935, 7935, 0),
    "alpaca_dev": (805, 23, 18513, 17708, 0),  # two models have 804 answers
    "llmbar": (419, 2, 838, 0, 419),
    "samsum": (200, 30, 6000, 0, 0),
    "reddit": (200, 30, 6000, 0, 0),
    "auto_pre": (100, 7, 700, 3500, 3660),
}
PLANTED_TRUTH = -1


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Each set as a study, converted once."""
    if not (copies := os.environ.get("GOLDLESS_PUBLIC_SETS")):
        pytest.skip("no copies of public sets: set GOLDLESS_PUBLIC_SETS to their folder")
    folder, made = tmp_path_factory.mktemp("sets"), {}

    def study_of(name):
        if name not in made:
            dataset = DATASETS[name]
            copy = Path(copies) / dataset.repository.partition("/")[2]
            if not copy.is_dir():
                pytest.skip(f"no {copy}")
            made[name] = fetch_study(name, folder / name, copy=copy), folder / name
        return made[name]

    return study_of


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COUNTS if name != "reddit"])
def test_every_set_is_complete(studies, name):
    study, _ = studies(name)
    counts = (len(study.tasks), len(study.agents), study.n_responses, study.n_ratings, study.n_preferences)
    assert counts == COUNTS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["summeval", "realsumm", "newsroom", "faithbench", "ted_zhen", "alpaca_dev"])
def test_a_set_contains_the_recorded_rows_exactly(studies, recorded, name):
    if not (recorded / "truth").is_dir():
        pytest.skip(f"no {recorded / 'truth'}")
    study, _ = studies(name)
    prompts = {row["task"]: row["prompt"] for row in study.rows("tasks")}
    task_of_prompt = {prompt: task for task, prompt in prompts.items()}
    texts = {(row["task"], row["agent"]): row["text"] for row in study.rows("responses")}
    scores: dict[tuple[str, str], list[float]] = {}
    for row in study.rows("labels"):
        scores.setdefault((row["task"], row["agent"]), []).append(row["score"])
    lines = (recorded / "truth" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    truths = {
        (task, agent): truth
        for task, agent, truth in json.loads((recorded / "truth" / f"{name}.truth.json").read_text())
    }
    for row in map(json.loads, lines):
        task = task_of_prompt[row["prompt"]] if name == "alpaca_dev" else row["task"]
        assert prompts[task] == row["prompt"]
        assert texts[task, row["agent"]] == row["text"]
        truth = truths[row["task"], row["agent"]]
        if truth == PLANTED_TRUTH and row["agent"] == "NullModel":
            assert (task, row["agent"]) not in scores
            continue
        ratings = scores[task, row["agent"]]
        assert sum(ratings) / len(ratings) == truth


@pytest.mark.slow
@pytest.mark.parametrize("part", ["natural", "neighbor"])
def test_llmbar_has_the_recorded_pairs_and_preferences(studies, recorded, part):
    if not (recorded / "llmbar").is_dir():
        pytest.skip(f"no {recorded / 'llmbar'}")
    study, _ = studies("llmbar")
    for table in ("tasks", "responses", "labels"):
        lines = (recorded / "llmbar" / part / f"{table}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        ours = list(study.rows(table))
        assert all({**row} in [{key: mine.get(key) for key in row} for mine in ours] for row in rows[:20])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("samsum", "."),
        pytest.param("reddit", ".", marks=pytest.mark.nightly),
        pytest.param("reddit", "attacks/pattern", marks=pytest.mark.nightly),
        pytest.param("reddit", "attacks/format", marks=pytest.mark.nightly),
    ],
)
def test_recorded_evidence_of_peer_prediction_is_the_same(studies, recorded, name, folder):
    source = recorded / f"{name}_peer_prediction" / folder
    if not source.is_dir():
        pytest.skip(f"no {source}")
    _, path = studies(name)
    for file in sorted(source.glob("*.*")):
        theirs = pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_ndjson(file)
        if theirs.is_empty():
            assert not (path / folder / f"{file.stem}.parquet").exists()
            continue
        ours = pl.read_parquet(path / folder / f"{file.stem}.parquet")
        keys = [column for column in theirs.columns if not theirs.schema[column].is_numeric()]
        ours, theirs = (table.with_columns(pl.col(keys).cast(pl.String)).sort(keys) for table in (ours, theirs))
        # The recorded numbers have the precision of single ones.
        assert_frame_equal(ours, theirs, check_column_order=False, check_dtypes=False, abs_tol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["tasks", "responses", "labels", "judgements", "exams"])
def test_auto_pre_has_the_recorded_rows_and_no_other(studies, recorded, table):
    source = recorded / "xsum_peer_review" / f"{table}.jsonl"
    if not source.is_file():
        pytest.skip(f"no {source}")
    _, path = studies("auto_pre")
    theirs = Counter(row_key(json.loads(line)) for line in source.read_text(encoding="utf-8").splitlines())
    ours = Counter(row_key(row) for row in pl.read_parquet(path / f"{table}.parquet").iter_rows(named=True))
    assert ours == theirs


def row_key(row):
    """A row without its empty cells, in an order of its own."""
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))
