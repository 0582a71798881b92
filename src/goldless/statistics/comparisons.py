"""Who is better than whom: paired differences over common tasks, with a test that allows for many comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
EXACT_UP_TO = 13
"""Up to this many tasks all sign flips are tried (8,192); beyond, as many random ones as asked for."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two agents on the tasks both have a score for."""

    first: str
    second: str
    difference: float | None
    """Mean of first minus second; None: no common task."""
    p: float | None
    """Two-sided sign-flip permutation test; None: fewer than two common tasks."""
    p_holm: float | None
    """Corrected for all comparisons made (Holm)."""
    n: int
    """Common tasks."""


def compare_all(
    agents: Sequence[str], values: FloatArray, *, seed: int = 0, permutations: int = 10_000
) -> list[Comparison]:
    """Every pair of agents, in order; ``values`` is [tasks, agents] with NaN where a score is missing."""
    found = []
    for (i, first), (j, second) in itertools.combinations(enumerate(agents), 2):
        differences = values[:, i] - values[:, j]
        differences = differences[~np.isnan(differences)]
        mean = float(differences.mean()) if len(differences) else None
        p = sign_flip_p(differences, seed=seed, permutations=permutations)
        found.append(Comparison(first, second, mean, p, None, len(differences)))
    corrected = holm([c.p for c in found])
    return [replace(c, p_holm=p) for c, p in zip(found, corrected, strict=True)]


def sign_flip_p(differences: FloatArray, *, seed: int = 0, permutations: int = 10_000) -> float | None:
    """Two-sided p of a mean difference of zero: how often flipped signs give a mean at least as far from zero."""
    n = len(differences)
    if n < 2:
        return None
    exact = n <= EXACT_UP_TO
    if exact:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(permutations, n))
    flipped = np.abs(signs @ differences)
    observed = abs(float(differences.sum()))
    # sums in another order differ in the last digit: an equal mean must count as equal
    as_far = int(np.sum(flipped >= observed * (1 - 1e-9)))
    return as_far / len(signs) if exact else (as_far + 1) / (permutations + 1)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; what has no p keeps none and does not count."""
    order = sorted((i for i, p in enumerate(ps) if p is not None), key=lambda i: ps[i] or 0.0)
    corrected: list[float | None] = [None] * len(ps)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * (ps[i] or 0.0)))
        corrected[i] = running
    return corrected
