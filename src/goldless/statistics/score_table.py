"""From scores of pairs to a table of tasks and agents: an agent's score on a task is the mean over its peers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from goldless.arrays import FloatArray
from goldless.errors import UserError

Codes = npt.NDArray[np.integer]


def score_table(task: Codes, agent: Codes, score: FloatArray, *, tasks: int, agents: int) -> FloatArray:
    """Mean score [tasks, agents] of rows (task, agent, score), which number tasks and agents from 0.

    A NaN score is missing and left out; where no score is left, the mean is NaN.
    """
    task, agent, score = np.asarray(task), np.asarray(agent), np.asarray(score, dtype=np.float64)
    if not task.shape == agent.shape == score.shape or score.ndim != 1:
        raise UserError(
            f"columns of shapes {task.shape}, {agent.shape} and {score.shape} came; "
            "task, agent and score are columns of equal length"
        )
    for name, codes, count in (("task", task, tasks), ("agent", agent, agents)):
        if len(codes) and not (codes.min() >= 0 and codes.max() < count):
            raise UserError(f"{name} numbers run from {codes.min()} to {codes.max()}; 0 to {count - 1} are allowed")
    cell = task.astype(np.intp) * agents + agent
    present = ~np.isnan(score)
    if not present.all():
        cell, score = cell[present], score[present]
    sums = np.bincount(cell, weights=score, minlength=tasks * agents)
    counts = np.bincount(cell, minlength=tasks * agents)
    means = np.full(tasks * agents, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.reshape(tasks, agents)
