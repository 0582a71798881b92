"""``goldless consistency`` by the command line."""

from __future__ import annotations

import csv
import io
import json

import pytest

import goldless as package

TEXTS = {
    f"t{i}": {"ann": f"zarn bluk mipo w{i}", "bob": f"zarn bluk w{i}", "cy": "quex", "dee": f"mipo quex w{i}"}
    for i in range(4)
}


@pytest.fixture
def runs(study_file, toy_scorer, tmp_path):
    """Runs of one study by two scorers that see the same words."""
    study = study_file(TEXTS)
    for name, scorer in {"one": toy_scorer(name="one"), "two": toy_scorer(name="two")}.items():
        package.save_run(package.evaluate(study, metrics="gem-raw", scorer=scorer, resamples=200), tmp_path / name)
    return tmp_path / "one", tmp_path / "two"


def test_run_folders_are_compared_in_one_command(goldless, runs):
    ended = goldless("consistency", *runs, "--resamples", "200")
    assert ended.code == 0, ended.err
    for words in ("pearson", "spearman", "kendall", "1.000", "4 agents, 4 tasks", "one / two"):
        assert words in ended.out
    assert "percentiles" in ended.err


def test_json_and_csv_hold_all_coefficients_with_their_counts_and_signatures(goldless, runs):
    found = json.loads(goldless("consistency", *runs, "--resamples", "200", "--json").out)
    assert [(row["coefficient"], row["n_agents"], row["used"]) for row in found["rows"]] == [
        ("pearson", 4, 16),
        ("spearman", 4, 16),
        ("kendall", 4, 16),
    ]
    assert len(found["signatures"]) == 2
    rows = list(csv.DictReader(io.StringIO(goldless("consistency", *runs, "--format", "csv").out)))
    assert [float(row["value"]) for row in rows] == pytest.approx([1.0, 1.0, 1.0])
    assert all("scorer:scripted:one" in row["signature"] for row in rows)


def test_a_study_is_scored_with_each_scorer_that_is_named(goldless, study_file, script_file):
    texts = {"t1": {"ann": "a", "bob": "b", "cy": "c"}}
    scripts = [script_file([{"prompt": "x", "answer": "y"}], f"{name}.jsonl") for name in ("one", "two")]
    ended = goldless(
        "consistency", study_file(texts), "--scorer", f"scripted:{scripts[0]}", "--scorer", f"scripted:{scripts[1]}"
    )
    # neither gives log-probabilities: the scorers were opened, and refused
    assert ended.code == 2
    assert "does not return log-probabilities" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs two scorers"),
        (("--scorer", "embedded"), "at least twice"),
        (("other", "--scorer", "embedded", "--scorer", "gguf:x"), "one study"),
        (("other",), "is not a run folder"),
        (("--metric", "tvd-mi", "--scorer", "embedded", "--scorer", "gguf:x"), "does not use a scorer"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_exit_code_2(goldless, study_file, arguments, words):
    ended = goldless("consistency", study_file(TEXTS), *arguments)
    assert ended.code == 2
    assert words in " ".join(ended.err.split())
