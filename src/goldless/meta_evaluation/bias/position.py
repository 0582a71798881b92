"""Position bias: whether the verdict on a pair hangs on which response is shown first.

Over the pairs a reviewer was asked about in both orders. *Flips*: share of pairs whose verdict changes with the order,
1 - Pc of Auto-PRE. *First-position rate*: of the verdicts on pairs judged in both orders that found one better, the
share for the response shown first; each response of such a pair is first once, so 0.5 is neutral whichever is better.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.bias.rows import BiasRow, Draws, Measured, Unavailable, share_rows
from goldless.metrics.exam_traits import Trait, consistency
from goldless.metrics.judgement_table import NEITHER, Convention, PairJudgements

ONE_ORDER = "judgements in one order only: ask both orders of every pair"


def position_rows(
    judgements: PairJudgements, *, convention: Convention, draws: Draws
) -> tuple[list[BiasRow], list[Unavailable]]:
    """Flips and first-position rate of every reviewer that was asked in both orders."""
    both: npt.NDArray[np.bool_] = np.asarray(judgements.asked.all(axis=2))
    heard = [name for name, own in zip(judgements.reviewers, both, strict=True) if own.any()]
    silent = tuple(name for name in judgements.reviewers if name not in heard)
    unavailable = [Unavailable("position", ONE_ORDER, silent)] if silent else []
    if not heard:
        return [], unavailable
    judgements = judgements.of(heard)
    same = consistency(judgements, convention=convention, **draws)
    rows = [_flips(name, same[name], _ties(judgements, name)) for name in heard]
    first = [_first(judgements, name) for name in heard]
    return [
        *rows,
        *share_rows("position", "decided for the one shown first", first, neutral=0.5, draws=draws),
    ], unavailable


def _flips(name: str, same: Trait, ties: int) -> BiasRow:
    return BiasRow(
        bias="position",
        judge=name,
        kind="reviewer",
        measure="flips when the order is swapped",
        value=None if same.value is None else 1 - same.value,
        low=None if same.high is None else 1 - same.high,
        high=None if same.low is None else 1 - same.low,
        neutral=None,
        asked=same.asked,
        used=same.used,
        n_tasks=same.n_tasks,
        level=same.level,
        ties=ties,
        method=same.method,
        note=same.note,
    )


def _ties(judgements: PairJudgements, name: str) -> int:
    """Pairs judged in both orders with a tie in at least one of them."""
    (value,) = judgements.of([name]).value
    return int(np.sum((value == NEITHER).any(axis=1) & ~np.isnan(value).any(axis=1)))


def _first(judgements: PairJudgements, name: str) -> Measured:
    """1 where the one shown first won, 0 where the other did; a tie is not decided, and counted."""
    own = judgements.of([name])
    both, value = own.asked[0].all(axis=1), own.value[0]
    whole = (both & ~np.isnan(value).any(axis=1))[:, None]
    for_first = np.sign(np.stack([value[:, 0] - NEITHER, NEITHER - value[:, 1]], axis=1))
    tied = whole & (for_first == 0)
    values = np.where(whole & ~tied, (for_first + 1) / 2, np.nan)
    ties = int(tied.sum())
    return Measured(
        name,
        "reviewer",
        values.ravel(),
        (both[:, None] & ~tied).ravel(),
        np.repeat(own.task, 2),
        ties=ties,
        note=f"ties left out: {ties}" if ties else None,
    )
