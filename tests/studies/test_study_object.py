from __future__ import annotations

import pytest

from goldless.errors import UserError
from goldless.records import Response, Task
from goldless.studies import read_study, study_from_records

TASKS = [{"task": f"t{i}", "prompt": f"p{i}", "synopsis_x": f"s{i}"} for i in range(3)]
RESPONSES = [
    {"task": f"t{i}", "agent": a, "text": f"{i}{a} é\n"} for i in range(3) for a in "abc" if (i, a) != (1, "b")
]
LABELS = [
    {"task": "t0", "agent": "a", "rater": "r", "score": 1},
    {"task": "t0", "first": "b", "second": "c", "rater": "r", "preference": -1},
    {"task": "t2", "first": "c", "second": "a", "rater": "q", "preference": 0.5, "criterion": "k"},
]
JUDGEMENTS = [
    {"reviewer": 1, "format": "pairwise", "task": "t0", "first": "a", "second": "b", "output": "one"},
    {"reviewer": 1, "format": "5-level", "task": "t1", "agent": "c", "output": 5, "token_logprobs": [-0.5, 0]},
]
EXAMS = [{"reviewer": "1", "exam": "pertinence", "task": "t0", "first": "relevant", "second": "irrelevant"}]


@pytest.fixture
def study(folder):
    return read_study(
        folder(name="small", tasks=TASKS, responses=RESPONSES, labels=LABELS, judgements=JUDGEMENTS, exams=EXAMS)
    )


def test_an_unknown_task_or_agent_is_an_error_that_suggests_the_nearest_and_lists_the_known_ones(study):
    with pytest.raises(UserError, match=r"no task 't00' in the study. Did you mean 't0'\? Tasks: t0, t1"):
        study.responses("t00")
    with pytest.raises(UserError, match=r"no agent 'x' in the study. Agents: "):
        study.response("t0", "x")


def test_a_recorded_table_is_a_frame_with_names_as_text(study):
    frame = study.table("judgements")
    assert frame.to_dicts() == [
        {**JUDGEMENTS[0], "reviewer": "1", "agent": None, "token_logprobs": None},
        {**JUDGEMENTS[1], "reviewer": "1", "output": "5", "first": None, "second": None, "token_logprobs": [-0.5, 0.0]},
    ]
    assert study.table("logprobs") is None
    assert study.recorded == ("judgements", "exams")


def test_a_part_of_a_study_holds_only_what_is_about_its_tasks_and_agents(study):
    part = study.subset(tasks=["t2", "t0"], agents=["c", "a"])
    assert part.tasks == ("t0", "t2")
    assert [agent.agent for agent in part.agents] == ["a", "c"]
    assert [r for _, responses in part for r in responses] == [
        Response(task, agent, f"{task[1]}{agent} é\n") for task in ("t0", "t2") for agent in "ac"
    ]
    assert [(label.task, label.rater) for label in part.labels()] == [("t0", "r"), ("t2", "q")]
    assert part.table("judgements").height == 0
    assert part.table("exams").height == 1
    assert part.task("t2").prompt == "p2"
    assert part.response("t2", "c").text == "2c é\n"


def test_a_part_of_nothing_or_of_strangers_is_an_error(study):
    with pytest.raises(UserError, match="at least one task"):
        study.subset(tasks=[])
    with pytest.raises(UserError, match="no agent 'z'"):
        study.subset(agents=["a", "z"])


def test_the_fingerprint_does_not_change_with_the_order_of_agents_or_labels(folder, study):
    agents = [{"agent": agent, "group": "g"} for agent in "cba"]
    other = read_study(folder(name="other", tasks=TASKS, responses=RESPONSES, agents=agents))
    assert other.fingerprint == study.fingerprint


# --- made of records --------------------------------------------------------------------------------------------------

ASKED = (
    Task("t2", "Why?", "So.", {"abstract": "short"}, {"tags": [1, 2]}),
    Task("t1"),
)
SAID = (
    Response("t1", "bob", "naïve \x00 text"),
    Response("t2", "ann", "Ann."),
    Response("t2", "bob", "  "),
)


def test_a_response_to_no_task_and_anything_given_twice_are_errors():
    with pytest.raises(UserError, match="task 't1' is given twice"):
        study_from_records([*ASKED, Task("t1", "again")], [])
    with pytest.raises(UserError, match="the response of 'ann' is to 't9', which is not one of the tasks"):
        study_from_records(ASKED, [Response("t9", "ann", "x")])
    with pytest.raises(UserError, match="'ann' has two responses to task 't2'"):
        study_from_records(ASKED, [SAID[1], SAID[0], SAID[1]])
