"""Run folders that version 0.1.0 wrote are still studies: read, computed again without a model, viewed and reported.

What is expected stands in those folders, written by that version.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import goldless as package
from goldless.reports.document import write
from tests.support.paths import FIXTURES

FOLDERS = FIXTURES / "runs_of_0_1_0"
METRICS = ("gem-raw", "mi", "tvd-mi", "length")


@pytest.fixture
def runs(tmp_path) -> Path:
    """Copies of the folders, as reports are written into them."""
    shutil.copytree(FOLDERS, tmp_path / "runs")
    return tmp_path / "runs"


def stored(folder: Path, name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["score", "review"])
def test_a_folder_is_a_study_of_the_fingerprint_it_was_made_from(runs, name):
    study = package.read_study(runs / name)
    assert study.fingerprint == stored(runs / name, "made_by")["fingerprint"]
    recorded = {"score": {"logprobs", "verdicts"}, "review": {"judgements", "exams"}}[name]
    assert recorded <= set(study.recorded)


def same(now: Any, then: Any) -> bool:
    """Whether a document has all of an earlier one, numbers but for the last bit; notes may be worded differently."""
    if isinstance(then, dict):
        return now.keys() >= then.keys() and all(same(now[key], then[key]) for key in then if key != "notes")
    if isinstance(then, list):
        return len(now) == len(then) and all(map(same, now, then))
    return now == pytest.approx(then, rel=1e-12, abs=1e-15) if isinstance(then, float) else now == then


def without_intervals(found: Any) -> Any:
    """0.1.0 gave win rates that are the same on all tasks an interval of no width, and few tasks one without a tail."""
    if isinstance(found, dict):
        return {key: without_intervals(one) for key, one in found.items() if key not in {"low", "high", "method"}}
    return [without_intervals(one) for one in found] if isinstance(found, list) else found


def assert_same_results(found: dict, before: dict) -> None:
    """All that was computed is equal; what says how it was made may differ."""
    assert list(found["metrics"]) == list(before["metrics"])
    for metric, now in found["metrics"].items():
        then = before["metrics"][metric]
        for key in ("unit", "level", "influence", "by_wording", "matrix"):
            assert same(json.loads(json.dumps(now[key])), then[key]), (metric, key)
        for key in ("rows", "comparisons"):
            assert same(known_then(now[key], then[key]), known_then(then[key], then[key])), (metric, key)


def known_then(rows: list[dict], then: list[dict]) -> list[dict]:
    """The rows with what 0.1.0 said of them; who is better, and what the interval is, is decided in another way."""
    other = {"better_than", "low", "high"}
    return [{key: row[key] for key in old if key not in other} for row, old in zip(rows, then, strict=True)]


def test_a_scored_run_gives_its_leaderboards_again_on_the_command_line(goldless, runs, tmp_path):
    names = [word for metric in METRICS for word in ("--metric", metric)] + ["--over-peers", "own"]
    ended = goldless("score", runs / "score", "--recorded", *names, "--json", "--out", tmp_path / "again")
    assert ended.code == 0, ended.err
    assert_same_results(json.loads(ended.out), stored(runs / "score", "leaderboard"))
    # what was written now can be computed again as well, and has the same evidence in parts
    third = goldless("score", tmp_path / "again", "--recorded", *names, "--json")
    assert_same_results(json.loads(third.out), stored(runs / "score", "leaderboard"))
    for table in ("logprobs", "verdicts"):
        parts = pl.read_parquet(tmp_path / "again" / table)
        assert parts.equals(pl.read_parquet(runs / "score" / f"{table}.parquet"))


def test_a_review_gives_its_ranking_again_from_its_judgements(runs):
    before = stored(runs / "review", "review")
    again = write(package.review(runs / "review", recorded=True, exams="consistency", thresholds={"consistency": 0.0}))
    for key in ("scale", "exams", "convention", "ranking", "rankings", "labels", "failures", "nobody_passed", "panel"):
        assert same(without_intervals(again[key]), without_intervals(before[key])), key
    ours = ("name", "traits", "passed", "why", "weight", "asked", "used", "missing")
    for now, then in zip(again["reviewers"], before["reviewers"], strict=True):
        assert same({key: now[key] for key in ours}, {key: then[key] for key in ours})
