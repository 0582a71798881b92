"""Rank flips: the fewest papers without which another model is first."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goldless.apps.gre.results import fewest_to_flip


def fewest_by_trying(values) -> int | None:
    """The smallest number of tasks to remove, by trying all choices."""
    for n in range(len(values)):
        for removed in itertools.combinations(range(len(values)), n):
            if sum(value for place, value in enumerate(values) if place not in removed) < 0:
                return n
    return None


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_the_fewest_tasks_that_flip_a_difference_are_those_found_by_trying_all(values):
    found = fewest_to_flip(np.array(values, dtype=float))
    assert (None if found is None else len(found)) == fewest_by_trying(values)
    if found is not None:
        assert sum(value for place, value in enumerate(values) if place not in found) < 0


def test_the_most_decisive_task_is_first_and_a_tie_is_no_flip():
    assert fewest_to_flip(np.array([1.0, 3.0, -1.0])) == (1, 0)
    assert fewest_to_flip(np.array([1.0, 0.0])) is None
    assert fewest_to_flip(np.array([-1.0, 0.5])) == ()
    assert fewest_to_flip(np.array([])) is None
