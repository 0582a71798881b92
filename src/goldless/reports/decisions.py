"""Decided, undecided, or n more tasks, in words and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goldless.reports.document import cells, written_property
from goldless.reports.report_table import Column, ReportTable
from goldless.statistics.comparisons import Comparison
from goldless.statistics.deciding import POWER, outlook

Reason = Literal["decided", "all tasks", "budget"]
LISTED = 3
ROWS = 12
"""Comparisons shown in a terminal."""
COLUMNS = (
    Column("first", "first", "name"),
    Column("second", "second", "name"),
    Column("difference", "difference", "number", "-", 3),
    Column("n", "tasks", "figure"),
    Column("p", "p", "probability", "-", wide=True),
    Column("p_adjusted", "p (corrected)", "probability", "-"),
    Column("said", "outcome"),
)


def outlook_of(one: Comparison, usd_per_task: float | None = None) -> str:
    """The effort that an undecided comparison would take."""
    if one.n and not one.difference and one.more_tasks is None:
        return "equal on average"
    return outlook(one.n, one.more_tasks, usd_per_task, skewed=one.skewed)


def outlook_notes(comparisons: Sequence[Comparison], usd_per_task: float | None) -> Iterator[str]:
    """One sentence about what is undecided, and what it would take; nothing where all is decided."""
    undecided = nearest_first(one for one in comparisons if not one.decided and one.n > 1)
    if not undecided:
        return
    listed = "; ".join(f"{one.first} or {one.second}, {outlook_of(one, usd_per_task)}" for one in undecided[:LISTED])
    more = f"; and {len(undecided) - LISTED} more" * (len(undecided) > LISTED)
    decides = (
        f" (that many decide in {POWER:.0%} of cases)" if any(one.more_tasks for one in undecided[:LISTED]) else ""
    )
    yield f"Undecided: {len(undecided)} of {len(comparisons)} differences: {listed}{more}{decides}."


STOPPED_EARLY = (
    "Tasks are added until the question is decided, so only its comparisons are tested, by a confidence sequence, "
    "which needs more tasks than a test after a fixed number; the intervals of scores do not allow for that. An agent "
    "that is decided early is scored on fewer tasks."
)


def nearest_first(comparisons: Iterator[Comparison] | Sequence[Comparison]) -> list[Comparison]:
    """Those that need the fewest tasks first, those too far to say last."""
    return sorted(comparisons, key=lambda one: (one.skewed, one.more_tasks is None, one.more_tasks or 0))


def comparison_table(
    title: str, comparisons: Sequence[Comparison], usd_per_task: float | None = None, most: int | None = None
) -> ReportTable:
    """The comparisons: undecided ones first, then those decided, the closest first; at most that many."""
    undecided = nearest_first([one for one in comparisons if not one.decided])
    shown = [*undecided, *sorted((c for c in comparisons if c.decided), key=lambda c: -(c.p_adjusted or 0.0))]
    rows = tuple(cells(one, said=one.better or outlook_of(one, usd_per_task)) for one in shown[:most])
    cut = len(shown) - len(rows)
    notes = (f"{cut} more comparisons are in the JSON output.",) if cut else ()
    return ReportTable(title, COLUMNS, rows, notes=notes)


@dataclass(frozen=True)
class Stopped:
    """The stop of a run that was to stop early, and what it knows."""

    question: str
    alpha: float
    at_least: int
    by: str
    """The metric, or the ranking of a review."""
    tasks: int
    """Tasks asked."""
    tasks_there: int
    """Tasks in the study that could be asked."""
    reason: Reason
    answer: str
    open: tuple[str, ...]
    """Agents that the answer still depends on."""
    tasks_of: Mapping[str, int]
    """Tasks on which each agent was scored; as a partner of others it is used on all."""
    comparisons: tuple[Comparison, ...]
    """Those that are part of the answer, or of what is missing to it."""
    usd_per_task: float | None
    """The cost of a task of this run; None: unknown or free."""

    @written_property
    def decided(self) -> bool:
        """True if the question has an answer."""
        return self.reason == "decided"

    def table(self) -> ReportTable:
        """The comparisons, as many as a terminal shows; the rest is in the JSON."""
        return comparison_table(f"until {self.question}", self.comparisons, self.usd_per_task, ROWS)

    @written_property
    def sentence(self) -> str:
        """The answer with where and why the run stopped."""
        why = {"decided": "decided", "all tasks": "undecided with all tasks", "budget": "undecided within the budget"}
        share = sum(self.tasks_of.values()) / (len(self.tasks_of) * self.tasks_there)
        seen = f"{self.tasks} of {self.tasks_there} tasks, {share:.0%} of the scores"
        return f"{self.question}: {self.answer} ({why[self.reason]}, {seen}, alpha {self.alpha:g})."
