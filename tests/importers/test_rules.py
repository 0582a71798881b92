"""The rules by which the log of any tool becomes a study; every expected value is read off the rows themselves."""

from __future__ import annotations

import pytest

from goldless.studies.checking import Problems
from goldless.studies.importers.log import Log, study_tables

ROWS = [
    {"task": "t1", "agent": "a", "text": "one", "prompt": "Count.", "source": "a.jsonl:1", "cost_usd": 0.5},
    {"task": "t1", "agent": "a", "text": "uno", "prompt": "Count.", "source": "a.jsonl:2", "cost_usd": None},
    {"task": "t1", "agent": "b", "text": None, "missing": "error", "message": "timeout", "source": "b.jsonl:1"},
    {"task": "t2", "agent": "b", "text": " ", "prompt": "Go on.", "reference": "two", "source": "b.jsonl:2"},
]


def tables(rows, repeats="samples", **more):
    problems = Problems()
    found = study_tables(Log(rows, **more), problems, repeats)
    return found, [problem.message for problem in problems.error("x").problems]


def test_several_responses_of_an_agent_are_samples_of_it():
    found, said = tables(
        [*ROWS, {"task": "t2", "agent": "a", "text": "two"}, {"task": "t2", "agent": "c", "text": "2"}]
    )
    assert not said
    assert found["responses"].rows() == [
        ("t1", "a", "1", "one"),
        ("t1", "a", "2", "uno"),
        ("t2", "a", "1", "two"),
        ("t2", "c", None, "2"),
    ]


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        ("first", [("t1", "a", "one")]),
        ("agents", [("t1", "a", "one"), ("t1", "a#2", "uno")]),
        ("tasks", [("t1", "a", "one"), ("t1#2", "a", "uno")]),
    ],
)
def test_repeats_are_the_first_or_more_agents_or_more_tasks(repeats, expected):
    found, said = tables(ROWS, repeats)
    assert not said
    assert found["responses"].rows() == expected


def test_what_is_missing_is_typed_and_keeps_its_agent_and_task():
    found, _ = tables(ROWS, "first")
    assert found["imported"].select("task", "agent", "missing", "message", "source").rows() == [
        ("t1", "a", None, None, "a.jsonl:1"),
        ("t1", "b", "error", "timeout", "b.jsonl:1"),
        ("t2", "b", "empty", None, "b.jsonl:2"),
    ]
    assert found["imported"]["cost_usd"].to_list() == [0.5, None, None]
    assert found["agents"]["agent"].to_list() == ["a", "b"]
    assert found["tasks"].rows() == [("t1", "Count.", None), ("t2", "Go on.", "two")]


def test_a_task_with_two_prompts_is_refused_with_the_count_and_both_places():
    rows = [ROWS[0], {**ROWS[0], "agent": "b", "prompt": "Count!", "source": "b.jsonl:7"}, ROWS[3]]
    (message,) = tables(rows)[1]
    assert message.startswith(
        "1 of 2 tasks have a different prompt under different agents, such as 't1' (a.jsonl:1 and "
    )


def test_a_log_without_any_response_is_a_problem_that_counts_the_causes():
    assert tables(ROWS[2:])[1] == ["no response among 2 samples: empty 1, error 1"]
