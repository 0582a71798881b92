"""Models of votes without labels: how good each judge seems, given how the judges vote together.

Votes are between 0 and 1: 1 for the first of two, 0 for the second, one half for neither; NaN where a judge has none.

Both models take judges that agree for judges that are right. Errors that judges share look like agreement, so the
order of the judges is useful, the models' confidence is far too high, and their verdict is no better than the equal
vote (see docs/review.md for what was measured).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from goldless.arrays import FloatArray, IntArray

EM_STEPS = 200
SETTLED = 1e-9
"""A step that changes no posterior by more than this is the last."""
START_WITHIN = 0.02
RATE_WITHIN = 0.01
"""Rates stay this far from 0 and 1, so that no single vote decides an item."""


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """Dawid and Skene's model of two classes (1979), fitted by expectation maximisation."""

    chance: FloatArray
    """[items]: the posterior that the first is better."""
    hits: FloatArray
    """[judges]: share of votes for the first where it is better."""
    false_alarms: FloatArray
    """[judges]: the same where it is not."""

    @property
    def accuracy(self) -> FloatArray:
        """[judges]: as estimated, both classes alike: (hits + 1 - false alarms) / 2."""
        found: FloatArray = (self.hits + 1 - self.false_alarms) / 2
        return found


def dawid_skene(votes: FloatArray, *, start: FloatArray | None = None) -> DawidSkene:
    """Fit to votes [items, judges], each item with at least one. ``start``: a posterior; None: the mean vote."""
    there = ~np.isnan(votes)
    said, has = np.where(there, votes, 0.0), there.astype(np.float64)
    chance = np.clip(said.sum(axis=1) / has.sum(axis=1), START_WITHIN, 1 - START_WITHIN) if start is None else start
    for _ in range(EM_STEPS):
        share = np.clip(chance.mean(), 1e-12, 1 - 1e-12)
        rates = np.full((2, said.shape[1]), 0.5)  # one half for a judge of none
        for rate, weight in zip(rates, (chance, 1 - chance), strict=True):
            np.divide(weight @ said, weight @ has, out=rate, where=weight @ has > 1e-12)
        hits, alarms = np.clip(rates, RATE_WITHIN, 1 - RATE_WITHIN)
        odds = np.log(share / (1 - share)) + said @ np.log(hits / alarms)
        odds += (has - said) @ np.log((1 - hits) / (1 - alarms))
        last, chance = chance, expit(odds)
        if np.abs(chance - last).max(initial=0.0) < SETTLED:
            break
    return DawidSkene(chance, hits, alarms)


def both_sides(votes: FloatArray) -> FloatArray:
    """Votes on every pair as named, and the other way round: which response is named first does not matter then."""
    return np.concatenate([votes, 1 - votes])


@dataclass(frozen=True, eq=False)
class JudgeAware:
    """Strengths of responses, and how well each judge tells them apart."""

    strength: FloatArray
    """[responses]"""
    discrimination: FloatArray
    """[judges], geometric mean 1: d of P(a beats b by judge j) = 1 / (1 + exp(-d_j (strength_a - strength_b)))."""


def judge_aware_bradley_terry(votes: FloatArray, first: IntArray, second: IntArray) -> JudgeAware:
    """Fit to votes [pairs, judges] on pairs of responses numbered from 0, with N(0, 1) priors on strengths and log d.

    (arXiv 2601.21817; BT-sigma, 2602.16610.)
    """
    there = ~np.isnan(votes)
    said = np.where(there, votes, 0.0)
    responses, judges = int(max(first.max(), second.max())) + 1, votes.shape[1]

    def loss(at: FloatArray) -> tuple[float, FloatArray]:
        d = np.exp(np.clip(at[responses:], -30, 30))
        gap = at[first] - at[second]
        reach = gap[:, None] * d
        beyond = np.where(there, expit(reach) - said, 0.0)
        misfit = float(np.where(there, np.logaddexp(0, reach) - said * reach, 0.0).sum())
        pull = beyond @ d
        slope = at.copy()
        slope[:responses] += np.bincount(first, pull, responses) - np.bincount(second, pull, responses)
        slope[responses:] += (beyond * reach).sum(axis=0)
        return misfit + float(at @ at) / 2, slope

    from scipy.optimize import minimize  # noqa: PLC0415 - most commands fit nothing, and would import it

    begin = np.zeros(responses + judges)
    found = minimize(loss, begin, jac=True, method="TNC", options={"maxfun": 3000, "ftol": 1e-7}).x
    log_d = found[responses:]
    return JudgeAware(found[:responses], np.exp(log_d - log_d.mean()))
