"""Scores in other tools' formats. Expected numbers are those in the recorded run folders, or worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import polars as pl
import pytest

import goldless as library
from goldless.errors import UserError
from goldless.exporting.catalogue import export
from tests.support.paths import FIXTURES
from tests.support.study_files import response_rows
from tests.support.support_studies import support_rows

RUNS = FIXTURES / "runs"
SCORED, REVIEWED = RUNS / "score", RUNS / "review"
BOARD = json.loads((SCORED / "leaderboard.json").read_text())["metrics"]["gem-raw"]
LN4 = math.log(4)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- Every Eval Ever: the fields that its schema 0.3.0 requires -------------------------------------------------------


@pytest.fixture
def every(tmp_path) -> Path:
    return export(SCORED, tmp_path / "eee", exporter="eee", organization="us", relationship="third_party")


def test_eee_has_what_the_schema_requires_with_interval_and_signature(every):
    files = sorted(every.glob("data/sample/unknown/*/*.json"))
    assert [file.parent.name for file in files] == ["brief", "careful", "vague"]
    careful = json.loads(files[1].read_text())
    required = {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info"}
    assert required | {"eval_library", "evaluation_results"} <= careful.keys()
    assert careful["schema_version"] == "0.3.0"
    assert careful["source_metadata"]["evaluator_relationship"] == "third_party"
    result, expected = careful["evaluation_results"][0], BOARD["rows"][0]["estimate"]
    assert result["score_details"]["score"] == expected["value"]
    interval = result["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"], interval["confidence_level"]) == (
        expected["low"],
        expected["high"],
        0.95,
    )
    config = result["metric_config"]
    assert config["additional_details"]["signature"] == BOARD["signature"]
    assert (config["min_score"], config["max_score"], config["lower_is_better"]) == ("-Infinity", "Infinity", False)


def test_eee_leaves_length_out_and_names_the_critic_as_judge_and_no_judge_for_a_likelihood(every):
    data = json.loads(next(every.glob("data/*/*/careful/*.json")).read_text())
    configs = [row["metric_config"] for row in data["evaluation_results"]]
    judged = {config["metric_name"]: config.get("llm_scoring") for config in configs}
    assert list(judged) == ["gem-raw", "mi", "tvd-mi"]
    assert judged["gem-raw"] is None
    assert judged["tvd-mi"]["judges"][0]["model_info"]["name"] == "SmolLM2-135M-Instruct"


def test_eee_instances_link_to_the_aggregate_and_carry_the_text(every):
    aggregate = json.loads(next(every.glob("data/*/*/careful/*.json")).read_text())
    detail = aggregate["detailed_evaluation_results"]
    rows = lines(every / detail["file_path"])
    assert len(rows) == detail["total_rows"] == 12  # 4 tasks, 3 metrics
    study = library.read_study(SCORED)
    first = rows[0]
    assert first["evaluation_id"] == aggregate["evaluation_id"]
    assert first["output"]["raw"] == [study.response(first["sample_id"], "careful").text]
    assert first["input"]["raw"] == study.task(first["sample_id"]).prompt
    assert "no gold standard" in first["metadata"]["is_correct"]


def test_eee_is_read_back_as_the_same_responses_with_a_score_per_metric(every):
    again = library.read_study(every / "data" / "sample")
    study = library.read_study(SCORED)
    assert again.n_responses == study.n_responses == 12
    for task in study.tasks:
        for response in study.responses(task):
            assert again.response(f"sample/{task}", response.agent).text == response.text
    recorded = list(csv.DictReader(io.StringIO((SCORED / "response_scores.csv").read_text())))
    scores = again.table("scores")
    assert sorted(scores.filter(metric="goldless.mi")["score"]) == sorted(
        float(row["score"]) for row in recorded if row["metric"] == "mi"
    )


def test_eee_of_a_review_names_the_reviewers_with_their_weights(tmp_path):
    made = export(REVIEWED, tmp_path / "eee", exporter="eee")
    data = json.loads(next(made.glob("data/*/*/careful/*.json")).read_text())
    (result,) = data["evaluation_results"]
    judges = result["metric_config"]["llm_scoring"]["judges"]
    assert [(judge["model_info"]["name"], judge["weight"]) for judge in judges] == [
        ("scripted:bff40b53", 1.0),
        ("scripted:97756cac", 1.0),
    ]
    assert result["score_details"]["score"] == 1.0
    assert (result["metric_config"]["min_score"], result["metric_config"]["max_score"]) == (0.0, 1.0)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_markdown_is_a_table_with_the_numbers_of_the_board(goldless):
    ended = goldless("export", "markdown", SCORED, "--metric", "gem-raw")
    assert ended.code == 0
    first = BOARD["rows"][0]
    score = first["estimate"]
    interval = f"{score['low']:.2f} … {score['high']:.2f}"
    assert f"| 1 | {first['agent']} | {score['value']:.2f} | {interval} | 4 | 0/8 | - |" in ended.out
    assert f"`{BOARD['signature']}`" in ended.out
    assert "### mi" not in ended.out


def test_csv_has_a_row_per_response_with_text_scores_and_last_the_signatures(goldless):
    ended = goldless("export", "csv", SCORED)
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    recorded = list(csv.DictReader(io.StringIO((SCORED / "response_scores.csv").read_text())))
    scores = {(row["metric"], row["task"], row["agent"]): float(row["score"]) for row in recorded}
    assert len(rows) == 12
    signed = [name.endswith(" signature") for name in rows[0]]
    assert signed == sorted(signed)
    for row in rows:
        assert float(row["gem-raw"]) == scores["gem-raw", row["task"], row["agent"]]
        assert row["mi signature"].startswith("mi|")
        assert row["text"] == library.read_study(SCORED).response(row["task"], row["agent"]).text


# --- preference pairs -------------------------------------------------------------------------------------------------


@pytest.fixture
def three(three_agents, toy_scorer, tmp_path):
    """A scored study whose GEM is known: agents share words of ln 4 nats each."""
    rows = [row | {"prompt": "What?"} for row in response_rows(three_agents)]
    return library.evaluate(rows, metrics="gem-raw", scorer=toy_scorer(), journal=tmp_path / "journal.sqlite")


def test_pairs_are_those_at_least_a_margin_apart_better_first(three, tmp_path):
    made = library.export(three, tmp_path / "pairs.jsonl", exporter="dpo-pairs", margin=0.99 * LN4)
    # shared words in t1: ann and bob 3, cy none; with two peers a score is half the sum, so ann = bob = 1.5 ln 4, cy 0
    # in t2: ann and bob 2, so 1 ln 4, cy 0; in t3 lirp and hoft are shared by two each: 0.5, 1, 0.5: too near
    found = {(row["task"], row["chosen_agent"], row["rejected_agent"]): row["difference"] for row in lines(made)}
    assert found == {
        ("t1", "ann", "cy"): pytest.approx(1.5 * LN4),
        ("t1", "bob", "cy"): pytest.approx(1.5 * LN4),
        ("t2", "ann", "cy"): pytest.approx(LN4),
        ("t2", "bob", "cy"): pytest.approx(LN4),
    }
    first = next(row for row in lines(made) if row["chosen_agent"] == "ann")
    assert (first["prompt"], first["chosen"], first["rejected"]) == ("What?", "zarn bluk mipo tolu", "quex")
    assert first["signature"].startswith("gem-raw|")


def test_decided_pairs_are_those_of_agents_that_the_board_tells_apart_the_better_one_chosen(toy_scorer, tmp_path):
    study = pl.DataFrame(support_rows("good", "short", "verbose"))
    result = library.evaluate(study, metrics="gem-raw+control", scorer=toy_scorer())
    board = {row.agent: row.better_than for row in result.leaderboard().rows}
    assert "verbose" in board["good"]
    rows = lines(library.export(result, tmp_path / "pairs.jsonl", exporter="dpo-pairs", decided=True))
    assert {row["chosen_agent"] for row in rows if row["rejected_agent"] == "verbose"} >= {"good"}
    assert all(row["rejected_agent"] in board[row["chosen_agent"]] and row["difference"] > 0 for row in rows)


def test_what_decides_nothing_gives_no_decided_pairs(tmp_path):
    """On the run's four tasks no comparison is significant: the recorded p values are .75, .375 and .375."""
    with pytest.raises(UserError, match="gem-raw decides between no two agents"):
        export(SCORED, tmp_path / "pairs.jsonl", exporter="dpo-pairs", decided=True)
    with pytest.raises(UserError, match="--margin 1 keeps"):
        export(REVIEWED, tmp_path / "pairs.jsonl", exporter="dpo-pairs", decided=True)


def test_pairs_of_a_review_are_those_its_judges_agree_on_in_both_orders(tmp_path):
    made = export(REVIEWED, tmp_path / "pairs.jsonl", exporter="dpo-pairs", margin=1.0)
    rows = lines(made)
    # the win rates in the folder are 1, 0.5, 0; r1's consistency is 1 and r2's 11/12: one of 12 pairs is left out
    order = ["careful", "vague", "brief"]
    assert len(rows) == 11
    assert all(order.index(row["chosen_agent"]) < order.index(row["rejected_agent"]) for row in rows)
