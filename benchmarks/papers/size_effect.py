"""The size effect within families: how much a score rises with ten times the parameters (GEM, section 5, figure 5).

    python benchmarks/papers/size_effect.py [published:70b | published:8b | EDITION | FILE.csv]

The slope b of score = family + b log10(parameters), by least squares over families with at least two sizes. A family
has its own level, so that nothing is learnt from one family being better than another. The interval leaves out one
family at a time (Tukey's jackknife, Student's t below ten families): models of one family are not independent. p:
two-sided, how often sizes given to the members of each family at random yield a slope at least as far from 0.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from goldless.arrays import FloatArray
from goldless.statistics.bootstrap import Estimate, left_out_intervals
from gre_boards import Board, read_board

EXACT_WAYS = 100_000
"""Up to this many assignments of sizes, all are tried."""
PERMUTATIONS = 10_000
LEVEL = 0.95


def families(board: Board, metric: str) -> dict[str, FloatArray]:
    """By family with at least two sizes: log10 of the parameters and scores, as deviations from its mean."""
    scores, members = board.models(metric), dict[str, list[tuple[float, float]]]()
    for agent in board.agents:
        if agent.agent in scores and agent.parameters is not None and agent.family is not None:
            members.setdefault(agent.family, []).append((math.log10(agent.parameters), scores[agent.agent]))
    arrays = {name: np.array(rows) for name, rows in sorted(members.items())}
    return {name: rows - rows.mean(axis=0) for name, rows in arrays.items() if np.ptp(rows[:, 0]) > 0}


def pairs(found: Mapping[str, FloatArray]) -> tuple[int, int]:
    """Pairs of one family that differ in size, and those of them in which the larger has the higher score."""
    both = [(one - other) for rows in found.values() for one, other in itertools.combinations(rows, 2)]
    apart = [one for one in both if one[0] != 0]
    return len(apart), sum(bool(one[0] * one[1] > 0) for one in apart)


def slope(rows: Sequence[FloatArray]) -> float:
    """Least squares with a level for each family: the slope of deviations from family means."""
    return float(sum(one[:, 0] @ one[:, 1] for one in rows) / sum(one[:, 0] @ one[:, 0] for one in rows))


def estimate(found: Mapping[str, FloatArray], seed: int = 0) -> Estimate:
    """The slope with its interval."""
    rows = list(found.values())
    without = np.array([[slope(rows[:i] + rows[i + 1 :])] for i in range(len(rows))])
    limits = {"lowest": -math.inf, "highest": math.inf}
    return left_out_intervals([slope(rows)], without, n_tasks=len(rows), seed=seed, level=LEVEL, **limits)[0]


def p_value(found: Mapping[str, FloatArray], seed: int = 0) -> float:
    """The slope's denominator is the same however sizes are given out, so its numerator is compared."""
    rows = [(one[:, 0], one[:, 1]) for one in found.values()]
    nearly = abs(sum(float(x @ y) for x, y in rows)) * (1 - 1e-9)  # sums in another order differ in the last digit
    if math.prod(math.factorial(len(x)) for x, _ in rows) <= EXACT_WAYS:
        sums = np.zeros(1)
        for x, y in rows:
            given = np.array([x[list(order)] @ y for order in itertools.permutations(range(len(x)))])
            sums = np.add.outer(sums, given).ravel()
        return float(np.mean(np.abs(sums) >= nearly))
    random = np.random.default_rng(seed)
    drawn = sum(random.permuted(np.tile(x, (PERMUTATIONS, 1)), axis=1) @ y for x, y in rows)
    return (int(np.sum(np.abs(drawn) >= nearly)) + 1) / (PERMUTATIONS + 1)


def main(source: str = "published:70b") -> None:
    """Print the size effect under every metric of a board."""
    board = read_board(source)
    print(f"{board.name}: change of the score per tenfold parameters, within families")
    for metric in board.metrics:
        found = families(board, metric)
        if len(found) < 2:
            print(f"{metric}: fewer than two families with two sizes")
            continue
        one, (count, higher) = estimate(found), pairs(found)
        interval = f"{one.value:+.2f} ({one.low:+.2f} to {one.high:+.2f})"
        larger = f"the larger scores higher in {higher} of {count} pairs of {len(found)} families"
        print(f"{metric}: {interval}, p {p_value(found):.2g}; {larger}")


if __name__ == "__main__":
    main(*sys.argv[1:])
