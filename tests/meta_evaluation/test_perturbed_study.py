"""``goldless crashtest --write``: a study that can be scored, nothing written over, and nothing paid twice."""

from __future__ import annotations

import json

import anyio
import pytest

import goldless as library
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation
from goldless.meta_evaluation.perturbations.perturbation import perturb_study
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.runs.options import Options
from tests.support.study_files import study_folder

TEXTS = {
    "t1": {"ann": "Ann one. Ann two.", "bob": "Bob one. Bob two."},
    "t2": {"ann": "Only one.", "bob": "Bob three. Bob four."},
}


@pytest.fixture
def study(study_file):
    return study_file(TEXTS)


def test_copies_stand_beside_their_originals_in_groups(goldless, study, tmp_path):
    ended = goldless(
        "crashtest", study, "--write", tmp_path / "new", "--agents", "ann", "--perturbation", "deletion,praise"
    )
    assert ended.code == 0
    made = library.read_study(tmp_path / "new")
    assert {agent.agent: agent.group for agent in made.agents} == {
        "ann": "original",
        "bob": "peer",
        "ann~deletion": "degradation",
        "ann~praise": "manipulation",
    }
    assert made.response("t1", "ann~deletion").text == "Ann one."
    assert made.response("t1", "ann").text == "Ann one. Ann two."
    assert "left unchanged by their perturbation: 1" in ended.err
    assert f"goldless score {tmp_path / 'new'} --peers bob --compare-groups original degradation" in ended.err


def test_by_default_all_that_need_no_model_are_made_of_all_agents(goldless, study, tmp_path):
    ended = goldless("crashtest", study, "--write", tmp_path / "new", "--format", "json")
    read = json.loads(ended.out)
    assert [row["name"] for row in read["rows"]] == list(MODEL_FREE)
    counted = {row["name"]: (row["asked"], row["made"], row["missing"]) for row in read["rows"]}
    assert counted.pop("prompt-copy") == (4, 0, 4)  # the tasks have no prompts
    assert set(counted.values()) == {(4, 4, 0)}
    assert len(library.read_study(tmp_path / "new").agents) == 2 + 2 * (len(MODEL_FREE) - 1)
    assert "copies would be compared with their own originals" in ended.err


def test_a_perturbation_and_a_strategy_of_one_name_are_two_agents(goldless, study, tmp_path):
    asked = ("--perturbation", "null", "--strategy", "null", "--agents", "ann", "--format", "json")
    ended = goldless("crashtest", study, "--write", tmp_path / "new", *asked)
    rows = json.loads(ended.out)["rows"]
    assert [(row["group"], row["made"]) for row in rows] == [("degradation", 2), ("problematic", 2)]
    assert {agent.agent for agent in library.read_study(tmp_path / "new").agents} == {"ann", "bob", "ann~null", "null"}


def test_labels_and_other_columns_of_tasks_are_kept(goldless, tmp_path):
    folder = study_folder(
        tmp_path / "old",
        tasks=[{"task": "t1", "prompt": "Why?", "synopsis_abstract": "s", "tags": [1, 2]}],
        responses=[{"task": "t1", "agent": "ann", "text": "One. Two."}],
        labels=[{"task": "t1", "agent": "ann", "rater": "r", "score": 3}],
    )
    assert goldless("crashtest", folder, "--write", tmp_path / "new", "--perturbation", "deletion").code == 0
    made = library.read_study(tmp_path / "new")
    assert made.task("t1") == library.read_study(folder).task("t1")
    assert [rating.score for rating in made.ratings()] == [3.0]


def test_nothing_is_written_over(goldless, study, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "tasks.jsonl").write_text("{}")
    ended = goldless("crashtest", study, "--write", tmp_path / "new", "--perturbation", "deletion")
    assert (ended.code, "already exists. Choose a new folder" in ended.err) == (2, True)
    assert (tmp_path / "new" / "tasks.jsonl").read_text() == "{}"


def test_strategies_become_agents_and_originals_keep_their_place(goldless, study_file, script_file, tmp_path):
    path = tmp_path / "prompted.jsonl"
    path.write_text('{"task": "t1", "agent": "ann", "text": "One.", "prompt": "Why?"}\n')
    script = script_file([{"prompt": "Why?", "answer": "notes"}, {"prompt": "notes", "answer": "Because."}])
    arguments = ["crashtest", path, "--strategy", "brief,null", "--writer", f"scripted:{script}"]
    ended = goldless(*arguments, "--write", tmp_path / "new")
    assert ended.code == 0
    made = library.read_study(tmp_path / "new")
    assert {agent.agent: agent.group for agent in made.agents} == {
        "ann": "peer",
        "brief": "good faith",
        "null": "problematic",
    }
    assert made.response("t1", "brief").text == "Because."
    assert "2 calls now" in ended.err
    again = goldless(*arguments, "--write", tmp_path / "again")
    assert "0 calls now" in again.err
    assert "2 from the journal" in again.err


def test_open_calls_write_nothing_end_with_3_and_are_asked_again(study, tmp_path):
    failing = {"Ann one. Ann two."}

    def answer(request):
        text = request.messages[-1].content
        return CallFailure("rate_limited", "later") if text in failing else f"Re: {text}"

    writer = ScriptedModel(answers=answer)
    options = Options.of(journal=tmp_path / "journal.sqlite")

    def run():
        rephrase = [find_perturbation("rephrase")]
        return perturb_study(library.read_study(study), tmp_path / "new", rephrase, writer=writer, options=options)

    first = anyio.run(run)
    assert (first.folder, first.open, dict(first.failures)) == (None, 1, {"rate_limited": 1})
    assert not (tmp_path / "new").exists()
    failing.clear()
    second = anyio.run(run)
    assert second.folder == str(tmp_path / "new")
    assert len(writer.calls) == 4 + 1
    assert library.read_study(tmp_path / "new").response("t1", "ann~rephrase").text == "Re: Ann one. Ann two."
