"""From pair scores to a table of tasks and agents."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from goldless.statistics.standings import score_table


def test_means_are_those_polars_groups_to():
    random = np.random.default_rng(0)
    task, agent, score = random.integers(9, size=400), random.integers(4, size=400), random.normal(size=400)
    expected = pl.DataFrame({"task": task, "agent": agent, "score": score}).group_by("task", "agent").mean()
    found = score_table(task, agent, score, tasks=9, agents=4)
    for t, a, mean in expected.iter_rows():
        assert found[t, a] == pytest.approx(mean)
    assert np.isnan(found).sum() == 36 - len(expected)
