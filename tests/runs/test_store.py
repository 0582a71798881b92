"""The run folder holds what a published number needs, in the same bytes every time."""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.metrics.likelihood import pair_scores
from goldless.metrics.metric import over_peers
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.store import save_run

ALWAYS = {
    "agents.jsonl",
    "logprobs",
    "leaderboard.csv",
    "leaderboard.json",
    "leaderboard.md",
    "made_by.json",
    "pair_scores.parquet",
    "report.html",
    "response_scores.csv",
    "responses.parquet",
    "tasks.parquet",
}


@pytest.fixture
def evaluate(study_file, toy_scorer, tmp_path):
    """Evaluates the three agents; cy's response to t3 is missing for a lasting cause."""

    def run(journal: str = "j.sqlite", **options):
        refused = CallFailure("refused", "no, thanks")
        model = toy_scorer(lambda _c, t: refused if t == "hoft quex" else None)
        settings = {"metrics": "gem-raw", "scorer": model, "resamples": 200, "journal": tmp_path / journal}
        return goldless.evaluate(study_file(), **{**settings, **options})

    return run


def upper() -> ScriptedModel:
    return ScriptedModel(answers=lambda request: request.messages[-1].content, name="same")


def test_a_run_into_the_same_folder_leaves_nothing_of_the_one_before(evaluate, tmp_path):
    save_run(evaluate(metrics=["gem"], rewriter=upper()), tmp_path / "run")
    save_run(evaluate(), tmp_path / "run")
    assert {file.name for file in (tmp_path / "run").iterdir()} == ALWAYS


def test_the_scores_can_be_computed_again_from_the_stored_evidence(evaluate, tmp_path):
    result = evaluate()
    save_run(result, tmp_path / "run")
    frame = pl.read_parquet(tmp_path / "run" / "logprobs")
    sums = {(r["task"], r["target"], r["given"]): r["sum_logprob_nats"] for r in frame.to_dicts()}
    pairs = pl.read_parquet(tmp_path / "run" / "pair_scores.parquet").to_dicts()
    assert len(pairs) == 18
    for pair in pairs:
        known, before = (sums[pair["task"], pair["peer"], given] for given in (pair["agent"], None))
        if known is None or before is None:
            assert (pair["score"], pair["missing"]) == (None, "refused")
        else:
            assert (pair["score"], pair["missing"]) == (pytest.approx(known - before), None)
    assert over_peers(pair_scores(result.logprobs), "common").rows() == result.outcomes["gem-raw"].responses.rows()


def test_stored_evidence_has_every_token_and_says_why_something_is_missing(evaluate, tmp_path):
    save_run(evaluate(), tmp_path / "run")
    rows = pl.read_parquet(tmp_path / "run" / "logprobs").to_dicts()
    assert len(rows) == 27
    lost = [row for row in rows if row["failure"]]
    assert {(r["task"], r["target"], r["given"]) for r in lost} == {("t3", "cy", g) for g in (None, "ann", "bob")}
    assert {(r["failure"], r["failure_message"], r["logprobs_nats"], r["tokens"]) for r in lost} == {
        ("refused", "no, thanks", None, None)
    }
    (one,) = [r for r in rows if (r["task"], r["target"], r["given"]) == ("t1", "bob", "ann")]
    assert one["logprobs_nats"] == pytest.approx([math.log(1 / 2)] * 3)
    assert (one["tokens"], one["sum_logprob_nats"]) == (3, pytest.approx(3 * math.log(1 / 2)))


def test_results_never_replace_the_evidence_they_are_read_from(evaluate, tmp_path):
    folder = save_run(evaluate(metrics=["gem", "gem-raw"], rewriter=upper()), tmp_path / "run")
    again = goldless.evaluate(folder, metrics=["length"], recorded=True, resamples=200)
    with pytest.raises(UserError, match="is the input folder"):
        save_run(again, folder)
    assert (folder / "rewrites").is_dir()
