"""Tasks are either trained on or held out, by a seed, and each gives exactly three responses."""

from __future__ import annotations

import polars as pl
import pytest

from goldless.errors import UserError
from goldless.finetuning.material import split_tasks, usable_tasks
from goldless.studies import study_from_frame


def study_of(tasks: int, agents: str = "abcd", lacking: frozenset[tuple[str, str]] = frozenset()):
    rows = [
        {"task": f"t{i}", "agent": agent, "text": f"{agent} on {i}"}
        for i in range(tasks)
        for agent in agents
        if (f"t{i}", agent) not in lacking
    ]
    return study_from_frame(pl.DataFrame(rows))


def names(tasks) -> set[str]:
    return {each.task.task for each in tasks}


def test_every_task_gives_three_responses_drawn_by_the_seed():
    drawn = {seed: [tuple(t.texts) for t in usable_tasks(study_of(20), seed=seed).tasks] for seed in (1, 2)}
    assert all(len(texts) == 3 for found in drawn.values() for texts in found)
    assert drawn[1] != drawn[2]
    assert drawn[1] == [tuple(t.texts) for t in usable_tasks(study_of(20), seed=1).tasks]


def test_a_task_with_fewer_than_three_usable_responses_is_left_out_and_named():
    study = study_of(4, "abc", frozenset({("t1", "b")}))
    found = usable_tasks(study)
    assert found.too_few == ("t1",)
    assert names(found.tasks) == {"t0", "t2", "t3"}


def test_a_response_without_rewrite_is_missing_and_never_replaced_by_the_response_itself():
    study = study_of(2, "abc")
    rewrites = {(f"t{i}", agent): f"rewritten {agent}" for i in range(2) for agent in "abc" if (i, agent) != (1, "c")}
    found = usable_tasks(study, rewrites=rewrites)
    assert (found.too_few, found.texts_missing) == (("t1",), 1)
    assert dict(found.tasks[0].texts) == {agent: f"rewritten {agent}" for agent in "abc"}


def test_only_the_agents_named_are_used():
    found = usable_tasks(study_of(5, "abcdef"), agents=("a", "c", "f"))
    assert {tuple(each.texts) for each in found.tasks} == {("a", "c", "f")}


@pytest.mark.parametrize(
    ("agents", "message"),
    [(("a", "b", "x", "y"), r"unknown agents: 'x'.*, 'y'"), (("a", "b"), "at least 3 agents, got 2")],
)
def test_agents_that_cannot_serve_are_refused_all_at_once(agents, message):
    with pytest.raises(UserError, match=message):
        usable_tasks(study_of(5), agents=agents)


@pytest.mark.parametrize(("tasks", "share", "expected"), [(20, 0.1, 2), (5, 0.1, 1), (3, 0.9, 2), (2, 0.5, 1)])
def test_the_share_of_tasks_is_held_out_and_at_least_one_on_either_side(tasks, share, expected):
    split = split_tasks(usable_tasks(study_of(tasks)).tasks, held_out=share)
    assert len(split.held_out) == expected
    assert names(split.held_out).isdisjoint(names(split.trained))
    assert len(split.held_out) + len(split.trained) == tasks


def test_one_task_more_moves_at_most_one_task_between_the_sides():
    small, large = (split_tasks(usable_tasks(study_of(n)).tasks, held_out=0.25) for n in (20, 21))
    assert len(names(small.held_out) - names(large.held_out)) <= 1


def test_another_seed_holds_out_other_tasks():
    tasks = usable_tasks(study_of(40)).tasks
    assert names(split_tasks(tasks, held_out=0.25, seed=1).held_out) != names(
        split_tasks(tasks, held_out=0.25, seed=2).held_out
    )


def test_one_usable_task_is_too_few():
    with pytest.raises(UserError, match=r"at least 2 tasks must have 3 usable responses.*got 1"):
        split_tasks(usable_tasks(study_of(1)).tasks, held_out=0.1)


def test_held_out_texts_that_were_trained_on_word_for_word_are_counted():
    rows = [
        {"task": f"t{i}", "agent": a, "text": "always this" if a == "null" else f"{a}{i}"}
        for i in range(4)
        for a in ("a", "b", "null")
    ]
    split = split_tasks(usable_tasks(study_from_frame(pl.DataFrame(rows))).tasks, held_out=0.5)
    assert split.texts_seen == 2


def test_held_out_tasks_whose_synopsis_was_trained_on_word_for_word_are_counted():
    rows = [{"task": f"t{i}", "agent": a, "text": f"{a}{i}"} for i in range(4) for a in "abc"]
    known = pl.DataFrame(
        {"task": [f"t{i}" for i in range(4)], "synopsis_abstract": ["same"] * 4, "synopsis_assw": [*"wxyz"]}
    )
    split = split_tasks(usable_tasks(study_from_frame(pl.DataFrame(rows), tasks=known)).tasks, held_out=0.5)
    assert split.texts_seen == 0
    assert split.synopses_seen("abstract") == 2
    assert (split.synopses_seen("assw"), split.synopses_seen(None), split.synopses_seen("absent")) == (0, 0, 0)
