"""A study made of records is the one that tables with the same content give."""

from __future__ import annotations

import pytest

from goldless.errors import UserError
from goldless.records import Response, Task
from goldless.studies import study_from_records

TASKS = (
    Task("t2", "Why?", "So.", {"abstract": "short"}, {"tags": [1, 2]}),
    Task("t1"),
)
RESPONSES = (
    Response("t1", "bob", "naïve \x00 text"),
    Response("t2", "ann", "Ann."),
    Response("t2", "bob", "  "),
)


def test_agents_come_in_the_order_of_their_first_response_and_blank_texts_are_kept():
    made = study_from_records(TASKS, RESPONSES, name="made")
    assert [agent.agent for agent in made.agents] == ["bob", "ann"]
    assert made.responses("t2") == (RESPONSES[2], RESPONSES[1])
    assert made.response("t1", "ann") is None
    assert (made.name, made.n_responses, made.n_ratings, made.recorded) == ("made", 3, 0, ())


def test_a_response_to_no_task_and_anything_given_twice_are_errors():
    with pytest.raises(UserError, match="task 't1' is given twice"):
        study_from_records([*TASKS, Task("t1", "again")], [])
    with pytest.raises(UserError, match="the response of 'ann' is to 't9', which is not one of the tasks"):
        study_from_records(TASKS, [Response("t9", "ann", "x")])
    with pytest.raises(UserError, match="'ann' has two responses to task 't2'"):
        study_from_records(TASKS, [RESPONSES[1], RESPONSES[0], RESPONSES[1]])
