"""Which pairs a critic is shown: laws of derangements, counts done by hand, and designs for few calls."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from goldless.errors import MetricError
from goldless.judging.critic_questions import Design, choose_design, chosen_pairs, critic_questions, derangements

SIZES = st.integers(2, 40)


@given(n=SIZES, m=st.integers(0, 50), seed=st.integers(0, 2**32))
def test_every_row_is_a_permutation_without_a_fixed_point(n, m, seed):
    rows = derangements(n, m, np.random.default_rng(seed))
    assert rows.shape == (min(m, n - 1), n)
    for row in rows:
        assert sorted(row) == list(range(n))
        assert all(row != np.arange(n))


# --- questions ---------------------------------------------------------------------------------------------------

NAMES = ["ann", "bob", "cy", "dee"]


def answered(agents=NAMES[:3], tasks=6):
    return {f"t{i}": list(agents) for i in range(tasks)}


def of_pair(questions, first, second):
    return {(q.task, q.second_task) for q in questions if (q.first, q.second) == (first, second)}


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


# --- designs for few calls -------------------------------------------------------------------------------------------

STUDY_SIZES = st.tuples(st.integers(2, 40), st.integers(3, 12))
BUDGETS = st.integers(0, 40_000)
SHUFFLES = st.none() | st.integers(1, 8)


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}-{i}" for i in range(count)]


def pairs_of(n_tasks: int, n_agents: int, design: Design, seed: int = 0) -> dict[str, tuple[tuple[str, str], ...]]:
    return chosen_pairs(names("task", n_tasks), names("agent", n_agents), design, seed=seed)


@given(STUDY_SIZES, BUDGETS, SHUFFLES)
def test_a_design_never_exceeds_its_budget(size, budget, shuffles):
    n_tasks, n_agents = size
    try:
        design = choose_design(n_tasks, n_agents, budget_calls=budget, shuffles=shuffles)
    except MetricError:
        least = 2 * n_agents * (1 + min(shuffles or 1, n_tasks - 1))  # two rings, one contrast an agent each
        assert budget < least
        return
    asked = sum(len(pairs) for pairs in pairs_of(n_tasks, n_agents, design).values())
    assert asked == design.rings * n_agents
    assert asked * (1 + design.shuffles) <= budget


def test_a_tenth_of_the_recorded_pairs_is_580_rings_on_all_200_tasks():
    """By hand: 200 · 30 · 29 = 174,000 contrasts of 2 calls; a tenth is 34,800 calls; a ring costs 30 · 2."""
    design = choose_design(200, 30, budget_calls=34_800)
    assert design == Design(tasks=200, agents=30, rings=580, shuffles=1)


@pytest.mark.parametrize(("calls_a_contrast", "shuffles"), [(2, 1), (3, 2), (4, 3), (5, 4), (9, 4)])
def test_shuffles_are_added_only_once_every_pair_is_paid_for(calls_a_contrast, shuffles):
    """By hand: 20 tasks of 5 agents have 20 · 5 · 4 = 400 contrasts."""
    design = choose_design(20, 5, budget_calls=400 * calls_a_contrast)
    assert design == Design(tasks=20, agents=5, rings=80, shuffles=shuffles)
    assert choose_design(20, 5, budget_calls=400 * 2 - 1).rings == 79


@pytest.mark.parametrize(
    ("n_tasks", "n_agents", "shuffles", "said"),
    [
        (10, 2, None, "needs at least 3 agents, got 2"),
        (1, 5, None, "needs at least 2 tasks, one to match and one to shuffle, got 1"),
        (10, 5, 0, "shuffles must be at least 1, got 0"),
    ],
)
def test_a_study_that_no_budget_can_rank_is_refused(n_tasks, n_agents, shuffles, said):
    with pytest.raises(MetricError, match=said):
        choose_design(n_tasks, n_agents, budget_calls=10_000, shuffles=shuffles)


@given(STUDY_SIZES, BUDGETS, st.integers(0, 5))
def test_no_pair_is_chosen_twice_and_every_agent_is_first_and_second_equally_often(size, budget, seed):
    n_tasks, n_agents = size
    design = choose_design(n_tasks, n_agents, budget_calls=4 * n_agents + budget)
    chosen = pairs_of(n_tasks, n_agents, design, seed)
    assert len(chosen) == design.tasks
    per_task = [len(pairs) // n_agents for pairs in chosen.values()]
    assert max(per_task) - min(per_task) <= 1
    for pairs in chosen.values():
        assert len(set(pairs)) == len(pairs)
        for side in (0, 1):
            assert set(Counter(pair[side] for pair in pairs).values()) == {len(pairs) // n_agents}
        assert all(first != second for first, second in pairs)


@pytest.mark.parametrize(("n_tasks", "rings"), [(29, 29), (58, 58), (10, 87), (200, 580)])
def test_every_ordered_pair_is_asked_about_equally_often(n_tasks, rings):
    """30 agents have 29 steps; a multiple of 29 rings holds each of the 870 ordered pairs rings / 29 times."""
    chosen = pairs_of(n_tasks, 30, Design(tasks=n_tasks, agents=30, rings=rings, shuffles=1))
    counts = Counter(pair for pairs in chosen.values() for pair in pairs)
    assert len(counts) == 870
    assert set(counts.values()) == {rings // 29}


@given(STUDY_SIZES, BUDGETS, BUDGETS)
def test_a_larger_budget_asks_about_all_that_a_smaller_one_did(size, budget, more):
    n_tasks, n_agents = size
    least = 4 * n_agents
    small = pairs_of(n_tasks, n_agents, choose_design(n_tasks, n_agents, budget_calls=least + budget))
    large = pairs_of(n_tasks, n_agents, choose_design(n_tasks, n_agents, budget_calls=least + budget + more))
    assert all(set(pairs) <= set(large[task]) for task, pairs in small.items())


def test_the_choice_depends_on_names_and_seed_not_on_their_order():
    design = choose_design(40, 6, budget_calls=120)
    tasks, agents = names("task", 40), names("agent", 6)
    chosen = chosen_pairs(tasks, agents, design, seed=1)
    assert chosen == chosen_pairs(tasks[::-1], agents[::-1], design, seed=1)
    assert chosen != chosen_pairs(tasks, agents, design, seed=2)
    assert list(chosen) == [task for task in tasks if task in chosen]


def read_contrasts(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path / "critic_contrasts.parquet").with_columns(
        pl.col("task", "first", "second").cast(pl.String)
    )


def task_scores(contrasts: pl.DataFrame) -> np.ndarray:
    """The mean of an agent's row and column averages [tasks, agents], both in the order of their names."""
    sides = [
        contrasts.group_by("task", pl.col(side).alias("agent")).agg(pl.col("contrast").mean())
        for side in ("first", "second")
    ]
    scores = pl.concat(sides).group_by("task", "agent").agg(pl.col("contrast").mean()).sort("task", "agent")
    return scores["contrast"].to_numpy().reshape(scores["task"].n_unique(), -1)


def chosen_contrasts(contrasts: pl.DataFrame, share: float, seed: int) -> pl.DataFrame:
    """What the design for a share of the recorded pairs pays for."""
    tasks, agents = (sorted(contrasts[column].unique()) for column in ("task", "first"))
    design = choose_design(len(tasks), len(agents), budget_calls=int(share * contrasts.height * 2))
    chosen = chosen_pairs(tasks, agents, design, seed=seed)
    rows = [(task, first, second) for task, pairs in chosen.items() for first, second in pairs]
    paid = contrasts.join(pl.DataFrame(rows, ["task", "first", "second"], orient="row"), ["task", "first", "second"])
    assert paid.height == design.rings * len(agents) <= share * contrasts.height
    return paid


@pytest.mark.recorded
@pytest.mark.parametrize("study", ["samsum_peer_prediction", "reddit_peer_prediction"])
@pytest.mark.parametrize("share", [0.1, 0.035])
def test_a_tenth_of_the_pairs_ranks_recorded_agents_nearly_as_all_do(recorded, study, share):
    """The required rank correlation is 0.95 with at most a tenth of the pairs; about a third of these reach it too."""
    contrasts = read_contrasts(recorded / study)
    truth = task_scores(contrasts).mean(axis=0)
    found = [
        spearmanr(task_scores(chosen_contrasts(contrasts, share, seed)).mean(axis=0), truth).statistic
        for seed in range(5)
    ]
    assert np.mean(found) >= 0.95


@pytest.mark.nightly
@pytest.mark.recorded
@pytest.mark.parametrize("study", ["samsum_peer_prediction", "reddit_peer_prediction"])
@pytest.mark.parametrize("share", [0.1, 0.035])
def test_the_spread_over_tasks_does_not_understate_the_error_of_chosen_pairs(recorded, study, share):
    """The true error: that of the scores by all pairs, from 200 tasks, plus the distance from these scores.

    The spread counts changes of partner as noise, though they are balanced: a standard error up to 1.3 times as large.
    """
    contrasts = read_contrasts(recorded / study)
    every = task_scores(contrasts)
    true, stated = [], []
    for seed in range(10):
        scores = task_scores(chosen_contrasts(contrasts, share, seed))
        true.append(every.var(axis=0, ddof=1) / 200 + (scores.mean(axis=0) - every.mean(axis=0)) ** 2)
        stated.append(scores.var(axis=0, ddof=1) / 200)
    assert 1 <= np.sqrt(np.mean(stated) / np.mean(true)) <= 1.3
