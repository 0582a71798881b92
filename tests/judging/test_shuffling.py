"""Which pairs a critic is shown: laws of derangements, and counts done by hand."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.judging.critic_questions import critic_questions, derangements

SIZES = st.integers(2, 40)


@given(n=SIZES, m=st.integers(0, 50), seed=st.integers(0, 2**32))
def test_every_row_is_a_permutation_without_a_fixed_point(n, m, seed):
    rows = derangements(n, m, np.random.default_rng(seed))
    assert rows.shape == (min(m, n - 1), n)
    for row in rows:
        assert sorted(row) == list(range(n))
        assert all(row != np.arange(n))


@given(n=SIZES, seed=st.integers(0, 2**32))
def test_all_n_minus_1_of_them_are_all_pairs_of_different_places(n, seed):
    rows = derangements(n, n - 1, np.random.default_rng(seed))
    pairs = {(t, int(s)) for row in rows for t, s in enumerate(row)}
    assert pairs == {(t, s) for t in range(n) for s in range(n) if t != s}


# --- questions ---------------------------------------------------------------------------------------------------

NAMES = ["ann", "bob", "cy", "dee"]


def answered(agents=NAMES[:3], tasks=6):
    return {f"t{i}": list(agents) for i in range(tasks)}


def of_pair(questions, first, second):
    return {(q.task, q.second_task) for q in questions if (q.first, q.second) == (first, second)}


def test_every_ordered_pair_is_matched_on_every_task_and_shuffled_four_times():
    """3 agents: 6 ordered pairs x 6 tasks x (1 matched + 4 shuffled) = 180 questions, no two the same."""
    questions = critic_questions(answered())
    assert len(questions) == len(set(questions)) == 180
    assert sum(q.task == q.second_task for q in questions) == 36
    assert not any(q.first == q.second for q in questions)


def test_each_second_response_is_shown_as_often_as_the_others():
    """A derangement sends one task to each: every second task stands in 1 matched and 4 shuffled questions a pair."""
    counts = Counter(second for _, second in of_pair(critic_questions(answered()), "ann", "bob"))
    assert set(counts.values()) == {5}
    assert len(counts) == 6


def test_questions_about_one_first_response_stand_together_and_begin_with_the_matched_one():
    questions = critic_questions(answered())
    keys = [(q.task, q.first) for q in questions]
    changes = sum(a != b for a, b in itertools.pairwise(keys))
    assert changes == len(set(keys)) - 1
    assert all(q.task == q.second_task for q in questions[::5])


@given(
    st.dictionaries(st.text("xyz", min_size=1, max_size=2), st.sets(st.sampled_from(NAMES[:3])), max_size=8),
    st.integers(1, 6),
    st.integers(0, 5),
)
def test_adding_an_agent_changes_no_draw(tasks, shuffles, seed):
    before = {task: sorted(agents) for task, agents in tasks.items()}
    after = {task: ["dee", *agents] for task, agents in before.items()}
    with_dee = critic_questions(after, shuffles=shuffles, seed=seed)
    assert set(critic_questions(before, shuffles=shuffles, seed=seed)) == {
        q for q in with_dee if "dee" not in {q.first, q.second}
    }


def test_the_order_of_tasks_and_agents_in_a_file_changes_no_draw():
    backwards = {task: agents[::-1] for task, agents in reversed(answered().items())}
    assert set(critic_questions(backwards)) == set(critic_questions(answered()))


def test_another_seed_draws_other_shuffles_and_the_same_seed_the_same():
    assert critic_questions(answered(), seed=1) == critic_questions(answered(), seed=1)
    assert set(critic_questions(answered(), seed=1)) != set(critic_questions(answered(), seed=2))


def test_two_common_tasks_have_one_shuffle_which_swaps_them():
    questions = critic_questions({"one": ["ann", "bob"], "two": ["ann", "bob"]})
    expected = {("one", "one"), ("one", "two"), ("two", "two"), ("two", "one")}
    assert of_pair(questions, "ann", "bob") == of_pair(questions, "bob", "ann") == expected
    assert len(questions) == 8


@pytest.mark.parametrize(
    "tasks",
    [
        {"one": ["ann", "bob"]},
        {"one": ["ann"], "two": ["bob"]},
        {"one": ["ann"], "two": ["ann"]},
        {"one": ["ann", "ann"], "two": ["ann"]},
        {},
    ],
    ids=["one common task", "no common task", "one agent", "one agent named twice", "nothing"],
)
def test_where_there_is_nothing_to_hold_a_matched_pair_against_nothing_is_asked(tasks):
    assert critic_questions(tasks) == []


def test_with_a_panel_every_pair_has_an_agent_of_the_panel():
    """4 agents, 1 in the panel: 3 pairs with it as first and 3 as second; x 6 tasks x 5 questions = 180."""
    questions = critic_questions(answered(NAMES), panel=["bob"])
    assert len(questions) == 180
    assert all("bob" in {q.first, q.second} for q in questions)


def test_a_panel_changes_no_draw():
    whole = critic_questions(answered(NAMES))
    assert critic_questions(answered(NAMES), panel=["bob", "cy"]) == [
        q for q in whole if {"bob", "cy"} & {q.first, q.second}
    ]
