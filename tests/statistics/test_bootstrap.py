"""Intervals: tasks are resampled, and the level is widened as Hesterberg (2015) says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from goldless.statistics.bootstrap import Interval, task_intervals

LEVEL, SEED = 0.9, 11


def expanded_tail(n: int, level: float) -> float:
    """Hesterberg's definition: Phi(-sqrt(n / (n - 1)) t_{1 - alpha/2, n - 1})."""
    return scipy.stats.norm.cdf(-np.sqrt(n / (n - 1)) * scipy.stats.t.ppf((1 + level) / 2, df=n - 1))


def slow_intervals(values, *, seed: int, resamples: int, level: float):
    """Mean, low and high of each column: draw after draw, task after task."""
    tasks, agents = values.shape
    random = np.random.default_rng(seed)
    means: list[list[float]] = [[] for _ in range(agents)]
    for _ in range(resamples):
        counts = random.multinomial(tasks, [1 / tasks] * tasks)
        drawn = [task for task in range(tasks) for _ in range(counts[task])]
        for agent in range(agents):
            found = [values[task, agent] for task in drawn if not np.isnan(values[task, agent])]
            if found:
                means[agent].append(sum(found) / len(found))
    for agent in range(agents):
        column = [v for v in values[:, agent] if not np.isnan(v)]
        tail = expanded_tail(len(column), level)
        yield sum(column) / len(column), *np.quantile(means[agent], [tail, 1 - tail])


def table(tasks: int = 12, agents: int = 3):
    values = np.random.default_rng(5).normal([0.0, -40.0, 7.0][:agents], 3.0, size=(tasks, agents))
    values[[1, 4, 5], 1] = np.nan
    return values


def test_intervals_equal_those_of_a_slow_loop_over_the_same_draws():
    values = table()
    expected = list(slow_intervals(values, seed=SEED, resamples=300, level=LEVEL))
    found = task_intervals(values, seed=SEED, resamples=300, level=LEVEL)
    for interval, (mean, low, high) in zip(found, expected, strict=True):
        assert (interval.mean, interval.low, interval.high) == pytest.approx((mean, low, high), abs=1e-9)
    assert [interval.n for interval in found] == [12, 9, 12]


def test_with_many_tasks_the_interval_is_scipys_percentile_interval():
    values = np.random.default_rng(1).gamma(2.0, 3.0, size=(2000, 1)) - 4
    (interval,) = task_intervals(values, resamples=20_000, level=0.95)
    reference = scipy.stats.bootstrap(
        (values[:, 0],), np.mean, n_resamples=20_000, confidence_level=0.95, method="percentile", rng=7
    ).confidence_interval
    width = reference.high - reference.low
    assert interval.low == pytest.approx(reference.low, abs=0.03 * width)
    assert interval.high == pytest.approx(reference.high, abs=0.03 * width)


@pytest.mark.parametrize("n", [2, 3, 5, 14, 40])
def test_the_tails_are_those_of_the_expanded_percentile_interval(n):
    """All resampled means of n values are compared with the reported ends: the tails below and above must agree."""
    values = np.random.default_rng(n).normal(size=(n, 1))
    (interval,) = task_intervals(values, seed=SEED, resamples=4000, level=0.95)
    random = np.random.default_rng(SEED)
    means = random.multinomial(n, np.full(n, 1 / n), size=4000) @ values[:, 0] / n
    low, high = np.quantile(means, [expanded_tail(n, 0.95), 1 - expanded_tail(n, 0.95)])
    assert (interval.low, interval.high) == pytest.approx((low, high))
    plain = np.quantile(means, [0.025, 0.975])
    assert interval.low <= plain[0] < plain[1] <= interval.high


def test_negative_means_keep_their_intervals():
    (interval,) = task_intervals(np.array([[-5.0], [-6.0], [-9.0], [-4.0]]))
    assert interval.mean == -6.0
    assert -9.0 <= interval.low < -6.0 < interval.high <= -4.0


def test_one_scored_task_gives_a_mean_without_interval_and_says_why():
    (interval,) = task_intervals(np.array([[3.0], [np.nan], [np.nan]]))
    assert interval == Interval(3.0, None, None, 1, 0.95, "no interval: n = 1")


def test_no_scored_task_gives_nothing_and_says_why():
    (interval,) = task_intervals(np.array([[np.nan], [np.nan]]))
    assert interval == Interval(None, None, None, 0, 0.95, "no task was scored")


def test_a_missing_score_is_left_out_of_the_mean_and_does_not_count_as_zero():
    with_gap = task_intervals(np.array([[2.0], [np.nan], [4.0], [9.0]]))[0]
    assert (with_gap.mean, with_gap.n) == (5.0, 3)
    assert with_gap.low >= 2.0


def test_draws_that_hold_none_of_an_agents_tasks_do_not_spoil_its_interval():
    values = np.full((40, 1), np.nan)
    values[:2, 0] = (1.0, 2.0)
    (interval,) = task_intervals(values, resamples=500)
    assert (interval.low, interval.high) == (1.0, 2.0)


def test_equal_scores_have_an_interval_of_no_width():
    (interval,) = task_intervals(np.full((6, 1), -1.25))
    assert (interval.low, interval.mean, interval.high) == (-1.25, -1.25, -1.25)


def test_the_seed_decides_and_another_seed_gives_another_interval():
    values = table()
    assert task_intervals(values, seed=1) == task_intervals(values, seed=1)
    assert task_intervals(values, seed=1) != task_intervals(values, seed=2)


def test_an_agents_interval_does_not_depend_on_which_other_agents_there_are():
    values = table()
    alone = task_intervals(values[:, 2:3], seed=3)[0]
    together = task_intervals(values, seed=3)[2]
    assert (alone.low, alone.high) == pytest.approx((together.low, together.high))


def test_drawing_in_several_parts_changes_nothing(monkeypatch):
    values = table()
    whole = task_intervals(values, resamples=500)
    monkeypatch.setattr("goldless.statistics.bootstrap.ELEMENTS_AT_ONCE", 60)
    assert task_intervals(values, resamples=500) == whole


@given(
    arrays(np.float64, st.tuples(st.integers(2, 8), st.just(1)), elements=st.floats(-1e3, 1e3)),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_the_ends_lie_within_the_scores_and_a_higher_level_is_no_narrower(values, level):
    (interval,) = task_intervals(values, resamples=200, level=level)
    (wider,) = task_intervals(values, resamples=200, level=0.999)
    assert values.min() - 1e-9 <= wider.low <= interval.low <= interval.high <= wider.high <= values.max() + 1e-9
