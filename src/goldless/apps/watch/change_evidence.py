"""Evidence that the values of a stream changed, with a false-alarm rate that is valid for as long as it is watched.

A new value is ranked among the earlier values of the same item, ties at random. If nothing changed, the earlier and the
new value are exchangeable, so the rank p is uniform and independent of all ranks before, whatever the values'
distribution: its mean of one half is known, not estimated from a first look. Bets on ranks,

    W = Π (1 + λ (1 - 2 p))   and   W = Π ε p^(ε - 1),

are then martingales (up, down, and away from the middle; several λ and ε). Their mean is a bet whose stakes follow from
the past only. A change may come late, so a new copy of all bets starts on every occasion j, with the share
1 / (j (j + 1)) of the stake. The evidence is the sum; it reaches 1 / alpha with a chance of at most alpha, ever
(Ville's inequality). See Vovk et al. 2003 (exchangeability martingales) and arXiv 2606.15474 (two processes that say
who drifted).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError

Direction = Literal["higher", "lower", "other values"]
STAKES = np.array([0.3, 0.6, 0.9])
"""λ."""
POWERS = np.array([0.3, 0.6])
"""ε: for ranks near the end, where many values have been seen."""
SMALLEST = 1e-12
ONE_WAY = 0.35
"""A mean rank below this is said to be higher values, above one minus this lower ones."""
Values = Mapping[str, Sequence[float]]
"""The values of each item on one occasion, in order."""


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """The evidence after one occasion."""

    evidence: float
    """1 at the start; 20 is an alarm with a false-alarm rate of 0.05."""
    direction: Direction
    """The ranks of this occasion's values among the earlier ones."""
    ranked: int
    """Values that had earlier ones to be ranked among."""
    alarm: bool
    """True if the evidence reached 1 / alpha on this or an earlier occasion."""


def check_alpha(alpha: float) -> None:
    """Refuse an alpha that is not between 0 and 1."""
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be between 0 and 1, got {alpha:g}. Try 0.05")


def change_evidence(occasions: Sequence[Values], *, alpha: float = 0.05, seed: int = 0) -> list[ChangeEvidence]:
    """The evidence of a change after each occasion. Values of one item are compared with its own earlier values."""
    check_alpha(alpha)
    earlier: dict[str, list[float]] = {}
    stakes = np.full((3, len(STAKES) + len(POWERS)), -np.inf)
    """Log wealth of the copies that have started."""
    found, bets, alarm = [], 0, False
    for number, values in enumerate(occasions):
        ranks = _ranks(values, earlier, np.random.default_rng([seed, number]))
        if len(ranks):
            bets += 1
            started = -math.log(bets * (bets + 1))
            stakes = np.logaddexp(stakes, started) + _gains(np.stack([ranks[:, 0], 1 - ranks[:, 0], ranks[:, 1]]))
        log = float(np.logaddexp(np.logaddexp.reduce(stakes, axis=None) - math.log(stakes.size), -math.log(bets + 1)))
        alarm |= log >= -math.log(alpha)
        place = float(ranks[:, 0].mean()) if len(ranks) else 0.5
        direction: Direction = "higher" if place < ONE_WAY else "lower" if place > 1 - ONE_WAY else "other values"
        found.append(ChangeEvidence(math.exp(min(log, 700.0)), direction, len(ranks), alarm))
    return found


def _gains(ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[directions, bets]: what each bet wins on an occasion with these ranks [directions, values], in logarithms."""
    p = ranks[:, None, :].clip(min=SMALLEST)
    linear = np.log1p(STAKES[None, :, None] * (1 - 2 * p)).sum(axis=2)
    power = (np.log(POWERS)[None, :, None] + (POWERS[None, :, None] - 1) * np.log(p)).sum(axis=2)
    return np.concatenate([linear, power], axis=1)


def _ranks(values: Values, earlier: dict[str, list[float]], random: np.random.Generator) -> npt.NDArray[np.float64]:
    """[values, 2]: the rank from above, and by the distance from the middle; adds the values to the earlier ones."""
    ranks = []
    for item, new in values.items():
        known = earlier.setdefault(item, [])
        for value in new:
            ties = random.random(2)
            if known:
                bag = np.array([*known, value])
                away = np.abs(bag - np.median(bag))
                ranks.append([_rank(bag, ties[0]), _rank(away, ties[1])])
            known.append(float(value))
    return np.array(ranks).reshape(-1, 2)


def _rank(bag: npt.NDArray[np.float64], tie: float) -> float:
    """The share of values above the last one, which shares its place with those equal to it, itself included."""
    last = bag[-1]
    return float((np.sum(bag > last) + tie * np.sum(bag == last)) / len(bag))
