"""Draws of tasks: counts of seeded integers, whatever the size of the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.statistics.bootstrap import draw_counts


def test_counts_are_those_of_the_seeded_integers():
    drawn = np.random.default_rng(3).integers(7, size=(50, 7))
    expected = [[list(row).count(task) for task in range(7)] for row in drawn]
    (found,) = draw_counts(7, seed=3, resamples=50)
    assert found.tolist() == expected


@pytest.mark.parametrize("at_once", [1, 7, 20, 1000])
def test_the_size_of_the_blocks_changes_nothing(monkeypatch, at_once):
    whole = np.vstack(list(draw_counts(7, seed=3, resamples=50)))
    monkeypatch.setattr("goldless.statistics.bootstrap.ELEMENTS_AT_ONCE", at_once)
    blocks = list(draw_counts(7, seed=3, resamples=50))
    assert max(map(len, blocks)) == min(50, max(1, at_once // 7))
    assert np.array_equal(np.vstack(blocks), whole)


def test_every_resample_holds_as_many_tasks_as_the_study():
    counts = np.vstack(list(draw_counts(13, seed=0, resamples=200)))
    assert counts.shape == (200, 13)
    assert (counts.sum(axis=1) == 13).all()
