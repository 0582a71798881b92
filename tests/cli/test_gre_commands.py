"""``goldless gre`` by the command line."""

from __future__ import annotations

import csv
import io
import json

import pytest
from edition_folders import papers_folder, write_rows

from goldless.studies import read_study

TABLE3 = {
    # GEM paper, Table 3 (its cells are Pearson's coefficients)
    "gem": (0.55, 0.68, 0.74, 0.58, 0.37, 0.36, 0.60),
    "gem-s[abstract]": (0.66, 0.70, 0.82, 0.73, 0.43, 0.43, 0.67),
    "gem-s[assw]": (0.68, 0.78, 0.84, 0.73, 0.43, 0.48, 0.71),
}


@pytest.fixture
def collected(goldless, tmp_path):
    """An edition of two papers."""
    folder = tmp_path / "2024"
    ended = goldless("gre", "collect", folder, "--from-folder", papers_folder(tmp_path / "papers"), "--seed", "1")
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture
def reviews(collected, tmp_path):
    """A script that reviews both papers."""
    study = read_study(collected / "study")
    rows = [
        {"prompt": study.task(t).prompt, "answer": f"<summary>{study.response(t, 'reference1').text}</summary>"}
        for t in study.tasks
    ]
    write_rows(tmp_path / "reviews.jsonl", rows)
    return f"scripted:{tmp_path / 'reviews.jsonl'}"


def test_collecting_from_a_folder_writes_a_config_and_a_study(collected, goldless):
    assert 'from_folder = "' in (collected / "edition.toml").read_text()
    checked = goldless("study", "check", collected / "study")
    assert checked.code == 0, checked.err
    assert "2 tasks, 3 agents, 6 responses" in checked.out


def test_papers_that_cannot_be_used_are_counted_by_reason(goldless, tmp_path):
    reviews = {"p1": ("a b", "c d", "e f"), "p2": ("a", "b"), "p3": ("a", " ", "c")}
    ended = goldless("gre", "collect", tmp_path / "e", "--from-folder", papers_folder(tmp_path / "papers", reviews))
    assert ended.code == 0, ended.err
    assert "1 paper with 3 human reviews" in ended.err
    assert "left out: 2 (2 few_reviews)" in ended.err


def test_fewer_papers_than_asked_for_is_an_error_with_the_reasons(goldless, tmp_path):
    folder = papers_folder(tmp_path / "papers", {"p1": ("a", "b", "c"), "p2": ("a", "b")})
    ended = goldless("gre", "collect", tmp_path / "e", "--from-folder", folder, "--papers", "2")
    assert ended.code == 2
    assert "few_reviews" in ended.err
    assert not (tmp_path / "e" / "study").exists()


def test_models_review_and_their_reviews_are_counted(goldless, collected, reviews, tmp_path):
    facts = tmp_path / "agents.csv"
    facts.write_text("agent,parameters,family,cutoff_date\nours,7e9,toy,2024-05\n")
    ended = goldless("gre", "review", collected, "--models", f"ours={reviews}", "--agents", facts)
    assert ended.code == 0, ended.err
    study = read_study(collected / "study")
    (ours,) = [agent for agent in study.agents if agent.agent == "ours"]
    assert (ours.group, ours.parameters, ours.family, ours.cutoff_date) == ("model", 7e9, "toy", "2024-05")
    assert study.table("generations")["failure"].to_list() == [None, None]


def test_a_whole_edition_is_run_from_its_config(goldless, tmp_path, reviews, collected, script_file):
    # a scorer that knows nothing gives no score, which is told; that every stage is run is what is shown here
    folder = tmp_path / "2025"
    folder.mkdir()
    (folder / "edition.toml").write_text(
        f'[collect]\nfrom_folder = "{tmp_path / "papers"}"\nseed = 1\n'
        f'[models.ours]\nmodel = "{reviews}"\n[score]\nmetrics = ["rouge-l"]\nresamples = 200\n'
    )
    ended = goldless("gre", "run", folder)
    assert ended.code == 0, ended.err
    assert (folder / "run" / "report.html").is_file()
    again = json.loads(goldless("gre", "run", folder, "--json").out)
    rows = {row["agent"]: row for row in again["scores"]["metrics"]["rouge-l"]["rows"]}
    assert set(rows) == {"human", "ours"}
    assert again["demonstration"] is None


def test_two_editions_are_compared(goldless, tmp_path):
    for year, scores in {"2023": (1.0, 2.0, 3.0), "2024": (10.0, 20.0, 30.0)}.items():
        lines = [f"{agent},{score}" for agent, score in zip("abc", scores, strict=True)]
        (tmp_path / f"{year}.csv").write_text("\n".join(["agent,gem", *lines]) + "\n")
    found = json.loads(goldless("gre", "compare", tmp_path / "2023.csv", tmp_path / "2024.csv", "--json").out)
    values = {one["coefficient"]: one["value"] for one in found["agreements"][0]["coefficients"]}
    assert values == pytest.approx({"pearson": 1.0, "spearman": 1.0, "kendall": 1.0})


def test_table_3_comes_out_of_the_published_tables(goldless):
    ended = goldless("gre", "correlate", "published:70b", "--benchmarks", "published", "--format", "csv")
    assert ended.code == 0, ended.err
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    for metric, cells in TABLE3.items():
        found = [float(row["pearson"]) for row in rows if row["metric"] == metric]
        assert [round(value, 2) for value in found] == list(cells)
    assert all(row["spearman"] and row["kendall"] for row in rows)


def test_the_two_published_scorers_agree_as_the_facts_say(goldless):
    found = json.loads(goldless("gre", "compare", "published:70b", "published:8b", "--json").out)
    told = {
        row["metric"]: {one["coefficient"]: round(one["value"], 3) for one in row["coefficients"]}
        for row in found["agreements"]
    }
    assert {metric: (one["pearson"], one["spearman"]) for metric, one in told.items()} == {
        "gem": (0.931, 0.942),
        "gem-s[abstract]": (0.915, 0.905),
        "gem-s[assw]": (0.899, 0.895),
    }


def test_the_published_board_is_shown_with_its_size_effect(goldless):
    ended = goldless("gre", "show", "published:70b")
    assert ended.code == 0, ended.err
    assert "claude-3-opus" in ended.out
    assert "25.77" in ended.out
    assert "per tenfold of parameters" in " ".join(ended.out.split())


def test_the_figure_is_drawn(goldless, tmp_path):
    ended = goldless("gre", "figure", "published:70b", "--out", tmp_path / "figure.svg")
    assert ended.code == 0, ended.err
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("collect",), "name a folder"),
        (("collect", "e", "--venue", "V", "--from-folder", "f"), "one of the two"),
        (("review", "nowhere", "--models", "embedded"), "is no edition"),
        (("score", "nowhere"), "is no edition"),
        (("show", "published:9b"), "was not published"),
        (("compare", "published:70b", "nowhere"), "no such file or folder"),
        (("correlate", "published:70b", "--benchmarks", "nowhere.csv"), "no such file"),
        (("figure", "published:70b", "--out", "figure.png"), "ends in .svg"),
    ],
)
def test_wrong_input_is_told_in_one_message(goldless, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    ended = goldless("gre", *arguments)
    assert ended.code == 2
    assert told in " ".join(ended.err.split())


def test_the_demonstration_refuses_an_edition_of_one_s_own(goldless, collected):
    ended = goldless("gre", "demo", "--out", collected)
    assert ended.code == 2
    assert "an edition of yours" in ended.err
