"""Influence: exact changes by leaving tasks out, and whether the ranking changes."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.statistics.influence import Influence, leave_one_out_changes, most_influential

NAN = np.nan


def test_changes_are_those_of_a_loop_that_leaves_out_one_task_at_a_time():
    values = np.random.default_rng(0).normal([5.0, -40.0, 1e6], 3.0, size=(12, 3))
    values[[2, 7], 1] = NAN
    found = leave_one_out_changes(values)
    for task in range(12):
        for agent in range(3):
            if np.isnan(values[task, agent]):
                assert np.isnan(found[task, agent])
            else:
                without = np.nanmean(np.delete(values[:, agent], task))
                assert found[task, agent] == pytest.approx(without - np.nanmean(values[:, agent]), abs=1e-8)


def test_the_largest_changes_by_hand():
    """a: 1, 1, 10, mean 4; without t3 1 (-3). b: 3, 2, 4, mean 3; without t3 2.5 (-0.5). Then b is above a."""
    values = np.array([[1.0, 3.0], [1.0, 2.0], [10.0, 4.0]])
    found = most_influential(values, ["t1", "t2", "t3"], ["a", "b"], k=4)
    assert found[0] == Influence("a", "t3", -3.0, 1, 2, ranking_changes=True)
    # without t1 a has 5.5, b 3; without t2 a has 5.5, b 3.5: the order stays
    assert found[1] == Influence("a", "t1", 1.5, 1, 1, ranking_changes=False)
    assert found[2] == Influence("a", "t2", 1.5, 1, 1, ranking_changes=False)
    assert (found[3].agent, found[3].task) == ("b", "t2")
    assert found[3].change == pytest.approx(0.5)


def test_agents_that_answer_alike_stay_tied():
    column = np.random.default_rng(1).normal(size=20) / 3
    found = most_influential(np.stack([column, column], axis=1), [str(i) for i in range(20)], ["a", "b"], k=40)
    assert not any(one.ranking_changes for one in found)
    assert {(one.rank, one.rank_without) for one in found} == {(1, 1)}
