"""How good a chosen panel is on tasks that had no say in the choice.

The best of many panels on some labels is partly the luckiest, so its accuracy on those labels is too high. Here tasks
are parted in halves: the panel is chosen on one half and measured on the other, and the other way round, many times
over. Every task is held out equally often, and what it earned while held out is averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldless.meta_evaluation.cost.panel_search import SAME, SearchedPanels, shares
from goldless.statistics.bootstrap import task_intervals

FloatArray = npt.NDArray[np.float64]
FEWEST_TASKS = 4
"""Two to choose on and two to measure on."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Accuracy of the choice, not of one panel: the one chosen may differ from split to split."""

    accuracy: float | None
    """None: too few tasks, or nothing was judged."""
    low: float | None
    """Interval over tasks, with the choices as they fell."""
    high: float | None
    on_choosing_half: float | None
    """Mean accuracy of the chosen panels on the tasks they were chosen on."""
    same_choice: float | None
    """Share of choices that fell on the panel that is best on all tasks."""
    splits: int
    n_tasks: int
    note: str | None = None


def halves(tasks: int, *, splits: int, seed: int) -> FloatArray:
    """[2 splits, tasks]: 1 for the half to choose on; rows 2i and 2i + 1 are the two halves of one split."""
    random = np.random.default_rng(seed)
    chosen = np.zeros((2 * splits, tasks))
    for split in range(splits):
        order = random.permutation(tasks)
        chosen[2 * split, order[: tasks // 2]] = 1.0
        chosen[2 * split + 1, order[tasks // 2 :]] = 1.0
    return chosen


def held_out(
    searched: SearchedPanels,
    order: npt.NDArray[np.intp],
    *,
    splits: int = 200,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> HeldOut:
    """Accuracy of choosing the best of these panels; ``order``: their numbers, the first of equals is chosen."""
    kept = searched.judged.sum(axis=0) > 0
    earned, judged = searched.earned[order][:, kept], searched.judged[order][:, kept]
    tasks = int(kept.sum())
    if tasks < FEWEST_TASKS or not len(order):
        note = f"{tasks} labelled tasks are too few to part in halves: {FEWEST_TASKS} are needed"
        return HeldOut(None, None, None, None, None, splits, tasks, note)
    choosing = halves(tasks, splits=splits, seed=seed)
    accuracy = np.nan_to_num(shares(choosing @ earned.T, choosing @ judged.T), nan=-1.0)
    best = np.argmax(accuracy >= accuracy.max(axis=1, keepdims=True) - SAME, axis=1)
    measured = 1.0 - choosing
    by_task_earned = (measured * earned[best]).sum(axis=0) / splits
    by_task_judged = (measured * judged[best]).sum(axis=0) / splits
    whole = by_task_judged.sum()
    if not whole:
        return HeldOut(None, None, None, None, None, splits, tasks, "nothing was judged")
    mean = float(by_task_earned.sum() / whole)
    linear = mean + (by_task_earned - mean * by_task_judged) / by_task_judged.mean()
    found = task_intervals(linear[:, None], seed=seed, resamples=resamples, level=level)[0]
    overall = np.nan_to_num(shares(earned.sum(axis=1), judged.sum(axis=1)), nan=-1.0)
    favourite = int(np.argmax(overall >= overall.max() - SAME))
    return HeldOut(
        accuracy=mean,
        low=None if found.low is None else max(0.0, found.low),
        high=None if found.high is None else min(1.0, found.high),
        on_choosing_half=float(accuracy[np.arange(len(best)), best].mean()),
        same_choice=float((best == favourite).mean()),
        splits=splits,
        n_tasks=tasks,
        note=found.note,
    )
