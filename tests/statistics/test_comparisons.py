"""Paired comparisons: sign flips as scipy counts them, Holm's correction, and step-down max-T against a plain loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from goldless.errors import UserError
from goldless.statistics.comparisons import all_pairs, compare_pairs, compare_with, fewest_tasks, holm, too_few_tasks

# --- Holm --------------------------------------------------------------------------------------------------------


def test_holms_correction_of_a_worked_example():
    """0.01, 0.02, 0.03, 0.005 in order 0.005 x 4, 0.01 x 3, 0.02 x 2, 0.03 x 1, then never falling."""
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])


# --- all pairs ---------------------------------------------------------------------------------------------------


def plain_statistic(differences) -> float:
    """The sum over the root of the sum of squares; plain arithmetic."""
    squares = sum(d * d for d in differences)
    return abs(sum(differences)) / math.sqrt(squares) if squares else 0.0


def third_moment(values) -> float:
    there = [x for x in values if not math.isnan(x)]
    mean = sum(there) / len(there)
    return sum((x - mean) ** 3 for x in there) / len(there)


def less_skew(column, third, factors=(2, 50)) -> float:
    """The statistic of the t that Johnson's expansion, with a + b / n times the skewness, takes to the column's."""
    there = [d for d in column if not math.isnan(d)]
    n, mean = len(there), sum(there) / len(there)
    variance = sum((d - mean) ** 2 for d in there) / n
    against = -third / variance**1.5 * math.sqrt(n * (n - 1)) / (n - 2) * math.copysign(1, mean)
    t = abs(mean) / math.sqrt(variance / (n - 1))
    if against > 0:
        weight = (factors[0] + factors[1] / n) * against / math.sqrt(n)
        t = scipy.optimize.brentq(lambda x: x + weight * (1 / 6 + x * x / 3) - max(t, weight / 6), 0.0, 1e6)
    return t * math.sqrt(n / (n - 1 + t * t))


def plain_alone(column) -> float:
    """The share of all sign flips that reach the statistic which skewness, counted 3 + 80 / n times, leaves."""
    there = [d for d in column if not math.isnan(d)]
    own = less_skew(column, third_moment(column), (3, 80))
    flips = [*itertools.product((1, -1), repeat=len(there))]
    reached = [
        plain_statistic([s * d for s, d in zip(signs, there, strict=True)]) >= own * (1 - 1e-9) for signs in flips
    ]
    return sum(reached) / len(flips)


def moderation(columns) -> list[float]:
    """The root of each column's mean square over the same with ten more tasks of the median column's."""
    known = [[d for d in column if not math.isnan(d)] for column in columns]
    squares = [sum(d * d for d in column) / len(column) for column in known]
    usual = float(np.median(squares))
    return [
        math.sqrt(square / (square + 10 / len(column) * usual)) for square, column in zip(squares, known, strict=True)
    ]


def plain_max_t(columns, thirds, competing=None):
    """Step-down max-T over all sign flips, column by column (Westfall and Young 1993, algorithm 4.1).

    Statistics are moderated. ``thirds``: the third moment of each column. ``competing``: for each column still
    undecided, the columns that compete; all undecided ones by default.
    """
    tasks, factors = len(columns[0]), moderation(columns)
    own = [factor * less_skew(column, third) for column, third, factor in zip(columns, thirds, factors, strict=True)]
    order = sorted(range(len(columns)), key=lambda j: -own[j])
    flips = list(itertools.product((1, -1), repeat=tasks))
    flipped = [
        [
            factor * plain_statistic([s * d for s, d in zip(signs, column, strict=True) if not math.isnan(d)])
            for column, factor in zip(columns, factors, strict=True)
        ]
        for signs in flips
    ]
    ps, running = {}, 0.0
    hypotheses = [j for j in order if competing is None or competing(j, order)]
    for rank, j in enumerate(hypotheses):
        rivals = hypotheses[rank:] if competing is None else competing(j, order)
        hits = sum(max(row[i] for i in rivals) >= own[j] * (1 - 1e-9) for row in flipped)
        running = max(running, hits / len(flips))
        ps[j] = max(running, plain_alone(columns[j]))
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
    found = compare_pairs(list("abcd"), all_pairs(values))
    expected = plain_max_t(differences_of(values), thirds_of(values))
    assert [c.p_adjusted for c in found] == pytest.approx([expected[j] for j in range(6)])
    alone = [plain_alone(column) for column in differences_of(values)]
    assert [c.p for c in found] == pytest.approx(alone)
    assert [c.p_holm for c in found] == pytest.approx(holm(alone))


def test_with_a_baseline_only_its_comparisons_are_made_and_corrected_for():
    values = gapped(5)
    found = compare_with(list("abcd"), values, "b")
    assert [(c.first, c.second) for c in found] == [("a", "b"), ("b", "c"), ("b", "d")]
    columns, thirds = ([every[j] for j in (0, 3, 4)] for every in (differences_of(values), thirds_of(values)))
    expected = plain_max_t(columns, thirds)
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
    expected = plain_max_t(differences_of(values), thirds_of(values), competing)
    assert [(c.first, c.second) for c in found] == [("a", "d"), ("b", "d"), ("c", "d")]
    assert [c.p_adjusted for c in found] == pytest.approx([expected[j] for j in (2, 4, 5)])


def test_p_of_one_pair_is_scipys_exact_permutation_test_on_its_common_tasks():
    """Two agents: nobody else connects them, so that only common tasks count. Symmetric, so that nothing is skewed."""
    differences = np.array([-0.3, 0.1, 0.4, 0.6, 0.9, 1.3])
    values = np.zeros((12, 2))
    values[3:9, 0] = differences
    values[:3, 0] = values[9:, 1] = np.nan
    (comparison,) = compare_pairs(["a", "b"], all_pairs(values))
    reference = scipy.stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert (comparison.n, comparison.p) == (6, pytest.approx(reference.pvalue))
    assert comparison.difference == pytest.approx(differences.mean())


def test_five_tasks_decide_nothing_and_six_can():
    """Of 2^5 flips, the data and their negation always reach the data: 2 / 32 is above 0.05, 2 / 64 is not."""
    assert fewest_tasks() == 6
    assert too_few_tasks(6) is None
    assert "the smallest p is 0.0625); 6 are needed" in too_few_tasks(5)
    values = np.random.default_rng(0).normal([0.0, 1e6], 1.0, size=(5, 2))
    assert [c.p_adjusted for c in compare_pairs(["a", "b"], all_pairs(values))] == [2 / 32]


def test_every_pair_is_compared_once_on_the_tasks_both_have():
    nan = np.nan
    values = np.array([[1.0, 0.0, nan], [2.0, nan, 5.0], [3.0, 1.0, 1.0], [6.0, 1.0, nan]])
    found = compare_pairs(["a", "b", "c"], all_pairs(values))
    assert [(c.first, c.second, c.n) for c in found] == [("a", "b", 3), ("a", "c", 2), ("b", "c", 1)]
    # least squares by hand: a 0, b -24/11, c 1/11
    assert [c.difference for c in found] == pytest.approx([24 / 11, -1 / 11, -25 / 11])
    # three of one sign: 2 of 8 flips reach them. One task: no test
    assert [c.p for c in found] == [0.25, 1.0, None]
    assert found[2].p_adjusted is None


def test_an_unknown_baseline_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match=r"unknown agent 'gpt'. Did you mean 'gpt-4'"):
        compare_with(["gpt-4", "b"], np.ones((7, 2)), "gpt")
