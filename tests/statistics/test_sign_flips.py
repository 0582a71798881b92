"""Laws of the sign-flip test: p, interval and verdict agree in every verb, and what may not matter does not."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.optimize

from goldless.comparison.comparing import difference
from goldless.comparison.gating import one_sided_bounds
from goldless.comparison.pairing import Paired
from goldless.statistics.comparisons import all_pairs, compare_pairs, compare_with
from goldless.statistics.sign_flips import MeanTest
from goldless.statistics.skewness import nearer

DRAWS = {"seed": 0, "resamples": 499, "level": 0.95}


def with_outlier(n: int, random: np.random.Generator) -> np.ndarray:
    return np.append(random.normal(0.5, 0.1, n - 1), random.choice([-0.8, 1.5]))


def with_gaps(n: int, random: np.random.Generator) -> np.ndarray:
    return np.where(random.random(n) < 0.3, np.nan, random.normal(0.9, 1.0, n))


SHAPED = {
    "normal": lambda n, random: random.normal(0.7, 1.0, n),
    "lognormal": lambda n, random: random.choice([-1, 1]) * (3.5 - random.lognormal(0.0, 1.2, n)),
    "ties": lambda n, random: random.integers(-1, 4, n).astype(float),
    "two values": lambda n, random: random.choice([-1.0, 1.0], n, p=[0.1, 0.9]),
    "one outlier": with_outlier,
    "constant": lambda n, random: np.full(n, float(random.choice([-1.0, -0.3, 0.0, 0.3, 1.0]))),
    "gaps": with_gaps,
}


def shaped(shape: str, n: int, random: np.random.Generator) -> np.ndarray:
    """Differences of n tasks."""
    return SHAPED[shape](n, random)


SHAPES = tuple(SHAPED)
SIZES = (2, 3, 5, 6, 7, 10, 13, 14, 25)
MANY = 4


def studies_of(of_each_size: int, shape: str):
    """Studies of every size of this shape, each with a number."""
    for seed, n in enumerate(SIZES * of_each_size):
        yield seed, shaped(shape, n, np.random.default_rng([seed, SHAPES.index(shape)]))


@pytest.fixture(params=[1, pytest.param(MANY, marks=pytest.mark.nightly)], ids="{} of each size".format)
def studies(request):
    return functools.partial(studies_of, request.param)


def paired(gaps: np.ndarray, limits: tuple[float, float] | None = None) -> Paired:
    gaps = gaps[~np.isnan(gaps)]
    tasks = tuple(str(task) for task in range(len(gaps)))
    return Paired("m", "points", tasks, np.zeros(len(gaps)), gaps, gaps, None, (), 0, np.zeros(0), "", (), limits)


# --- interval, p and verdict ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [None, (-4.0, 4.0), (-1.0, 1.0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_compare_the_interval_excludes_zero_exactly_if_p_is_small_and_the_verdict_decided(shape, limits, studies):
    for _, gaps in studies(shape):
        inside = gaps if limits is None else np.clip(gaps, *limits)
        found = difference(paired(inside, limits), (), DRAWS)
        small = found.p is not None and found.p < 0.05
        assert found.decided == small
        if found.difference.low is not None:
            assert found.difference.excludes(0.0) == small
        elif small:  # only differences that are all the same decide without an interval
            assert np.ptp(inside[~np.isnan(inside)]) == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_in_score_two_agents_have_the_p_and_the_verdict_of_compare(shape, studies):
    for seed, gaps in studies(shape):
        there = gaps[~np.isnan(gaps)]
        (scored,) = compare_pairs(
            ["a", "b"], all_pairs(np.stack([there, np.zeros(len(there))], axis=1)), permutations=499
        )
        found = difference(paired(there), (), DRAWS)
        assert (scored.p, scored.decided) == (found.p, found.decided), seed
        assert scored.p_adjusted == scored.p


@pytest.mark.parametrize("shape", SHAPES)
def test_in_score_no_pair_is_surer_among_others_than_alone(shape, studies):
    for seed, gaps in studies(shape):
        others = np.random.default_rng(seed).normal(size=(len(gaps), 3))
        values = np.column_stack([gaps, np.zeros(len(gaps)), others])
        for found in (
            compare_pairs(list("abcde"), all_pairs(values), permutations=199),
            compare_with(list("abcde"), values, "a", leads=True, permutations=199),
        ):
            assert all(one.p is None or one.p <= one.p_adjusted for one in found)
            assert all(one.p < 0.05 for one in found if one.decided)


@pytest.mark.parametrize("margin", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_gate_a_bound_is_beyond_the_margin_exactly_if_the_one_sided_p_is_small(shape, margin, studies):
    """The one-sided p is half of compare's, asked at the margin, on the side of the mean."""
    for _, gaps in studies(shape):
        there = gaps[~np.isnan(gaps)]
        bounds = one_sided_bounds(there, None, {**DRAWS, "level": 0.9}, (-margin, -margin))
        test = MeanTest(there, permutations=499)
        small = test.n > 1 and test.p(-margin) / 2 < 0.05
        assert (bounds.low is not None and bounds.low > -margin) == (small and test.mean > -margin)
        assert (bounds.high is not None and bounds.high < -margin) == (small and test.mean < -margin)


def test_at_no_margin_a_gate_never_contradicts_compare(studies):
    for shape in SHAPES:
        for _, gaps in studies(shape):
            there = gaps[~np.isnan(gaps)]
            bounds = one_sided_bounds(there, None, {**DRAWS, "level": 0.9})
            if (found := difference(paired(there), (), DRAWS)).decided:
                assert bounds.excludes(0.0)
                assert (bounds.low > 0) == (found.difference.value > 0)


# --- against another implementation -----------------------------------------------------------------------------------


def plain_p(gaps: list[float], mean: float) -> float:
    """By full enumeration, in plain arithmetic, with Johnson's t solved for by a root finder."""
    moved = [gap - mean for gap in gaps]
    n, centre = len(moved), sum(moved) / len(moved)
    variance = sum((d - centre) ** 2 for d in moved) / n
    size = math.sqrt(sum(d * d for d in moved))
    t = abs(centre) / math.sqrt(variance / (n - 1))
    third = sum((d - centre) ** 3 for d in moved) / n
    skew = third / variance**1.5 * math.sqrt(n * (n - 1)) / (n - 2) if n > 2 else 0.0
    against = -skew * math.copysign(1, centre)
    if against > 0:
        weight = (3 + 80 / n) * against / math.sqrt(n)
        t = scipy.optimize.brentq(lambda x: x + weight * (1 / 6 + x * x / 3) - max(t, weight / 6), 0.0, 1e6)
    own = t * math.sqrt(n / (n - 1 + t * t))
    flips = itertools.product((1, -1), repeat=n)
    sums = [abs(sum(s * d for s, d in zip(signs, moved, strict=True))) / size for signs in flips]
    return sum(one >= own * (1 - 1e-9) for one in sums) / len(sums)


@pytest.mark.parametrize("n", [3, 4, 6, 8, 10])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "one outlier"])
def test_p_is_that_of_a_plain_loop_over_all_flips(shape, n):
    gaps = shaped(shape, n, np.random.default_rng(n))
    for mean in (0.0, -0.4, 0.9):
        assert MeanTest(gaps).p(mean) == pytest.approx(plain_p(gaps.tolist(), mean))


@pytest.mark.parametrize("shape", ["normal", "lognormal", "one outlier"])
def test_the_interval_ends_where_the_plain_p_passes_the_level(shape):
    gaps = shaped(shape, 8, np.random.default_rng(8))
    found = MeanTest(gaps).interval(0.95)
    for end, outward in ((found.low, -1), (found.high, 1)):
        assert plain_p(gaps.tolist(), end - outward * 1e-6) >= 0.05
        assert plain_p(gaps.tolist(), end + outward * 1e-6) < 0.05


# --- what may not matter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_with_the_agents_exchanged_p_stays_and_the_interval_is_mirrored(shape, studies):
    for seed, gaps in studies(shape):
        one, other = (MeanTest(side, seed=seed, permutations=499) for side in (gaps, -gaps))
        assert one.p() == other.p()
        there, mirrored = one.interval(0.95), other.interval(0.95)
        assert (there.low is None) == (mirrored.low is None)
        if there.low is not None:
            assert (there.low, there.high) == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_scale_and_shift_move_the_interval_and_leave_p(shape, studies):
    for seed, gaps in studies(shape):
        test = MeanTest(gaps, seed=seed, permutations=499)
        found = test.interval(0.95)
        for scale, shift in ((1000.0, 0.0), (1e-6, 0.0), (1.0, 5.0), (3.0, -2.0)):
            moved = MeanTest(scale * gaps + shift, seed=seed, permutations=499)
            assert moved.p(shift) == test.p()
            ends = moved.interval(0.95, tested=(shift, shift))
            if found.low is not None:
                expected = [scale * end + shift for end in (found.low, found.high)]
                assert (ends.low, ends.high) == pytest.approx(expected, abs=1e-5 * scale)


def test_an_agent_or_a_task_without_any_score_changes_nothing():
    values = np.random.default_rng(3).normal(size=(12, 4)) + np.arange(4) * 0.7
    nobody = np.column_stack([values, np.full(12, np.nan)])
    no_task = np.vstack([values, np.full(4, np.nan)])
    whole = compare_pairs(list("abcd"), all_pairs(values))
    more_agents = [one for one in compare_pairs(list("abcde"), all_pairs(nobody)) if "e" not in {one.first, one.second}]
    numbers = [
        [(one.first, one.second, one.n, round(one.difference, 9), one.p, one.p_adjusted, one.decided) for one in some]
        for some in (whole, more_agents, compare_pairs(list("abcd"), all_pairs(no_task)))
    ]
    assert numbers[0] == numbers[1] == numbers[2]
    gaps = values[:, 1] - values[:, 0]
    assert MeanTest(gaps).interval(0.95) == MeanTest(np.append(gaps, np.nan)).interval(0.95)


def test_hardly_any_skewness_hardly_changes_a_t():
    """A weight of 1e-16 once lost all digits, and with them t."""
    t, n = np.full(3, 4.0), np.full(3, 20.0)
    assert nearer(t, np.array([-1e-16, -1e-12, 0.0]), n) == pytest.approx(4.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_studies_of_these_laws_are_neither_all_decided_nor_all_undecided(shape):
    decided = [MeanTest(gaps, permutations=499).p() < 0.05 for _, gaps in studies_of(MANY, shape) if len(gaps) > 6]
    assert 0.05 < np.mean(decided) < 0.99
