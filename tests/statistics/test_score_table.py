"""From pair scores to a table of tasks and agents."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from goldless.errors import UserError
from goldless.statistics.standings import score_table


def test_means_are_those_polars_groups_to():
    random = np.random.default_rng(0)
    task, agent, score = random.integers(9, size=400), random.integers(4, size=400), random.normal(size=400)
    expected = pl.DataFrame({"task": task, "agent": agent, "score": score}).group_by("task", "agent").mean()
    found = score_table(task, agent, score, tasks=9, agents=4)
    for t, a, mean in expected.iter_rows():
        assert found[t, a] == pytest.approx(mean)
    assert np.isnan(found).sum() == 36 - len(expected)


def test_a_missing_score_is_left_out_and_a_cell_without_scores_is_missing_too():
    found = score_table(
        np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), np.array([2.0, np.nan, np.nan, 4.0]), tasks=2, agents=2
    )
    assert np.array_equal(found, [[2.0, np.nan], [np.nan, 4.0]], equal_nan=True)


def test_numbers_of_tasks_that_do_not_exist_are_refused():
    with pytest.raises(UserError, match="task numbers must be 0 to 1, got 0 to 2"):
        score_table(np.array([0, 2]), np.array([0, 0]), np.zeros(2), tasks=2, agents=1)
    with pytest.raises(UserError, match="columns of the same length"):
        score_table(np.array([0, 1]), np.array([0]), np.zeros(2), tasks=2, agents=1)
