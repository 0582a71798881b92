"""``--format`` and ``--out``: the same numbers in every format, and results in folders.

That every verb prints sound tables is tested on the golden outputs.
"""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest

import goldless as package
from goldless.models.scripted import ScriptedModel
from goldless.runs.store import save_result
from latex_reader import read_latex

TASKS = [f"t{i}" for i in range(5)]
WORTH = {"a_b & 50%": 3, "bob": 2, "cy": 1}
"""What people give each agent; the first has a name that LaTeX and Markdown must not obey."""
TEXTS = {task: {agent: f"{'word ' * worth}{task}" for agent, worth in WORTH.items()} for task in TASKS}


def judged(task, reviewer, first, second):
    """The honest reviewer says what people say, the lazy one always the first."""
    better = reviewer == "lazy" or WORTH[first] > WORTH[second]
    row = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
    return row | {"output": "one" if better else "two"}


def logprobs(task):
    """What an agent tells about another's response is its worth in nats."""
    for target in WORTH:
        head = {"scorer": "toy", "task": task, "target": target}
        yield head | {"given": None, "sum_logprob_nats": -9.0}
        yield from (
            head | {"given": agent, "sum_logprob_nats": -9.0 + worth}
            for agent, worth in WORTH.items()
            if agent != target
        )


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    pairs = [(one, other) for one in WORTH for other in WORTH if one != other]
    tables = {
        "responses": [{"task": t, "agent": a, "text": x} for t, by in TEXTS.items() for a, x in by.items()],
        "labels": [{"task": t, "agent": a, "rater": "p", "score": s} for t in TASKS for a, s in WORTH.items()],
        "judgements": [judged(t, r, *pair) for t in TASKS for r in ("honest", "lazy") for pair in pairs],
        "logprobs": [row for task in TASKS for row in logprobs(task)],
    }
    for name, rows in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def shared_words(context, target):
    known = set(context.split())
    return [-0.5 if word in known else -2.0 for word in target.split()]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Two runs of one study by scorers that see the same words."""
    folder = tmp_path_factory.mktemp("formats")
    rows = [{"task": f"other {t}", "agent": a, "text": x} for t, by in TEXTS.items() for a, x in by.items()]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("one", "two"):
        scorer = ScriptedModel(logprobs=shared_words, name=name)
        options = {"resamples": 200, "journal": folder / "journal.sqlite"}
        result = package.evaluate(folder / "answers.jsonl", metrics="gem-raw", scorer=scorer, **options)
        package.save_run(result, folder / "runs" / name)
    return folder / "runs"


@pytest.fixture
def runs(two_runs, tmp_path):
    shutil.copytree(two_runs, tmp_path, dirs_exist_ok=True)
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def command(study, runs):
    """The words of a command that prints tables."""
    quick = ("--resamples", 200)
    panel = ("--recorded", "--reviewers", "honest,lazy", *quick)
    return {
        "score": ("score", study, "--metric", "gem-raw", "--recorded", *quick),
        "review": ("review", study, *panel),
        "crashtest": ("crashtest", study, "--metric", "length", "--perturbation", "null,praise", *quick),
        "agree": ("agree", study, *panel),
        "bias": ("bias", study, *panel),
        "cost": ("cost", study, "--metric", "rouge-l", *quick),
        "consistency": ("consistency", *runs, *quick),
    }.__getitem__


def test_the_leaderboard_has_the_same_numbers_in_latex_and_csv(goldless, command):
    """An agent tells its worth about each of its two peers; in its own place is what the others tell: 2.5 for 3."""
    (table,) = read_latex(goldless(*command("score"), "--format", "latex").out)
    rows = list(csv.DictReader(io.StringIO(goldless(*command("score"), "--format", "csv").out)))
    assert [(row["agent"], float(row["score"])) for row in rows] == [("a_b & 50%", 2.5), ("bob", 2), ("cy", 1.5)]
    assert [line[1:3] for line in table.rows[1:]] == [["a_b & 50%", "2.50"], ["bob", "2.00"], ["cy", "1.50"]]
    assert table.comments[-1] == rows[0]["signature"]


# --- results in folders --------------------------------------------------------------------------------------------

FILES = {"agree": "agreement", "bias": "bias", "cost": "cost", "consistency": "consistency"}


@pytest.mark.parametrize("verb", FILES)
def test_the_folder_has_what_json_and_markdown_print_and_a_report(goldless, command, tmp_path, verb):
    folder, name = tmp_path / "results", FILES[verb]
    ended = goldless(*command(verb), "--json", "--out", folder)
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


@pytest.mark.parametrize("verb", ["agree", "bias", "cost"])
def test_results_of_another_study_are_not_mixed_in(goldless, command, runs, verb):
    ended = goldless(*command(verb), "--out", runs[0])
    assert ended.code == 2
    assert "has results of another study" in ended.err
    assert ended.out == ""


def test_the_consistency_of_runs_goes_beside_one_of_them_and_not_beside_others(goldless, command, runs, study):
    assert goldless(*command("consistency"), "--out", runs[0]).code == 0
    assert json.loads((runs[0] / "made_by.json").read_text())["study"] == "answers"
    goldless(*command("score"), "--out", study.parent / "scored")
    ended = goldless(*command("consistency"), "--out", study.parent / "scored")
    assert ended.code == 2
    assert "has results of another study" in ended.err


def test_a_result_goes_into_no_folder_that_holds_a_study(goldless, command, study):
    ended = goldless(*command("agree"), "--out", study)
    assert ended.code == 2
    assert "is a study" in ended.err
    assert not (study / "agreement.json").exists()


def test_a_result_without_its_study_keeps_what_the_folder_knows(tmp_path, runs):
    before = json.loads((runs[0] / "made_by.json").read_text())
    data = {"rows": [], "level": 0.95, "signatures": {}, "notes": [], "complete": True}
    for folder in (runs[0], tmp_path / "new"):
        save_result(None, folder, verb="consistency", name="consistency", data=data, markdown="none\n")
        assert json.loads((folder / "consistency.json").read_text()) == data
        assert (folder / "report.html").is_file()
    assert json.loads((runs[0] / "made_by.json").read_text())["fingerprint"] == before["fingerprint"]
    assert "fingerprint" not in json.loads((tmp_path / "new" / "made_by.json").read_text())
