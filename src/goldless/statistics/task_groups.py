"""Groups of tasks, drawn and flipped as one where tasks are very many, so that time and memory stay bounded.

Tasks are put into groups of equal size at random. Sums over a group are sums over tasks, so a statistic of the study is
the same with groups as without. A draw of groups varies like a draw of tasks: for independent tasks, the variance of a
group's sum is that of a task's times its size. Sign flips are as exact: a sum of symmetric differences is symmetric.
"""

from __future__ import annotations

import numpy as np

from goldless.arrays import FloatArray, IntArray

MOST_TASKS = 20_000
"""Up to this many tasks, each is drawn on its own."""
GROUPS = 10_000


def task_groups(tasks: int, *, seed: int) -> IntArray | None:
    """The group of each task; None: there are few enough tasks to draw each on its own."""
    if tasks <= MOST_TASKS:
        return None
    return np.random.default_rng((seed, tasks)).permutation(np.arange(tasks) % GROUPS)


def group_sums(rows: FloatArray, groups: IntArray) -> FloatArray:
    """Sums of each row [rows, tasks] over the groups: [rows, groups]."""
    return np.stack([np.bincount(groups, weights=row, minlength=GROUPS) for row in rows])


def groups_name(tasks: int) -> dict[str, str]:
    """What signatures say of groups; nothing where each task is drawn on its own."""
    return {"task-groups": str(GROUPS)} if tasks > MOST_TASKS else {}
