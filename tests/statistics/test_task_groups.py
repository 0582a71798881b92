"""Groups of very many tasks: the same sums, bounded draws, and intervals like those of single tasks."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.statistics.bootstrap import task_intervals
from goldless.statistics.comparisons import compare_all

TASKS = 2000


@pytest.fixture
def few(monkeypatch):
    """Groups from 1,000 tasks on: 1,000 of them."""

    def start():
        for module in ("bootstrap", "comparisons"):
            monkeypatch.setattr(f"goldless.statistics.{module}.GROUPS", 1000)
        monkeypatch.setattr("goldless.statistics.bootstrap.MOST_TASKS", 1000)

    return start


def scores(agents=3, seed=0):
    random = np.random.default_rng(seed)
    found = random.exponential(size=(TASKS, agents)) + np.linspace(0, 0.3, agents)
    found[random.random(found.shape) < 0.1] = np.nan
    return found


def test_intervals_of_groups_are_like_those_of_single_tasks(few):
    single = [interval for seed in range(3) for interval in task_intervals(scores(seed=seed), resamples=1000)]
    few()
    grouped = [interval for seed in range(3) for interval in task_intervals(scores(seed=seed), resamples=1000)]
    for side in ("low", "high"):
        ends = np.array([[getattr(one, side) - one.value for one in found] for found in (single, grouped)])
        # the spread of 1,000 groups is known to 1 / √2000 = 2 %, and 1,000 resamples add about 3 %
        assert np.abs(ends[1] / ends[0] - 1).max() < 0.12
        assert abs((ends[1] / ends[0]).mean() - 1) < 0.03


def test_without_a_difference_groups_find_one_as_often_as_they_may(few):
    few()
    random = np.random.default_rng(3)
    ps = [compare_all(["a", "b"], random.normal(size=(1200, 2)), permutations=99)[0].p for _ in range(100)]
    # 100 tests at 5 %: fewer than 14 by the binomial distribution, but for one time in a thousand
    assert sum(p < 0.05 for p in ps) < 14
