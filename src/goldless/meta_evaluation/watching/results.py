"""Results of a watch, and their table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from goldless.reports.report_table import Column, ReportTable
from goldless.runs.opening import Spending


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """One process: the judge on its anchors, or the system's stream."""

    process: str
    """``judge (anchors)`` or ``system (stream)``."""
    occasions: int
    items: int
    values: int
    """Values in all."""
    missing: int
    """Items without a value on the last occasion."""
    first_mean: float
    """Mean over items on the first occasion of the comparison."""
    last_mean: float
    evidence: float
    """20 is an alarm with a false-alarm rate of 0.05."""
    direction: str
    alarm_at: int | None
    """Number of the occasion of the alarm; None: quiet."""

    @property
    def state(self) -> str:
        """Quiet, or since when and which way it changed."""
        if self.alarm_at is None:
            return "quiet"
        return f"CHANGED on occasion {self.alarm_at}: {self.direction}"


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What is known after the last occasion."""

    folder: str
    anchors: str
    model: str
    alpha: float
    occasions: int
    processes: tuple[WatchedProcess, ...]
    who: str | None
    """``judge``, ``system`` or ``both``; None: quiet."""
    verdict: str
    notes: tuple[str, ...] = ()
    open: int = 0
    """Calls that failed for a temporary cause: the occasion was not added."""
    spending: tuple[Spending, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there is an alarm."""
        return self.who is not None

    def tables(self) -> list[ReportTable]:
        """One row per process."""
        columns = (
            Column("process", "process"),
            Column("occasions", "occasions", "count"),
            Column("items", "items", "count"),
            Column("values", "values", "count", wide=True),
            Column("missing", "missing", "count"),
            Column("first_mean", "first mean", "number", decimals=3),
            Column("last_mean", "last mean", "number", decimals=3),
            Column("evidence", "evidence", "figure"),
            Column("state", "state"),
        )
        rows = tuple({**asdict(one), "state": one.state, "evidence": _short(one.evidence)} for one in self.processes)
        title = f"{self.model} on {self.anchors}, alarm at {1 / self.alpha:g}"
        return [ReportTable(title, columns, rows, notes=(self.verdict,))] if rows else []

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        data = {name: value for name, value in asdict(self).items() if name != "spending"}
        rows = zip(data["processes"], self.processes, strict=True)
        return {**data, "processes": [{**row, "state": one.state} for row, one in rows]}


def _short(evidence: float) -> str:
    """Two digits; a large number by its power of ten."""
    return f"{evidence:.2g}" if evidence < 1000 else f"{evidence:.0e}"
