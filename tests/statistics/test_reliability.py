"""Krippendorff's alpha, against his published example, another implementation, and a bootstrap written out."""

from __future__ import annotations

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.errors import UserError
from goldless.statistics.reliability import krippendorff_alpha

NONE = np.nan
EXAMPLE = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
)
"""Four observers, twelve units: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, section C."""


def columns(table):
    rater, unit = np.nonzero(~np.isnan(table))
    return table[rater, unit], unit


@pytest.mark.parametrize(("measurement", "stated"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example_is_as_published(measurement, stated):
    found = krippendorff_alpha(*columns(EXAMPLE), measurement=measurement, resamples=200)
    assert round(found.alpha, 3) == stated
    assert (found.n_units, found.n_values, found.unpaired) == (11, 40, 1)
    assert found.low < found.alpha < found.high


LEVELS = st.sampled_from([1.0, 2.0, 3.0, 5.0, NONE])


@given(st.lists(st.lists(LEVELS, min_size=4, max_size=4), min_size=3, max_size=9))
def test_alpha_is_that_of_evalica(rows):
    table = np.array(rows).T
    values, unit = columns(table)
    paired = values[np.bincount(unit, minlength=table.shape[1])[unit] > 1]
    if len(paired) == 0 or np.ptp(paired) == 0:
        assert krippendorff_alpha(values, unit, resamples=100).alpha is None
        return
    for measurement in ("nominal", "ordinal", "interval"):
        other = evalica.alpha(pd.DataFrame(table), distance=measurement).alpha
        assert krippendorff_alpha(values, unit, measurement=measurement, resamples=100).alpha == pytest.approx(other)


def test_raters_that_agree_in_all_have_one_and_those_at_random_about_zero():
    random = np.random.default_rng(1)
    value = random.integers(1, 6, size=400)
    unit = np.repeat(np.arange(400), 3)
    assert krippendorff_alpha(np.repeat(value, 3), unit, resamples=100).alpha == 1
    found = krippendorff_alpha(random.integers(1, 6, size=1200).astype(float), unit, resamples=500)
    assert found.low < 0 < found.high


def test_the_interval_is_near_that_of_resampling_tasks_with_everything_computed_anew():
    random = np.random.default_rng(7)
    level = random.normal(size=(80, 4)) + random.normal(size=(80, 1))
    table = np.round(2 * level[:, :, None] + random.normal(size=(80, 4, 3)))
    value, unit, task = table.ravel(), np.repeat(np.arange(320), 3), np.repeat(np.arange(80), 12)
    found = krippendorff_alpha(value, unit, task=task, measurement="ordinal", resamples=2000)
    drawn = []
    for _ in range(300):
        some = table[random.integers(80, size=80)].reshape(320, 3).T
        drawn.append(evalica.alpha(pd.DataFrame(some), distance="ordinal").alpha)
    assert (found.low, found.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)
    assert (found.n_tasks, found.method) == (80, "bootstrap-t")


def test_nothing_rated_twice_and_one_value_only_have_no_alpha_and_say_why():
    alone = krippendorff_alpha(np.array([1.0, 2.0]), np.array([0, 1]))
    assert (alone.alpha, alone.unpaired, alone.note) == (None, 2, "not defined: no unit was rated by two raters")
    same = krippendorff_alpha(np.ones(4), np.array([0, 0, 1, 1]))
    assert (same.alpha, same.note) == (None, "not defined: all values are equal")


def test_unknown_measurements_missing_values_and_columns_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match=r"'ordinl'. Did you mean 'ordinal'"):
        krippendorff_alpha(np.ones(2), np.zeros(2, int), measurement="ordinl")
    with pytest.raises(UserError, match="must be finite numbers"):
        krippendorff_alpha(np.array([1, NONE]), np.zeros(2, int))
    with pytest.raises(UserError, match="columns of the same length"):
        krippendorff_alpha(np.ones(2), np.zeros(3, int))
