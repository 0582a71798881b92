"""What runs cost by their folders, scaled to more tasks; a price nobody knows is not 0."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import goldless
from goldless.errors import UserError
from goldless.meta_evaluation.cost import run_costs
from goldless.models.interface import Usage
from goldless.models.scripted import ScriptedModel
from goldless.runs.opening import Spending
from goldless.runs.store import save_result

SERVER = "http://127.0.0.1:1/v1#model"


@pytest.fixture
def study(study_file):
    return goldless.read_study(study_file())


@pytest.fixture
def scored(toy_scorer, tmp_path):
    """Score a study and keep the run; ``spent``: what it is said to have cost instead."""

    def score(study, name="run", metrics="gem-raw", spent=None):
        result = goldless.evaluate(study, metrics=metrics, scorer=toy_scorer(), resamples=200)
        if spent is not None:
            result = replace(result, spending=(replace(result.spending[0], **spent),))
        return goldless.save_run(result, tmp_path / name)

    return score


def test_a_run_tells_what_was_spent_on_all_its_metrics(study, scored):
    """Three tasks of three agents: 18 conditionals and 9 marginals, of which cy's "quex" is asked for once."""
    folder = scored(study, metrics=["gem-raw", "mi"])
    spent = json.loads((folder / "made_by.json").read_text())["spending"][0]
    (row,) = run_costs([folder], tasks=3000).rows
    assert (row.run, row.metrics, row.part) == (str(folder), ("gem-raw", "mi"), "scorer")
    assert (row.n_tasks, row.n_agents) == (3, 3)
    assert (row.calls, row.reused) == (spent["calls"], spent["reused"])
    assert row.calls == 18 + 9 - 1
    assert row.tokens == spent["usage"]["input_tokens"] + spent["usage"]["output_tokens"]
    assert row.scaled.calls == pytest.approx(1000 * (row.calls + row.reused))
    assert row.usd == row.usd_per_task == 0.0


def test_a_task_costs_what_the_run_cost_by_its_tasks_and_probes_and_old_replies_are_allowed_for(study, scored):
    """3 USD for 300 tokens of which 200 are of 20 replies; 20 more replies are from the journal."""
    spent = {"calls": 22, "kept": 20, "reused": 20, "cost_usd": 3.0, "result_usd": 5.0}
    spent |= {"usage": Usage(290, 10), "kept_usage": Usage(195, 5)}
    report = run_costs([scored(study, spent=spent)], tasks=30)
    (row,) = report.rows
    assert (row.calls, row.reused, row.tokens, row.usd) == (22, 20, 300, 3.0)
    assert row.scaled.calls == pytest.approx((20 + 20) / 3 * 30)
    assert row.scaled.tokens == pytest.approx(2 * 200 / 3 * 30)
    assert row.scaled.usd == pytest.approx(2 * 2.0 / 3 * 30)
    assert row.usd_per_task == pytest.approx(4 / 3)
    assert (report.total.tokens, report.total.usd) == (row.scaled.tokens, row.scaled.usd)


def test_a_run_whose_replies_were_all_in_the_journal_knows_their_cost_and_not_their_tokens(study, scored):
    spent = {"calls": 0, "kept": 0, "reused": 26, "cost_usd": 0.0, "result_usd": 6.0, "usage": Usage()}
    report = run_costs([scored(study, spent={**spent, "kept_usage": Usage()})], tasks=30)
    (row,) = report.rows
    assert (row.scaled.calls, row.scaled.tokens, row.scaled.usd) == (260.0, None, 60.0)
    assert (report.total.tokens, report.total.usd) == (None, 60.0)
    assert any("does not record their tokens" in note for note in report.notes)


def test_a_price_that_is_unknown_is_said_to_be_and_makes_the_sum_unknown(study, scored):
    folders = scored(study), scored(study, "priceless", spent={"cost_usd": None, "result_usd": None, "calls": 5})
    report = run_costs(folders)
    assert [(row.usd, row.usd_per_task) for row in report.rows] == [(0.0, 0.0), (None, None)]
    assert (report.rows[1].scaled.usd, report.total.usd) == (None, None)
    assert "unknown" in report.tables()[0].to_markdown()


def test_a_run_without_models_cost_nothing(study, scored):
    (row,) = run_costs([scored(study, metrics="length")]).rows
    assert (row.part, row.calls, row.scaled.usd) == ("", 0, 0.0)


def test_a_budget_of_critic_calls_does_not_grow_with_the_tasks(tmp_path):
    rows = [(f"t{t}", agent, f"{agent} {t}") for t in range(12) for agent in ("ann", "bob", "cy")]
    study = goldless.study_from_frame(pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row"))
    critic = ScriptedModel(answers=lambda _: "yes", name="critic")
    result = goldless.evaluate(study, metrics="tvd-mi", critic=critic, budget_calls=48, resamples=200)
    (row,) = run_costs([goldless.save_run(result, tmp_path / "run")], tasks=12_000).rows
    assert row.scaled.calls == row.calls + row.reused <= 48
    assert row.scaled.tokens == row.tokens


def test_a_folder_with_a_run_and_a_review_is_charged_for_each_apart_and_for_no_other_verb(study, scored):
    folder = scored(study)
    reviewer = ScriptedModel(answers=lambda _: "one", name="lazy")
    goldless.save_review(goldless.review(study, reviewers={"lazy": reviewer}, resamples=200), folder)
    stranger = Spending("http:stranger", 99, 0, Usage(9999, 99), 7.0)
    save_result(study, folder, verb="agree", name="agreement", data={}, markdown="", spending=[stranger])
    score, review = run_costs([folder]).rows
    # 18 conditionals and 9 marginals; three pairs in both orders on three tasks
    assert (score.metrics, score.part, score.calls + score.reused) == (("gem-raw",), "scorer", 18 + 8)
    assert (review.metrics, review.part, review.calls) == (("review[pairwise]",), "lazy", 18)


def test_runs_of_several_studies_are_each_scaled_by_their_own_tasks(study, study_file, scored):
    other = study_file({"t1": {"ann": "x", "bob": "y"}}, "other.jsonl")
    first, second = run_costs([scored(study), scored(other, "other")], tasks=6).rows
    assert first.scaled.calls == pytest.approx((first.calls + first.reused) * 2)
    assert second.scaled.calls == pytest.approx((second.calls + second.reused) * 6)


def test_what_is_no_run_folder_is_refused_with_what_makes_one(study, study_file, scored, tmp_path):
    folder = scored(study)
    (folder / "made_by.json").write_text("{}")
    for path in (tmp_path / "nothing", Path(study_file()), folder):
        with pytest.raises(UserError, match=r"is not a run folder.*goldless score STUDY --out FOLDER"):
            run_costs([path])
