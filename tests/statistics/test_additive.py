"""Scores over the same peers and tasks, against formulas and against least squares with dummy columns (numpy)."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.statistics.additive import adjusted_for_peers, moved_to_scores, scores_over_tasks
from goldless.statistics.comparisons import all_pairs, compare_pairs


def over_peers(table, *, drawn=False):
    """The score of each agent of one task from [agents, peers], NaN where there is none."""
    agent, peer = np.nonzero(~np.isnan(table))
    found = np.full(len(table), np.nan)
    found[agent] = adjusted_for_peers(np.zeros_like(agent), agent, peer, table[agent, peer], drawn=drawn)
    return found


def random_table(agents, seed=0):
    table = np.random.default_rng(seed).normal(size=(agents, agents))
    np.fill_diagonal(table, np.nan)
    return table


@pytest.mark.parametrize("agents", [3, 4, 9])
def test_in_an_agents_own_place_stands_what_the_others_score_with_it(agents):
    table = random_table(agents)
    filled = np.where(np.eye(agents, dtype=bool), np.nanmean(table, axis=0), table)
    assert over_peers(table) == pytest.approx(filled.mean(axis=1), abs=1e-10)


@pytest.mark.parametrize("agents", [3, 4, 9])
def test_the_order_is_that_of_least_squares_with_peer_effects(agents):
    """The least-squares effects, a constant factor apart: (n - 2) / (n - 1)."""
    table = random_table(agents)
    agent, peer = np.nonzero(~np.isnan(table))
    columns = np.zeros((len(agent), 2 * agents))
    columns[np.arange(len(agent)), agent] = columns[np.arange(len(agent)), agents + peer] = 1
    effects = np.linalg.lstsq(columns, table[agent, peer])[0][:agents]
    found = over_peers(table)
    assert found - found.mean() == pytest.approx((effects - effects.mean()) * (agents - 2) / (agents - 1), abs=1e-10)


def test_an_agent_without_its_hardest_peer_gains_nothing():
    """Additive scores: what one agent lacks is known from the others, up to how much its peers' numbers are damped."""
    exact = np.add.outer([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0, -60.0])
    np.fill_diagonal(exact, np.nan)
    lacking = exact.copy()
    lacking[0, 5] = np.nan
    whole, found = over_peers(exact), over_peers(lacking)
    plain = np.nanmean(lacking, axis=1)
    assert found[0] < found[1]
    assert abs(found[0] - whole[0]) < 0.3 * abs(plain[0] - np.nanmean(exact[0]))
    assert plain[0] > plain[1], "the mean over its own peers rewards the gap"


def test_a_long_chain_of_peers_does_not_add_up_noise():
    """Each agent meets the next two of 60: free effects would be far noisier than the means over two peers."""
    spread = []
    for seed in range(20):
        table = np.full((60, 60), np.nan)
        for step in (1, 2):
            table[np.arange(60), (np.arange(60) + step) % 60] = np.random.default_rng([seed, step]).normal(size=60)
        spread.append(over_peers(table).std() / np.nanmean(table, axis=1).std())
    assert np.mean(spread) < 1.1


def only_neighbours(table, steps):
    """The table with each agent's next agents in a ring as peers, on both sides."""
    size = len(table)
    distance = (np.subtract.outer(np.arange(size), np.arange(size)) + steps) % size
    return np.where(distance <= 2 * steps, table, np.nan)


def test_the_luck_of_a_draw_of_peers_hardly_counts():
    """Additive scores of 20 agents with 8 neighbours each: an easy peer is easy for all who draw it."""
    draw = np.random.default_rng(0)
    own, easy = draw.normal(size=20), 3 * draw.normal(size=20)
    table = own[:, None] + easy
    np.fill_diagonal(table, np.nan)
    table = only_neighbours(table, 4)

    def luck(found):
        return (found - own).std()

    plain = luck(np.nanmean(table, axis=1))
    assert luck(over_peers(table, drawn=True)) < 0.25 * plain
    assert luck(over_peers(table)) > 0.5 * plain, "as if they lacked the others by failures"


def test_with_two_drawn_peers_noise_does_not_add_up_along_the_ring():
    spread = []
    for seed in range(20):
        noise = only_neighbours(np.random.default_rng(seed).normal(size=(60, 60)), 1)
        np.fill_diagonal(noise, np.nan)
        spread.append(over_peers(noise, drawn=True).std() / np.nanmean(noise, axis=1).std())
    assert np.mean(spread) < 1.5


@pytest.mark.parametrize(("tasks", "agents", "share"), [(12, 4, 0.3), (3, 9, 0.3), (30, 5, 0.5), (6, 6, 0.2)])
def test_over_tasks_it_is_least_squares_with_task_effects(tasks, agents, share):
    values = holed(tasks, agents, share, seed=1)
    task, agent = np.nonzero(~np.isnan(values))
    columns = np.zeros((len(task), tasks + agents))
    columns[np.arange(len(task)), task] = columns[np.arange(len(task)), tasks + agent] = 1
    fitted = np.linalg.lstsq(columns, values[task, agent])[0]
    scored = ~np.isnan(values).all(axis=1)
    expected = fitted[tasks:] + fitted[:tasks][scored].mean()
    assert scores_over_tasks(values) == pytest.approx(expected, abs=1e-9)


def holed(tasks, agents, share, seed):
    """Random scores with holes; every agent has one."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(tasks, agents)) + 3 * draw.normal(size=(tasks, 1)) + np.arange(agents)
    holes = draw.random(values.shape) < share
    holes[draw.integers(tasks, size=agents), np.arange(agents)] = False
    return np.where(holes, np.nan, values)


def test_an_agent_that_has_every_task_keeps_its_mean():
    values = holed(9, 4, 0.4, seed=3)
    values[:, 2] = np.arange(9.0)
    assert scores_over_tasks(values)[2] == pytest.approx(4.0)


@pytest.mark.parametrize("seed", range(5))
def test_differences_are_those_of_the_scores_whatever_is_missing(seed):
    values = holed(12, 5, 0.35, seed)
    scores = np.nanmean(moved_to_scores(values), axis=0)
    assert scores == pytest.approx(scores_over_tasks(values))
    pairs = all_pairs(values)
    assert np.nanmean(pairs.differences, axis=0) == pytest.approx(scores[pairs.first] - scores[pairs.second])
    both = ~np.isnan(values[:, pairs.first] - values[:, pairs.second])
    assert (~np.isnan(pairs.differences) == both).all(), "tested on common tasks"
    for one in compare_pairs("abcde", all_pairs(values)):
        assert one.difference == pytest.approx(scores["abcde".index(one.first)] - scores["abcde".index(one.second)])


def test_with_two_sides_of_each_peer_the_score_is_the_mean_of_rows_and_columns():
    table = random_table(5)
    agent, peer = np.nonzero(~np.isnan(table))
    side = np.repeat([0, 1], len(agent))
    found = adjusted_for_peers(
        np.zeros_like(side),
        np.concatenate([agent, peer]),
        np.concatenate([peer, agent]),
        np.tile(table[agent, peer], 2),
        side,
    )
    expected = (np.nanmean(table, axis=1) + np.nanmean(table, axis=0)) / 2
    assert found == pytest.approx(expected[np.concatenate([agent, peer])], abs=1e-10)
