"""What intervals of means over tasks rest on, in words."""

from __future__ import annotations

from collections.abc import Iterable

from goldless.statistics.bootstrap import FEW_TASKS


def interval_source(tasks: Iterable[int]) -> str:
    """Where intervals come from; ``tasks``: on how many tasks each of them rests."""
    counts = list(tasks)
    few = sum(n < FEW_TASKS for n in counts)
    if not few:
        return "from resampling tasks"
    if few == len(counts):
        return f"by Student's t over tasks (fewer than {FEW_TASKS})"
    return f"from resampling tasks, and by Student's t where an agent has fewer than {FEW_TASKS}"
