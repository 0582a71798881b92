"""The table of what was perturbed: how many texts were asked for, made and left unchanged."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from goldless.meta_evaluation.perturbations.catalogue import Must
from goldless.reports.report_table import Column, ReportTable

COLUMNS = (
    Column("perturbation", "perturbation"),
    Column("group", "group"),
    Column("must", "must", absent=""),
    *(Column(name, name, "count") for name in ("asked", "made", "missing", "unchanged")),
)


@dataclass(frozen=True, slots=True)
class PerturbationRow:
    """One perturbation or strategy."""

    name: str
    group: str
    must: Must | None
    """None: a strategy."""
    asked: int
    made: int
    unchanged: int
    """Texts that the perturbation left as they were, but for white space."""

    @property
    def missing(self) -> int:
        """Texts that could not be made."""
        return self.asked - self.made


@dataclass(frozen=True, slots=True)
class PerturbationTable:
    """What was made of a study."""

    study: str
    seed: int
    rows: tuple[PerturbationRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The table as plain data."""
        rows = [{**asdict(row), "missing": row.missing} for row in self.rows]
        return {"study": self.study, "seed": self.seed, "perturbations": rows}

    def table(self) -> ReportTable:
        """What people read of it."""
        rows = tuple({"perturbation": row.name, "missing": row.missing, **asdict(row)} for row in self.rows)
        return ReportTable("Texts made (must: what a sound metric does)", COLUMNS, rows)
