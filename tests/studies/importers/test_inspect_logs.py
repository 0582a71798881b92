"""Logs of Inspect, written by inspect_ai 0.3.285 with its mock model: what was said, and what is missing and why.

``files/inspect/make_logs.py`` made them; what is expected here is written there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import goldless as library
from goldless.errors import PrerequisiteError, StudyError
from goldless.studies import import_study, read_study
from goldless.studies.importers.catalogue import importer_for

pytestmark = pytest.mark.xdist_group("inspect")
LOGS = Path(__file__).parent / "files" / "inspect"
ALPHA, BETA, GAMMA, DELTA, EPSILON, ZETA = (
    LOGS / name for name in ("alpha.eval", "beta.json", "gamma.eval", "delta.eval", "epsilon.eval", "zeta.eval")
)


@pytest.fixture(scope="module", autouse=True)
def inspect_log():
    """It takes seconds to import: only where its tests run."""
    return pytest.importorskip("inspect_ai.log", exc_type=ImportError)


@pytest.fixture(scope="module")
def study():
    return import_study([ALPHA, BETA, GAMMA, DELTA, ZETA])


def test_eval_and_json_logs_are_recognised_and_other_json_is_not(tmp_path):
    assert [importer_for(path)[0] for path in (ALPHA, BETA)] == ["inspect", "inspect"]
    other = tmp_path / "other.json"
    other.write_text('[{"task": "t", "agent": "a", "text": "x"}]')
    assert importer_for(other)[0] != "inspect"


def test_models_are_agents_and_samples_are_tasks_with_prompt_and_reference(study):
    assert [agent.agent for agent in study.agents] == [
        f"mockllm/{x}" for x in ("alpha", "beta", "gamma", "delta", "zeta")
    ]
    assert list(study.tasks) == ["facts/q1", "facts/q2", "facts/q3"]
    task = study.task("facts/q2")
    assert (task.prompt, task.reference) == ("What holds planets near the sun?", "gravity")


def test_the_response_is_the_text_without_the_reasoning(study):
    assert study.response("facts/q1", "mockllm/alpha").text == "chlorophyll absorbs red light"
    assert study.response("facts/q3", "mockllm/beta").text == "pressure waves in air"


def test_what_is_not_a_response_is_missing_by_its_cause(study):
    table = study.table("imported").drop_nulls("missing")
    found = {(row["agent"], row["task"]): row["missing"] for row in table.to_dicts()}
    assert found == {
        ("mockllm/gamma", "facts/q1"): "error",
        ("mockllm/gamma", "facts/q2"): "refusal",
        ("mockllm/gamma", "facts/q3"): "truncated",
        ("mockllm/delta", "facts/q1"): "limit",
        ("mockllm/delta", "facts/q2"): "limit",
        ("mockllm/delta", "facts/q3"): "limit",
        ("mockllm/zeta", "facts/q3"): "cancelled",
    }
    assert study.origin.notes == ("zeta.eval: the run was cancelled; 2 samples are in it",)


def test_a_graders_score_is_a_judgement_a_programs_a_score_and_a_persons_edit_a_label(study):
    (label,) = study.ratings()
    assert (label.rater, label.task, label.agent, label.score) == ("ann", "facts/q2", "mockllm/alpha", 0.5)
    judged = study.table("judgements")
    assert set(judged["reviewer"]) == {"model_graded_qa"}
    assert judged["value"].to_list() == [1.0, 1.0, 1.0]
    assert judged["output"][0].startswith("It says what was asked for.")
    scores = study.table("scores").filter(task="facts/q2", agent="mockllm/alpha")
    assert scores["score"].to_list() == [1.0]  # what match found before ann's edit


def test_epochs_are_samples_of_the_model_unless_one_chooses_otherwise():
    samples = read_study(EPSILON)
    assert dict(samples.samples) == {"mockllm/epsilon#1": "mockllm/epsilon", "mockllm/epsilon#2": "mockllm/epsilon"}
    assert samples.n_responses == 6
    agents = import_study([EPSILON], repeats="agents")
    assert [agent.agent for agent in agents.agents] == ["mockllm/epsilon", "mockllm/epsilon#2"]
    assert agents.n_responses == 6
    first = import_study([EPSILON], repeats="first")
    assert (first.n_responses, len(first.agents)) == (3, 1)


def test_two_runs_of_a_model_that_differ_in_an_argument_are_two_agents(inspect_log, tmp_path):
    log = inspect_log.read_eval_log(str(ALPHA))
    log.eval.task_args = {"style": "short"}
    inspect_log.write_eval_log(log, str(tmp_path / "short.eval"))
    both = import_study([ALPHA, tmp_path / "short.eval"])
    assert [a.agent for a in both.agents] == ["mockllm/alpha (style=default)", "mockllm/alpha (style=short)"]


def test_a_truncated_log_is_one_message_that_names_it(tmp_path):
    cut = tmp_path / "cut.eval"
    cut.write_bytes(ALPHA.read_bytes()[:5000])
    with pytest.raises(
        StudyError, match=r"cut.eval: cannot be read as a log of Inspect .* It may be truncated"
    ) as found:
        import_study([cut, BETA])
    assert len(found.value.problems) == 1
    with pytest.raises(StudyError, match=r"cut\.eval: 1 problem"):
        import_study([cut])


def test_without_inspect_the_message_has_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'goldless\[inspect\]'"):
        read_study(ALPHA)


def test_one_command_gives_a_leaderboard_of_the_models_in_logs(goldless, tmp_path):
    ended = goldless("score", ALPHA, BETA, ZETA, "--metric", "rouge-l", "--out", tmp_path / "run", "--format", "json")
    assert ended.code == 0
    assert "read as inspect: 3 tasks, 3 agents, 8 responses, missing: cancelled 1" in ended.err
    assert {row.agent for row in library.read_study(tmp_path / "run").agents} >= {"mockllm/alpha", "mockllm/beta"}
