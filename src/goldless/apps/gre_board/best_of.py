"""The best of several submissions: its score without what the choice added, and an interval that allows for the choice.

The best of n noisy scores is too high on average: by 1.54 standard errors for the best of ten equal ones. The corrected
score is the bootstrap bias correction of Tsamardinos, Greasidou and Borboudakis (Machine Learning 107, 2018): tasks are
drawn with replacement, the best submission on the drawn tasks is chosen, and its score on the tasks that were not drawn
is counted; the mean over draws is the score that choosing in this way is worth. It allows for submissions that are
alike, and is a little too low where they differ, because about 63% of the tasks decide in each draw.

The interval is the usual one of the chosen submission at the level ``level ** (1 / n)``: by Šidák's inequality (JASA
62, 1967) all n intervals hold together with probability ``level`` or more, and so does that of whichever was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from goldless.errors import UserError
from goldless.statistics.bootstrap import Estimate, draw_counts, task_intervals

ScoreTable = npt.NDArray[np.float64]
"""[tasks, submissions]"""


@dataclass(frozen=True)
class BestOf:
    """The best of some submissions."""

    best: int
    """Its column."""
    n: int
    """Submissions that the choice was among, also those without scores."""
    interval: Estimate
    """Its mean over tasks, with the interval for the chosen of n; ``level`` is that of all n together."""
    corrected: float | None
    """The mean corrected for the choice; None: fewer than two tasks."""


def best_of(
    values: ScoreTable,
    n: int | None = None,
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> BestOf:
    """The best column of ``values`` [tasks, submissions], higher is better, without missing scores.

    ``n``: submissions in all, where some have no column.
    """
    values = np.asarray(values, dtype=np.float64)
    if np.isnan(values).any():
        raise UserError("values must be a table [tasks, submissions] without missing scores")
    n = values.shape[1] if n is None else n
    best = int(values.mean(axis=0).argmax())
    (found,) = task_intervals(values[:, [best]], seed=seed, resamples=resamples, level=level ** (1 / n))
    return BestOf(best, n, replace(found, level=level), _corrected(values, best, seed=seed, resamples=resamples))


def _corrected(values: ScoreTable, best: int, *, seed: int, resamples: int) -> float | None:
    if values.shape[1] == 1 or len(values) < 2:
        return float(values[:, best].mean()) if values.shape[1] == 1 else None
    total, draws = 0.0, 0
    for counts in draw_counts(len(values), seed=seed, resamples=resamples):
        chosen = (counts @ values).argmax(axis=1)
        left = counts == 0
        sizes = left.sum(axis=1)
        some = sizes > 0  # a draw of all tasks says nothing
        sums = np.where(left, values[:, chosen].T, 0.0).sum(axis=1)
        total += float((sums[some] / sizes[some]).sum())
        draws += int(some.sum())
    return total / draws if draws else None
