"""The pairs that panels are compared on: those that every compared reviewer judged.

Some pairs are harder than others, so accuracies on different pairs tell little of who is better. A reviewer that judged
less than half as many pairs as the one that judged most would leave too few in common: it is not compared, and named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.errors import MetricError
from goldless.metrics.judgement_table import Convention, PairJudgements
from goldless.metrics.label_agreement import reviewer_credits
from goldless.metrics.pair_labels import PairLabels

BoolArray = npt.NDArray[np.bool_]

LEAST_COVERAGE = 0.5
"""Share of the pairs of the reviewer that judged most which another must have judged to be compared."""


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """How much of what people decided a reviewer judged."""

    reviewer: str
    judged: int
    """Decided pairs with a judgement; with the papers' convention those without a legible one too."""
    compared: bool
    """Whether these are enough for it to be compared."""


def common_pairs(
    judgements: PairJudgements, labels: PairLabels, *, convention: Convention
) -> tuple[tuple[JudgedPairs, ...], PairLabels]:
    """Who judged enough to be compared, and the labels of the pairs that all of them judged."""
    earned = reviewer_credits(judgements, labels, convention=convention)
    there = {name: ~np.isnan(one.credit) for name, one in earned.items()}
    most = max(int(judged.sum()) for judged in there.values())
    if not most:
        raise MetricError("no reviewer judged a pair that people decided, so there is no accuracy to compare")
    coverage = tuple(
        JudgedPairs(name, int(judged.sum()), compared=bool(judged.sum() >= LEAST_COVERAGE * most))
        for name, judged in there.items()
    )
    common: BoolArray = np.all([there[one.reviewer] for one in coverage if one.compared], axis=0)
    if not common.any():
        told = ", ".join(f"{one.reviewer} {one.judged}" for one in coverage if one.compared)
        raise MetricError(
            f"no pair that people decided was judged by all reviewers (of {labels.n_pairs} they judged: {told}), so "
            "panels cannot be compared on the same pairs; name fewer reviewers, or where they judged all but agents of "
            "their own family count those judgements too (--own-family)"
        )
    return coverage, labels.kept(common)


def agents_in(labels: PairLabels) -> tuple[str, ...]:
    """The agents that the pairs are of."""
    numbers = sorted({*labels.low.tolist(), *labels.high.tolist()})
    return tuple(labels.agents[number] for number in numbers)
