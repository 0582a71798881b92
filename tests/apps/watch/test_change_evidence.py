"""Evidence of a change: rare false alarms for as long as it runs, and changes that are found."""

from __future__ import annotations

import numpy as np
import pytest

from goldless.apps.watch.change_evidence import POWERS, STAKES, change_evidence
from goldless.errors import UserError


def stream(random, occasions, *, items=6, noise=1.0, shift=lambda _number, _item: 0.0, levels=False):
    """Values of items with means of their own; the anchors are asked four times at first."""
    means = random.normal(size=items)
    made = []
    for number in range(occasions):
        values = {}
        for item in range(items):
            drawn = means[item] + shift(number, item) + noise * random.normal(size=4 if number == 0 else 1)
            values[str(item)] = (np.clip(np.rint(drawn + 3), 1, 5) if levels else drawn).tolist()
        made.append(values)
    return made


@pytest.mark.nightly
@pytest.mark.parametrize(("noise", "levels"), [(1.0, False), (0.7, True), (0.0, False)])
def test_a_quiet_stream_alarms_at_most_at_the_rate_however_long_it_runs(noise, levels):
    """At alpha 0.2, 40 streams of 30 occasions: at most 0.2 and chance; see benchmarks/method/watching.py."""
    random = np.random.default_rng(1)
    streams = [stream(random, 30, items=4, noise=noise, levels=levels) for _ in range(40)]
    alarms = sum(change_evidence(one, alpha=0.2, seed=seed)[-1].alarm for seed, one in enumerate(streams))
    assert alarms / 40 <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / 40)


@pytest.mark.parametrize(
    ("move", "direction"),
    [(lambda _: 1.5, "higher"), (lambda _: -1.5, "lower"), (lambda i: 4 * (-1) ** i, "other values")],
)
def test_a_planted_change_is_found_and_its_direction_is_named(move, direction):
    random = np.random.default_rng(3)
    made = stream(random, 11, items=12, shift=lambda number, item: move(item) if number >= 8 else 0.0)
    found = change_evidence(made)
    assert not found[7].alarm
    assert found[-1].alarm
    assert found[-1].direction == direction


def test_a_model_without_noise_that_changes_is_found_at_once():
    made = stream(np.random.default_rng(4), 6, items=20, noise=0.0, shift=lambda n, i: 0.1 * (-1) ** i * (n >= 5))
    assert [one.alarm for one in change_evidence(made)] == [False] * 5 + [True]


def test_one_bet_is_the_mean_over_stakes_of_what_the_rank_wins():
    """Two values, 0 then 1: the rank of 1 from above is u / 2; half of the stake is bet on the first occasion."""
    found = change_evidence([{"a": [0.0]}, {"a": [1.0]}], seed=7)[-1]
    ties = np.random.default_rng([7, 1]).random(2)
    high, away = ties[0] / 2, ties[1]  # both are as far from the middle
    ranks = high, 1 - high, away
    won = [[*(1 + STAKES * (1 - 2 * p)), *(POWERS * p ** (POWERS - 1))] for p in ranks]
    assert found.evidence == pytest.approx(0.5 * np.mean(won) + 0.5)


@pytest.mark.parametrize("alpha", [0, 1, 2])
def test_a_rate_that_is_none_is_refused(alpha):
    with pytest.raises(UserError, match="alpha must be between 0 and 1"):
        change_evidence([], alpha=alpha)
