"""Results that promptfoo wrote; see files/README.md. Expected values are read off those files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goldless.errors import StudyError
from goldless.studies import import_study, read_study

FILES = Path(__file__).parent / "files" / "promptfoo"


@pytest.fixture
def results():
    return json.loads((FILES / "results.json").read_text())


@pytest.fixture
def read(tmp_path):
    def run(data, name="results.json", **options):
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return read_study(path, **options)

    return run


@pytest.mark.parametrize("name", ["results.json", "results.jsonl"])
def test_both_formats_are_the_same_study(name):
    study = read_study(FILES / name)
    assert {agent.agent for agent in study.agents} == {"parrot", "careful"}
    sky, grass, tomato = sorted(study.tasks)
    assert (study.task(sky).prompt, sky[:2]) == ("Which colour has the sky?", "0-")
    assert study.response(sky, "careful").text == "The sky is blue on a clear day."
    assert json.loads(study.response(grass, "careful").text) == {"colour": "green", "sure": True}
    assert study.response(tomato, "careful") is None
    missing = study.table("imported").drop_nulls("missing").select("task", "agent", "missing", "message").rows()
    assert missing == [(tomato, "careful", "error", "the model is busy (script)")]


def test_people_label_models_judge_and_programs_score():
    study = read_study(FILES / "results.json")
    sky, grass, _ = sorted(study.tasks)
    (rating,) = study.ratings()
    assert (rating.task, rating.agent, rating.rater, rating.score) == (grass, "careful", "human", 0.0)
    judged = study.table("judgements")
    assert set(judged.select("reviewer", "value", "output", "criterion").rows()) == {
        ("llm-rubric", 0.75, "It names a colour.", "names a colour")
    }
    assert judged.height == 4
    scores = study.table("scores")
    assert set(scores.filter(metric="contains").rows()) == {
        (sky, "parrot", "contains", 0.0),
        (sky, "careful", "contains", 1.0),
    }
    assert scores.filter(metric="llm-rubric").height == 4
    costs = study.table("imported").filter(agent="careful", task=sky)
    assert costs["cost_usd"].to_list() == [0.001]


def test_a_failed_assertion_is_a_response_and_a_failed_grader_is_not_a_judgement(read, results):
    rows = results["results"]["results"]
    failed = next(row for row in rows if row["failureReason"] == 1)
    failed["gradingResult"]["componentResults"][1]["metadata"] = {"graderError": True}
    study = read(results)
    assert study.n_responses == 5
    assert study.table("judgements").height == 3
    assert study.origin.notes == ("1 grades are missing because the grader failed",)


def test_refusals_and_texts_cut_at_the_limit_are_missing(read, results):
    parrot = [row for row in results["results"]["results"] if row["provider"]["label"] == "parrot"]
    parrot[0]["response"]["isRefusal"] = True
    parrot[1]["response"]["finishReason"] = "length"
    study = read(results)
    assert sorted(study.table("imported")["missing"].drop_nulls()) == ["error", "limit", "refusal"]


def test_several_prompts_are_agents_of_their_own(read, results):
    more = json.loads(json.dumps(results["results"]["results"]))
    for row in more:
        row["prompt"] = {"raw": "Colour?", "label": "short"}
    results["results"]["results"] += more
    study = read(results)
    assert "parrot | short" in {agent.agent for agent in study.agents}
    assert study.task(min(study.tasks)).prompt == '{"thing":"the sky"}'


def test_the_same_run_twice_is_two_samples_and_another_model_of_the_name_is_refused(tmp_path, results):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_text(json.dumps(results))
    assert set(import_study(paths).samples.values()) == {"parrot", "careful"}
    for row in results["results"]["results"]:
        row["provider"]["id"] = "openai:other"
    paths[1].write_text(json.dumps(results))
    with pytest.raises(StudyError, match=r"'parrot' is the name of 2 models: echo .a.json:.*, openai:other .b.json"):
        import_study(paths)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"evalId": "x", "results": {"version": 2, "table": {}}}', "must be of version 3, got 2. Export them"),
        ('{"evalId": "x", "results": {"version": 3, "results": [', "not JSON: .* Is the file complete"),
        ('{"evalId": "x", "results": {"version": 3, "results": []}}', "no response among 0 samples"),
        ('{"evalId": "x", "results": {"version": 3, "results": [{}]}}', "a result must have promptIdx, provider"),
    ],
)
def test_files_of_other_versions_cut_and_empty_ones_are_one_message(read, data, said):
    with pytest.raises(StudyError, match=said):
        read(data)
