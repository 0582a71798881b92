"""The share of good responses by a binary judge, corrected for its errors.

A judge that passes the share p of n unlabelled responses, with sensitivity q1 on m1 labelled good and specificity q0 on
m0 labelled bad responses, sees p = θ q1 + (1 - θ) (1 - q0), so θ = (p + q0 - 1) / (q0 + q1 - 1) (Rogan, Gladen 1978).
The interval allows for the errors of p, q0 and q1 together, with counts moved away from 0 and 1 (arXiv 2511.21140).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from goldless.errors import UserError
from goldless.statistics.checks import check_level


@dataclass(frozen=True, slots=True)
class CorrectedShare:
    """A corrected share with its interval."""

    share: float
    low: float
    high: float
    judged: float
    """The share that the judge passes."""
    sensitivity: float
    specificity: float
    n: int
    """Unlabelled responses that the judge judged."""
    good: int
    """Labelled good responses."""
    bad: int


def corrected_share(
    *, passed: int, n: int, good_passed: int, good: int, bad_failed: int, bad: int, level: float = 0.95
) -> CorrectedShare:
    """Correct the share of ``passed`` out of ``n`` unlabelled responses by the judge's errors on labelled ones.

    ``good_passed`` of the ``good`` labelled ones passed, ``bad_failed`` of the ``bad`` ones failed. Raises where the
    judge is no better than chance, since no correction is defined there.
    """
    check_level(level)
    if min(n, good, bad) < 1:
        raise UserError(
            f"a corrected share needs unlabelled, labelled good and labelled bad responses, got {n}, {good} and {bad}. "
            "Label more tasks"
        )
    p, q1, q0 = passed / n, good_passed / good, bad_failed / bad
    if q0 + q1 <= 1:
        raise UserError(
            f"the judge is no better than chance on the labelled responses: sensitivity {q1:.2f} and specificity "
            f"{q0:.2f} must add up to more than 1. Use another judge"
        )
    z = float(ndtri((1 + level) / 2))
    # moved towards the middle: a judge without an error among five is not known to make none
    size, m0, m1 = n + z**2, bad + 2, good + 2
    a, b0, b1 = (passed + z**2 / 2) / size, (bad_failed + 1) / m0, (good_passed + 1) / m1
    gain = b0 + b1 - 1
    if gain <= 0:
        low, high = 0.0, 1.0
    else:
        theta = _within((a + b0 - 1) / gain)
        wrong0, wrong1 = b0 * (1 - b0) / m0, b1 * (1 - b1) / m1
        centre = theta + 2 * z**2 * (theta * wrong1 - (1 - theta) * wrong0)
        error = math.sqrt(a * (1 - a) / size + (1 - theta) ** 2 * wrong0 + theta**2 * wrong1) / gain
        low, high = _within(centre - z * error), _within(centre + z * error)
    return CorrectedShare(_within((p + q0 - 1) / (q0 + q1 - 1)), low, high, p, q1, q0, n, good, bad)


def _within(value: float) -> float:
    return min(1.0, max(0.0, value))
