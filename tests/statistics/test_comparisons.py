"""Paired comparisons: sign flips as scipy counts them, Holm's correction, and step-down max-T against a plain loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from goldless.errors import UserError
from goldless.statistics import comparisons
from goldless.statistics.comparisons import (
    EXACT_UP_TO,
    all_pairs,
    compare_all,
    compare_with,
    fewest_tasks,
    holm,
    sign_flip_p,
    too_few_tasks,
)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 11])
@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
def test_p_is_scipys_exact_permutation_test_of_paired_samples(n, shift):
    differences = np.random.default_rng(n).normal(shift, 1.0, size=n)
    reference = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative="two-sided", n_resamples=np.inf
    )
    # scipy doubles the smaller tail; with signs flipped the null distribution is symmetric, so that is the same
    assert sign_flip_p(differences) == pytest.approx(reference.pvalue)


def test_means_equal_but_for_the_last_digit_count_as_equal():
    """0.1 + 0.2 + 0.3 in another order is another float; all 8 flips of (0.1, 0.2, 0.3) that give ±0.6 count."""
    for order in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1]):
        assert sign_flip_p(np.array(order)) == 0.25


def test_no_difference_at_all_has_a_p_of_one():
    assert sign_flip_p(np.zeros(6)) == 1.0


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_tasks_have_no_p(n):
    assert sign_flip_p(np.ones(n)) is None


def test_beyond_the_exact_limit_random_flips_come_close_to_scipy_and_are_never_zero():
    differences = np.random.default_rng(0).normal(0.5, 1.0, size=EXACT_UP_TO + 5)
    reference = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=50_000, rng=3
    )
    found = sign_flip_p(differences, permutations=50_000)
    assert found == pytest.approx(reference.pvalue, abs=0.006)
    assert sign_flip_p(np.full(30, 5.0), permutations=999) == 1 / 1000


# --- Holm --------------------------------------------------------------------------------------------------------


def test_holms_correction_of_a_worked_example():
    """0.01, 0.02, 0.03, 0.005 in order 0.005 x 4, 0.01 x 3, 0.02 x 2, 0.03 x 1, then never falling."""
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])


def test_what_has_no_p_keeps_none_and_does_not_count():
    assert holm([None, 0.02, None, 0.04]) == pytest.approx([None, 0.04, None, 0.04])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1))
def test_a_hypothesis_is_rejected_at_a_level_exactly_when_holms_steps_reach_it(ps, level):
    """Holm (1979): go up the ordered p; stop at the first above level / (hypotheses left)."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    rejected = set()
    for rank, i in enumerate(order):
        if ps[i] * (len(ps) - rank) > level:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(ps)) if p <= level} == rejected | ({*order} if level == 1 else set())


# --- all pairs ---------------------------------------------------------------------------------------------------


def plain_statistic(differences) -> float:
    """The sum over the root of the sum of squares; plain arithmetic."""
    squares = sum(d * d for d in differences)
    return abs(sum(differences)) / math.sqrt(squares) if squares else 0.0


def third_moment(values) -> float:
    there = [x for x in values if not math.isnan(x)]
    mean = sum(there) / len(there)
    return sum((x - mean) ** 3 for x in there) / len(there)


def less_skew(column, third) -> float:
    """The statistic of the t that Johnson's expansion, with 2 + 50 / n times the skewness, takes to the column's."""
    there = [d for d in column if not math.isnan(d)]
    n, mean = len(there), sum(there) / len(there)
    variance = sum((d - mean) ** 2 for d in there) / n
    against = -third / variance**1.5 * math.sqrt(n * (n - 1)) / (n - 2) * math.copysign(1, mean)
    t = abs(mean) / math.sqrt(variance / (n - 1))
    if against > 0:
        weight = (2 + 50 / n) * against / math.sqrt(n)
        t = scipy.optimize.brentq(lambda x: x + weight * (1 / 6 + x * x / 3) - max(t, weight / 6), 0.0, 1e6)
    return t * math.sqrt(n / (n - 1 + t * t))


def plain_max_t(columns, competing=None, thirds=None):
    """Step-down max-T over all sign flips, column by column (Westfall and Young 1993, algorithm 4.1).

    ``competing``: for each column still undecided, the columns that compete; all undecided ones by default. ``thirds``:
    the third moment of each column; nothing is skewed by default.
    """
    tasks = len(columns[0])
    own = [plain_statistic([d for d in column if not math.isnan(d)]) for column in columns]
    if thirds is not None:
        own = [less_skew(column, third) for column, third in zip(columns, thirds, strict=True)]
    order = sorted(range(len(columns)), key=lambda j: -own[j])
    flips = list(itertools.product((1, -1), repeat=tasks))
    flipped = [
        [
            plain_statistic([s * d for s, d in zip(signs, column, strict=True) if not math.isnan(d)])
            for column in columns
        ]
        for signs in flips
    ]
    ps, running = {}, 0.0
    hypotheses = [j for j in order if competing is None or competing(j, order)]
    for rank, j in enumerate(hypotheses):
        rivals = hypotheses[rank:] if competing is None else competing(j, order)
        hits = sum(max(row[i] for i in rivals) >= own[j] * (1 - 1e-9) for row in flipped)
        running = max(running, hits / len(flips))
        ps[j] = running
    return ps


def gapped(seed: int, tasks: int = 7, agents: int = 4):
    random = np.random.default_rng(seed)
    values = random.gamma(1.0, size=(tasks, agents)) + np.arange(agents) * 0.8
    values[random.random(values.shape) < 0.1] = np.nan
    return values


def differences_of(values):
    return [*all_pairs(values).differences.T]


def thirds_of(values):
    """The third moment of each pair: of one agent's scores less the mean of its differences, less the other's."""
    agents = values.shape[1]
    columns = dict(zip(itertools.combinations(range(agents), 2), differences_of(values), strict=True))

    def beside(i):
        mine = [columns[i, j] if i < j else -columns[j, i] for j in range(agents) if j != i]
        return [
            float(np.nanmean(row)) if not all(map(math.isnan, row)) else math.nan for row in zip(*mine, strict=True)
        ]

    own = [third_moment(beside(i)) for i in range(agents)]
    return [own[i] - own[j] for i, j in columns]


@pytest.mark.parametrize("seed", range(4))
def test_corrected_p_is_that_of_a_plain_loop_over_all_flips(seed):
    values = gapped(seed)
    found = compare_all(list("abcd"), values)
    expected = plain_max_t(differences_of(values), thirds=thirds_of(values))
    assert [c.p_adjusted for c in found] == pytest.approx([expected[j] for j in range(6)])
    alone = [plain_max_t([column])[0] for column in differences_of(values)]
    assert [c.p for c in found] == pytest.approx(alone)
    assert [c.p_holm for c in found] == pytest.approx(holm(alone))


def test_statistics_equal_but_for_the_last_digit_count_as_reached():
    """Of 16 flips, all and none give a sum of 1.2 to either side, in whichever order it is added: 2 / 16."""
    for order in itertools.permutations((0.1, 0.2, 0.4, 0.5)):
        (found,) = compare_all(["a", "b"], np.array([order, np.zeros(4)]).T)
        assert (found.p, found.p_adjusted) == (0.125, 0.125)


def test_with_a_baseline_only_its_comparisons_are_made_and_corrected_for():
    values = gapped(5)
    found = compare_with(list("abcd"), values, "b")
    assert [(c.first, c.second) for c in found] == [("a", "b"), ("b", "c"), ("b", "d")]
    columns, thirds = ([every[j] for j in (0, 3, 4)] for every in (differences_of(values), thirds_of(values)))
    expected = plain_max_t(columns, thirds=thirds)
    assert [c.p_adjusted for c in found] == pytest.approx([expected[j] for j in range(3)])


def test_the_leader_is_compared_beside_all_pairs_of_those_not_yet_decided():
    values = gapped(6)
    pairs = list(itertools.combinations(range(4), 2))

    def competing(j, order):
        """Pairs among the leader (agent 3) and the agents whose comparison with it comes no earlier."""
        if 3 not in pairs[j]:
            return []
        rivals = [min(pairs[i]) for i in order if 3 in pairs[i]]
        left = {3, *rivals[rivals.index(min(pairs[j])) :]}
        return [i for i, pair in enumerate(pairs) if left.issuperset(pair)]

    found = compare_with(list("abcd"), values, "d", leads=True)
    expected = plain_max_t(differences_of(values), competing, thirds_of(values))
    assert [(c.first, c.second) for c in found] == [("a", "d"), ("b", "d"), ("c", "d")]
    assert [c.p_adjusted for c in found] == pytest.approx([expected[j] for j in (2, 4, 5)])


@pytest.mark.parametrize(("tasks", "gaps"), [(7, True), (7, False), (20, True)])
def test_the_leader_is_compared_the_same_in_blocks_of_pairs(monkeypatch, tasks, gaps):
    values = gapped(6, tasks, agents=9)
    values = values if gaps else np.nan_to_num(values)
    names = list("abcdefghi")
    at_once = compare_with(names, values, "i", leads=True, permutations=200)
    monkeypatch.setattr(comparisons, "ELEMENTS_AT_ONCE", 40)
    assert compare_with(names, values, "i", leads=True, permutations=200) == at_once


def test_a_pair_of_agents_without_a_task_of_the_leaders_does_not_compete():
    """d leads a on six tasks: 2 of 2^6 flips reach that. b and c differ as much, on six other tasks."""
    values = np.full((12, 4), np.nan)
    values[:6, 0], values[:6, 3] = 0.0, 1.0
    values[6:, 1], values[6:, 2] = 0.0, 1.0
    found = compare_with(list("abcd"), values, "d", leads=True)
    assert [c.p_adjusted for c in found] == [2 / 64, None, None]


def test_p_of_one_pair_is_scipys_exact_permutation_test_on_its_common_tasks():
    """Two agents: nobody else connects them, so that only common tasks count."""
    values = np.random.default_rng(8).normal([0.0, 0.5], 1.0, size=(12, 2))
    values[:3, 0] = values[9:, 1] = np.nan
    (comparison,) = compare_all(["a", "b"], values)
    differences = values[3:9, 0] - values[3:9, 1]
    reference = scipy.stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert (comparison.n, comparison.p) == (6, pytest.approx(reference.pvalue))
    assert comparison.difference == pytest.approx(differences.mean())


def test_random_flips_come_close_to_all_of_them(monkeypatch):
    values = gapped(7, tasks=12)
    exact = compare_all(list("abcd"), values)
    monkeypatch.setattr("goldless.statistics.comparisons.EXACT_UP_TO", 1)
    drawn = compare_all(list("abcd"), values, permutations=40_000)
    assert [c.p_adjusted for c in drawn] == pytest.approx([c.p_adjusted for c in exact], abs=0.012)
    assert [c.p for c in drawn] == pytest.approx([c.p for c in exact], abs=0.012)


@pytest.mark.parametrize("agents", [2, 3, 12, 33, 60])
@pytest.mark.parametrize("tasks", [6, 40])
def test_agents_far_apart_are_all_decided_however_many_they_are(agents, tasks):
    values = np.random.default_rng(0).normal(100.0 * np.arange(agents), 1.0, size=(tasks, agents))
    found = compare_all([str(i) for i in range(agents)], values, permutations=200)
    assert all(c.decided for c in found)
    # two of 2^6 flips, or the data themselves of 201
    assert {c.p_adjusted for c in found} == {2 / 64 if tasks == 6 else 1 / 201}


def test_five_tasks_decide_nothing_and_six_can():
    """Of 2^5 flips, the data and their negation always reach the data: 2 / 32 is above 0.05, 2 / 64 is not."""
    assert fewest_tasks() == 6
    assert too_few_tasks(6) is None
    assert "the smallest p is 0.0625); 6 are needed" in too_few_tasks(5)
    values = np.random.default_rng(0).normal([0.0, 1e6], 1.0, size=(5, 2))
    assert [c.p_adjusted for c in compare_all(["a", "b"], values)] == [2 / 32]


@given(arrays(np.float64, (5, 3), elements=st.floats(-5, 5)))
def test_no_five_tasks_are_significant(values):
    assert all(c.p_adjusted is None or c.p_adjusted >= 2 / 32 for c in compare_all(["a", "b", "c"], values))


def test_every_pair_is_compared_once_on_the_tasks_both_have():
    nan = np.nan
    values = np.array([[1.0, 0.0, nan], [2.0, nan, 5.0], [3.0, 1.0, 1.0], [6.0, 1.0, nan]])
    found = compare_all(["a", "b", "c"], values)
    assert [(c.first, c.second, c.n) for c in found] == [("a", "b", 3), ("a", "c", 2), ("b", "c", 1)]
    # least squares by hand: a 0, b -24/11, c 1/11
    assert [c.difference for c in found] == pytest.approx([24 / 11, -1 / 11, -25 / 11])
    # three of one sign: 2 of 8 flips reach them. One task: no test
    assert [c.p for c in found] == [0.25, 1.0, None]
    assert found[2].p_adjusted is None


def test_an_unknown_baseline_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match=r"unknown agent 'gpt'. Did you mean 'gpt-4'"):
        compare_with(["gpt-4", "b"], np.ones((7, 2)), "gpt")


def test_agents_without_a_common_task_have_no_difference():
    (comparison,) = compare_all(["a", "b"], np.array([[1.0, np.nan], [np.nan, 2.0]]))
    assert (comparison.difference, comparison.p, comparison.p_adjusted, comparison.n) == (None, None, None, 0)


def test_comparing_in_several_parts_changes_nothing(monkeypatch):
    values = np.random.default_rng(9).normal(size=(20, 4))
    values[3, 2] = np.nan
    whole = compare_all(list("abcd"), values, permutations=700)
    monkeypatch.setattr("goldless.statistics.comparisons.ELEMENTS_AT_ONCE", 100)
    assert compare_all(list("abcd"), values, permutations=700) == whole
