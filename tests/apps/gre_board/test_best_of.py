"""The best of n submissions: corrected for the choice, with an interval that holds for the chosen one."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.apps.gre_board.best_of import best_of
from goldless.errors import UserError

TASKS, SUBMISSIONS, STUDIES = 40, 10, 300
LARGEST_OF_TEN = 1.53875
"""Expected largest of ten standard normal draws (Harter 1961, Biometrika 48, Table 1)."""


def test_of_equal_submissions_the_best_is_too_high_by_the_expected_largest_and_the_corrected_one_is_not():
    random = np.random.default_rng(7)
    found = [best_of(random.normal(size=(TASKS, SUBMISSIONS)), resamples=200) for _ in range(STUDIES)]
    error = 1 / np.sqrt(TASKS)
    noise = 4 * error / np.sqrt(STUDIES)
    assert np.mean([one.interval.value for one in found]) == pytest.approx(LARGEST_OF_TEN * error, abs=noise)
    assert np.mean([one.corrected for one in found]) == pytest.approx(0, abs=noise)
    # the usual interval, which does not know of the choice, would miss far more often
    held = np.mean([one.interval.low <= 0 <= one.interval.high for one in found])
    assert held >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / STUDIES)
    alone = [best_of(random.normal(size=(TASKS, SUBMISSIONS)), resamples=200) for _ in range(50)]
    assert np.mean([one.interval.value > 1.96 * error for one in alone]) > 0.1


def test_submissions_without_scores_count_among_the_n():
    values = np.random.default_rng(3).normal(size=(50, 2))
    two, five = best_of(values), best_of(values, 5)
    assert five.interval.low < two.interval.low
    assert (five.n, five.interval.level) == (5, 0.95)


def test_missing_scores_are_refused_because_leaving_out_papers_must_not_help():
    with pytest.raises(UserError, match="without missing scores"):
        best_of(np.array([[1.0, np.nan], [0.0, 2.0]]))
