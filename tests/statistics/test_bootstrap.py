"""Intervals: tasks are resampled and studentised (Efron 1981); few tasks get Student's t."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from goldless.errors import UserError
from goldless.statistics.bootstrap import (
    FARTHEST,
    FEW_TASKS,
    Estimate,
    left_out_intervals,
    score_intervals,
    task_intervals,
)
from goldless.statistics.comparisons import all_pairs, compare_pairs

LEVEL, SEED = 0.9, 11


def slow_interval(column, *, seed: int, resamples: int, level: float):
    """Mean, low and high of one column: draw after draw, with numpy's mean, standard deviation and quantiles.

    No end is nearer than Student's t.
    """
    tasks = len(column)
    used = column[~np.isnan(column)]
    error = used.std(ddof=1) / np.sqrt(len(used))
    student = scipy.stats.t.ppf((1 + level) / 2, df=len(used) - 1)
    farthest = FARTHEST * student
    found = []
    for drawn in np.random.default_rng(seed).integers(tasks, size=(resamples, tasks)):
        scores = column[drawn]
        scores = scores[~np.isnan(scores)]
        if len(scores):
            t = (scores.mean() - used.mean()) / (scores.std(ddof=1) / np.sqrt(len(scores)))
            found.append(min(max(t, -farthest), farthest))
    high, low = np.quantile(found, [(1 + level) / 2, (1 - level) / 2])
    high, low = max(high, student), min(low, -student)
    return used.mean(), used.mean() - high * error, used.mean() - low * error


def table(tasks: int = 16, agents: int = 3):
    values = np.random.default_rng(5).gamma(1.5, [1.0, 3.0, 9.0][:agents], size=(tasks, agents)) - [0.0, 40.0, 7.0]
    values[[1, 4, 5], 1] = np.nan
    return values


def test_intervals_equal_those_of_a_slow_loop_over_the_same_draws():
    values = table()
    found = task_intervals(values, seed=SEED, resamples=300, level=LEVEL)
    for interval, column in zip(found, values.T, strict=True):
        expected = slow_interval(column, seed=SEED, resamples=300, level=LEVEL)
        assert (interval.value, interval.low, interval.high) == pytest.approx(expected, abs=1e-9)
    assert [(interval.n, interval.method) for interval in found] == [
        (16, "bootstrap-t"),
        (13, "bootstrap-t"),
        (16, "bootstrap-t"),
    ]


def test_with_many_tasks_the_interval_is_scipys_bca_interval():
    """Both are second-order correct, so for 2,000 skewed values they agree to a few parts in a hundred of the width."""
    values = np.random.default_rng(1).gamma(2.0, 3.0, size=(2000, 1)) - 4
    (interval,) = task_intervals(values, resamples=20_000)
    reference = scipy.stats.bootstrap(
        (values[:, 0],), np.mean, n_resamples=9_999, confidence_level=0.95, method="BCa", batch=500, rng=7
    ).confidence_interval
    width = reference.high - reference.low
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high), abs=0.03 * width)


@pytest.mark.parametrize("n", [2, 3, 5, FEW_TASKS - 1])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_with_few_tasks_without_skew_the_interval_is_scipys_t_interval(n, level):
    values = np.linspace(-3.0, 2.0, n)[:, None]
    (interval,) = task_intervals(values, level=level)
    reference = scipy.stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(level)
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high))
    assert interval.method == "t"


@pytest.mark.parametrize("n", [3, 5, FEW_TASKS - 1])
def test_with_few_tasks_the_end_on_the_side_of_a_tail_is_further_out(n):
    """By Johnson's expansion with twice scipy's skewness, at most twice Student's."""
    values = np.array([[0.0, 0.1, 1.0, 0.2, 0.5, 0.3, 0.4, 0.2, 2.0]]).T[:n]
    (interval,) = task_intervals(values, tails=True)
    reference = scipy.stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(0.95)
    student = scipy.stats.t.ppf(0.975, n - 1)
    weight = 2 * scipy.stats.skew(values[:, 0], bias=False) / np.sqrt(n)
    far = min(student + weight * (1 / 6 + student**2 / 3), 2 * student)
    assert interval.low == pytest.approx(reference.low)
    assert interval.high == pytest.approx(values.mean() + far * scipy.stats.sem(values[:, 0]))


def test_one_scored_task_gives_a_mean_without_interval_and_says_why():
    (interval,) = task_intervals(np.array([[3.0], [np.nan], [np.nan]]))
    assert interval == Estimate(3.0, None, None, 1, 0.95, "no interval: n = 1")
    assert interval.method is None


@pytest.mark.parametrize(("n", "high"), [(2, 0), (5, 5), (8, 7), (20, 17), (40, 1)])
def test_scores_at_their_limits_have_the_exact_interval_of_a_share(n, high):
    """That of ``scipy.stats.binomtest``, on the scale of the scores."""
    theirs = scipy.stats.binomtest(high, n).proportion_ci(LEVEL, method="exact")
    for lowest, highest in ((0.0, 1.0), (-1.0, 1.0), (1.0, 5.0)):
        values = np.array([highest] * high + [lowest] * (n - high))[:, None]
        (interval,) = task_intervals(values, limits=(lowest, highest), level=LEVEL)
        ends = [lowest + (highest - lowest) * end for end in (theirs.low, theirs.high)]
        assert (interval.low, interval.high) == pytest.approx(ends, abs=1e-9)
        assert (interval.method, interval.n) == ("exact", n)


@pytest.mark.parametrize("missing", [0, 1])
def test_no_interval_leaves_the_limits(missing):
    """Two tasks far apart: Student's t alone would reach from -5.1 to 6.1."""
    values = np.array([[0.06, 0.5], [0.94, 0.5], *[[np.nan, 0.9]] * missing])
    (interval, _) = score_intervals(values, limits=(0.0, 1.0))
    assert (interval.low, interval.high, interval.method) == (0.0, 1.0, "t")


@given(
    arrays(np.float64, st.tuples(st.integers(2, 16), st.just(1)), elements=st.floats(-1e3, 1e3, width=32)),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_ends_are_finite_within_twice_students_interval_and_a_higher_level_is_no_narrower(values, level):
    (interval,) = task_intervals(values, resamples=200, level=level)
    (wider,) = task_intervals(values, resamples=200, level=0.999)
    slack = 1e-9 * (1 + np.abs(values).max())
    half = FARTHEST * scipy.stats.t.ppf((1 + level) / 2, len(values) - 1) * scipy.stats.sem(values[:, 0])
    assert interval.value - half - slack <= interval.low <= interval.high + slack
    assert interval.high <= interval.value + half + slack
    assert wider.low <= interval.low + slack
    assert interval.high <= wider.high + slack


def test_bad_input_is_refused_with_what_is_allowed():
    with pytest.raises(UserError, match="infinite score"):
        task_intervals(np.array([[1.0], [np.inf]]))
    with pytest.raises(UserError, match="level must be between 0 and 1, got 95"):
        task_intervals(np.zeros((3, 1)), level=95)
    with pytest.raises(UserError, match="resamples must be at least 1, got 0"):
        task_intervals(np.arange(12.0)[:, None], resamples=0)
    with pytest.raises(UserError, match="seed must be a whole number of at least 0, got -1"):
        task_intervals(np.arange(12.0)[:, None], seed=-1)


# --- what is computed without one task after the other ---------------------------------------------------------------


def test_of_a_mean_it_is_the_interval_of_the_mean():
    """n mean - (n - 1) (mean without t) is the value of t, whatever the values are."""
    values = np.random.default_rng(3).gamma(2, size=(40, 2))
    without = (values.sum(axis=0) - values) / 39
    limits = {"lowest": -np.inf, "highest": np.inf}
    found = left_out_intervals(values.mean(axis=0), without, n_tasks=40, resamples=500, **limits)
    for one, other in zip(found, task_intervals(values, resamples=500), strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
        assert (one.n, one.method) == (40, "bootstrap-t")


def test_ends_lie_within_the_limits_and_what_is_not_defined_has_none():
    without = np.column_stack([np.linspace(0.7, 1, 12), np.full(12, np.nan), np.full(12, 0.5)])
    found = left_out_intervals([0.99, 0.5, np.nan], without, n_tasks=12, resamples=200)
    assert found[0].high == 1
    assert (found[1].value, found[1].low) == (0.5, None)
    assert "without one of the tasks" in found[1].note
    assert (found[2].value, found[2].low, found[2].note) == (None, None, "not defined")


# --- groups of very many tasks ---------------------------------------------------------------------------------------

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
    ps = [compare_pairs(["a", "b"], all_pairs(random.normal(size=(1200, 2))), permutations=99)[0].p for _ in range(100)]
    # 100 tests at 5 %: fewer than 14 by the binomial distribution, but for one time in a thousand
    assert sum(p < 0.05 for p in ps) < 14
