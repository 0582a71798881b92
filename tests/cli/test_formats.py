"""``--format`` and ``--out``: raters in every format, and results in folders.

That every verb prints sound tables is tested on the golden outputs.
"""

from __future__ import annotations

import json
from itertools import permutations

import pytest

import goldless as package
from tests.support.study_files import response_rows, study_folder

TASKS = [f"t{i}" for i in range(5)]
WORTH = {"a_b & 50%": 3, "bob": 2, "cy": 1}
"""What people give each agent; the first has a name that no format must obey."""
TEXTS = {task: {agent: f"{'word ' * worth}{task}" for agent, worth in WORTH.items()} for task in TASKS}


def judged(task, reviewer, first, second):
    """The honest reviewer says what people say, the lazy one always the first."""
    better = reviewer == "lazy" or WORTH[first] > WORTH[second]
    row = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
    return row | {"output": "one" if better else "two"}


@pytest.fixture
def study(tmp_path):
    pairs = list(permutations(WORTH, 2))
    return study_folder(
        tmp_path / "study",
        responses=response_rows(TEXTS),
        labels=[{"task": t, "agent": a, "rater": "p", "score": s} for t in TASKS for a, s in WORTH.items()],
        judgements=[judged(t, r, *pair) for t in TASKS for r in ("honest", "lazy") for pair in pairs],
    )


@pytest.fixture
def runs(study_file, toy_scorer, tmp_path):
    """Two runs of one study, another one, by scorers that see the same words."""
    path = study_file({f"other {task}": by for task, by in TEXTS.items()})
    for name in ("one", "two"):
        result = package.evaluate(path, metrics="gem-raw", scorer=toy_scorer(name=name), resamples=200)
        package.save_run(result, tmp_path / name)
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def command(study, tmp_path, goldless):
    """The words of a command that prints tables."""
    quick, scored = ("--resamples", 200), tmp_path / "scored before"
    assert goldless("score", study, "--metric", "length", *quick, "--out", scored).code == 0
    panel = ("--recorded", "--reviewers", "honest,lazy", *quick)
    return {
        "score": ("score", study, "--metric", "length", *quick),
        "review": ("review", study, *panel),
        "crashtest": ("crashtest", study, "--metric", "length", "--perturbation", "null,praise", *quick),
        "agree": ("agree", study, *panel),
        "bias": ("bias", study, *panel),
        "cost": ("plan", "--cost", scored),
    }.__getitem__


def test_raters_have_a_table_of_their_own_in_every_format(goldless, tmp_path):
    """Two that always agree on a fair coin: 1/2 sum |1/2 - 1/4| and |0 - 1/4| over four cells."""
    label = {"first": "ann", "second": "bob", "criterion": "tone"}
    rows = [label | {"task": f"t{t}", "rater": r, "preference": (-1) ** t} for t in range(20) for r in ("x", "y")]
    score = ("score", study_folder(tmp_path / "labelled", labels=rows), "--metric", "tvd-mi[labels]")
    assert "0.500" in goldless(*score).out
    assert "| tone | people (1) | 0.500 |" in goldless(*score, "--rater-group", "x=people", "--format", "markdown").out
    assert goldless(*score, "--format", "csv").out.startswith("metric,criterion,rater,value,null,excess,p,partners,")
    data = json.loads(goldless(*score, "--format", "json").out)
    assert data["metrics"]["tvd-mi[labels]"]["criteria"]["tone"]["overall"]["value"] == pytest.approx(0.5)


# --- results in folders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "name"), [("agree", "agreement"), ("bias", "bias"), ("cost", "cost")])
def test_the_folder_has_what_json_and_markdown_print_and_a_report(goldless, command, tmp_path, verb, name):
    folder = tmp_path / "results"
    ended = goldless(*command(verb), "--format", "json", "--out", folder)
    assert ended.code == 0, ended.err
    assert json.loads((folder / f"{name}.json").read_text()) == json.loads(ended.out)
    assert (folder / f"{name}.md").read_text().strip() == goldless(*command(verb), "--format", "markdown").out.strip()
    made = json.loads((folder / "made_by.json").read_text())
    assert list(made["made"]) == [verb]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert ended.err.replace("\n", " ").rstrip().endswith(f"report: {folder / 'report.html'}")


def test_results_of_all_verbs_stand_in_one_folder_that_can_be_read_as_the_study(goldless, command, study, tmp_path):
    folder = tmp_path / "together"
    for verb in ("score", "review", "crashtest", "agree", "bias", "cost"):
        ended = goldless(*command(verb), "--out", folder)
        assert ended.code in {0, 5}, ended.err
    made = json.loads((folder / "made_by.json").read_text())
    assert list(made["made"]) == ["score", "review", "crashtest", "agree", "bias", "cost"]
    assert made["study"] == "study"
    assert package.read_study(folder).fingerprint == package.read_study(study).fingerprint == made["fingerprint"]
    page = (folder / "report.html").read_text()
    for words in ("Ranking", "Who judged", "Crash test", "Agreement with people", "Bias of judges", "Cost"):
        assert words in page


def test_the_consistency_of_runs_goes_beside_one_of_them_and_not_beside_results_of_another_study(
    goldless, command, runs, tmp_path
):
    consistency = ("compare", "--rankings", *runs, "--resamples", 200)
    ended = goldless(*consistency, "--format", "json", "--out", runs[0])
    assert json.loads((runs[0] / "consistency.json").read_text()) == json.loads(ended.out)
    assert json.loads((runs[0] / "made_by.json").read_text())["study"] == "answers"
    goldless(*command("score"), "--out", tmp_path / "scored")
    ended = goldless(*consistency, "--out", tmp_path / "scored")
    assert ended.code == 2
    assert "has results of another study" in ended.err
    assert ended.out == ""


def test_a_result_goes_into_no_folder_that_holds_a_study(goldless, command, study):
    ended = goldless(*command("agree"), "--out", study)
    assert ended.code == 2
    assert "is a study" in ended.err
    assert not (study / "agreement.json").exists()
