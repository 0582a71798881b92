"""``goldless cost`` by the command line."""

from __future__ import annotations

import csv
import io
import json

import pytest

import goldless as package
from goldless.judging.scales import SCALES
from goldless.runs import progress_file

SERVER = "http://127.0.0.1:1/v1#model"
TEXTS = {f"t{i}": {"ann": f"good {i}", "bob": f"poor {i}", "cy": f"bad {i}"} for i in range(1, 6)}
ORDER = {"good": 3, "poor": 2, "bad": 1}


@pytest.fixture
def labelled(tmp_path, study_file):
    """A study whose people agree that good is better than poor, and poor than bad."""
    folder = tmp_path / "labelled"
    package.write_study(package.read_study(study_file(TEXTS)), folder)
    ratings = [
        {"task": task, "agent": agent, "rater": "p", "score": ORDER[text.split()[0]]}
        for task, by in TEXTS.items()
        for agent, text in by.items()
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ratings))
    return folder


def answer(kind: str, first: str, second: str) -> str:
    better = ORDER[first.split(maxsplit=1)[0]] > ORDER[second.split(maxsplit=1)[0]]
    return "one" if kind == "lazy" or better else "two"


@pytest.fixture
def recorded(labelled):
    """The same with judgements of an honest reviewer and of one that always says one."""
    rows = [
        {
            "reviewer": kind,
            "format": "pairwise",
            "task": task,
            "first": one,
            "second": other,
            "output": answer(kind, by[one], by[other]),
        }
        for kind in ("honest", "lazy")
        for task, by in TEXTS.items()
        for one in by
        for other in by
        if one != other
    ]
    (labelled / "judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return labelled


def test_metrics_are_listed_with_calls_tokens_and_an_unknown_price_said_to_be(goldless, study_file):
    ended = goldless("cost", study_file(), "--metric", "gem-raw", "--scorer", SERVER, "--tasks", "3000")
    assert ended.code == 0, ended.err
    assert "gem-raw" in ended.out
    assert "unknown" in ended.out
    assert "3,000 similar tasks" in ended.out
    assert "agents²" in ended.err


def test_json_scales_to_ten_thousand_tasks_unless_told_otherwise(goldless, study_file):
    ended = goldless("cost", study_file(), "--scorer", SERVER, "--price", "1,1", "--json")
    found = json.loads(ended.out)
    (row,) = found["rows"]
    assert row["scaled"]["tasks"] == 10_000
    assert row["scaled"]["calls"] == pytest.approx(row["calls"] / 3 * 10_000)
    assert found["total"]["usd"] == pytest.approx(row["usd"] / 3 * 10_000)


def test_reviewers_are_planned_without_asking_them(goldless, study_file):
    ended = goldless("cost", study_file(TEXTS), "--reviewers", f"far={SERVER}", "--reviewer-price", "far=2", "--json")
    found = json.loads(ended.out)
    (row,) = found["rows"]
    assert (row["metrics"], row["part"], row["calls"]) == (["review[pairwise]"], "far", 5 * 6)
    assert row["usd"] == pytest.approx(found["reviewers"][0]["tokens"] * 2 / 1e6)
    assert found["panels"] is None


def test_recorded_panels_are_compared_and_optimism_is_said(goldless, recorded):
    prices = ("--reviewer-price", "honest=10", "--reviewer-price", "lazy=0", "--tokens-per-judgement", "1000")
    ended = goldless("cost", recorded, "--recorded", *prices, "--resamples", "200", "--json")
    assert ended.code == 0, ended.err
    panels = json.loads(ended.out)["panels"]
    by_size = {panel["size"]: panel for panel in panels["by_size"]}
    assert (by_size[1]["reviewers"], by_size[1]["accuracy"]) == (["honest"], 1.0)
    # 30 judgements of 1000 tokens at 10 dollars a million
    assert by_size[1]["usd"] == pytest.approx(0.3)
    assert [(panel["reviewers"], panel["accuracy"]) for panel in panels["frontier"]] == [
        (["lazy"], 0.5),
        (["honest"], 1.0),
    ]
    told = goldless("cost", recorded, "--recorded", *prices, "--resamples", "200")
    assert "optimistic" in told.err
    assert "Frontier" in told.out


def test_without_prices_there_is_no_frontier_and_the_way_to_one_is_said(goldless, recorded):
    ended = goldless("cost", recorded, "--recorded", "--resamples", "200")
    assert ended.code == 0
    assert "Best panel of each size" in ended.out
    assert "Frontier" not in ended.out
    assert "--reviewer-price" in ended.err


def test_reviewers_that_are_asked_are_free_on_this_machine(goldless, labelled, tmp_path):
    lines = [
        {
            "prompt": SCALES["pairwise"].messages(one, other, prompt=None)[-1].content,
            "answer": answer("honest", one, other),
        }
        for by in TEXTS.values()
        for one in by.values()
        for other in by.values()
        if one != other
    ]
    script = tmp_path / "honest.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reviewers = f"honest=scripted:{script}"
    ended = goldless("cost", labelled, "--reviewers", reviewers, "--ask", "--resamples", "200", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["reviewers"][0]["tokens_from"] == "measured"
    assert found["panels"]["most_accurate"]["accuracy"] == 1.0
    assert found["panels"]["most_accurate"]["usd"] == 0.0


def test_a_run_folder_replaces_the_plan(goldless, study_file, toy_scorer, tmp_path):
    study = study_file()
    result = package.evaluate(study, metrics="gem-raw", scorer=toy_scorer(), resamples=200)
    folder = package.save_run(result, tmp_path / "run")
    found = json.loads(goldless("cost", study, "--run", folder, "--json").out)
    (row,) = found["rows"]
    assert (row["source"], row["calls"]) == ("spent", 26)


def test_csv_and_markdown_hold_every_table(goldless, recorded):
    options = ("cost", recorded, "--recorded", "--resamples", "200", "--format")
    tables = goldless(*options, "csv").out.split("\n\n")
    assert len(tables) == 4
    rows = list(csv.DictReader(io.StringIO(tables[3])))
    assert [row["size"] for row in rows] == ["1", "2"]
    assert all("panel-frontier|" in row["signature"] for row in rows)
    assert goldless(*options, "markdown").out.count("###") == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--recorded", "--ask", "--reviewers", "x"), "--recorded and --ask exclude each other"),
        (("--ask",), "--reviewers"),
        (("--tasks", "0"), "at least 1"),
        (("--reviewers", "far=embedded", "--reviewer-price", "far=cheap"), "NAME=USD"),
        (("--recorded",), "no labels"),
        (("--run", "nowhere"), "is not a run folder"),
    ],
)
def test_what_cannot_be_is_refused_with_exit_code_2(goldless, study_file, arguments, words):
    ended = goldless("cost", study_file(), "--scorer", SERVER, *arguments)
    assert ended.code == 2
    assert words in " ".join(ended.err.split())


def test_a_folder_is_told_that_the_work_is_done_once_though_panels_and_metrics_are_both_in_it(
    goldless, recorded, tmp_path, monkeypatch
):
    states = []
    real = progress_file.write_text

    def noted(path, text):
        if path.name == progress_file.PROGRESS_FILE:
            states.append(json.loads(text)["state"])
        real(path, text)

    monkeypatch.setattr(progress_file, "write_text", noted)
    chosen = ("--recorded", "--metric", "length", "--resamples", "200", "--out", tmp_path / "out")
    ended = goldless("cost", recorded, *chosen)
    assert ended.code == 0, ended.err
    assert (states[0], states[-1], states.count("done")) == ("running", "done", 1)


@pytest.mark.parametrize(("verb", "place"), [("cost", "panels"), ("bias", None), ("review", None)])
def test_a_margin_of_votes_can_be_named_and_stands_in_the_signature(goldless, recorded, verb, place):
    rows = [{"task": t, "first": "ann", "second": "bob", "rater": "p", "preference": 1} for t in TEXTS]
    (recorded / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for chosen, margin in (((), "1"), (("--margin", "0.5"), "0.5")):
        ended = goldless(verb, recorded, "--recorded", *chosen, "--resamples", "200", "--json")
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
        signature = (found if place is None else found[place])["signature"]
        assert f"ahead-by-{margin}|" in signature
    refused = goldless(verb, recorded, "--recorded", "--margin", "0", "--json")
    assert (refused.code, "above 0" in refused.err) == (2, True)
