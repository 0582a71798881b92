"""What a public board shows beside its leaderboards: the pre-registration, hidden instructions, and submissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from goldless.gre_bench.injected import Holding
from goldless.gre_bench.preregistration import Registered
from goldless.gre_bench.submissions import Submissions
from goldless.reports.report_table import ReportTable


@dataclass(frozen=True, slots=True)
class PublicResults:
    """Each None where an edition has none."""

    preregistered: Registered | None = None
    injected: Holding | None = None
    submissions: Submissions | None = None

    def as_json(self) -> dict[str, Any]:
        """Part of the content of ``gre.json``."""
        return {name: None if part is None else part.as_json() for name, part in self._parts.items()}

    @property
    def _parts(self) -> dict[str, Registered | Holding | Submissions | None]:
        return {name: getattr(self, name) for name in self.__slots__}

    def tables(self) -> list[ReportTable]:
        """The tables for people."""
        held = [] if self.injected is None else [self.injected.table()]
        return [*held, *([] if self.submissions is None else self.submissions.tables())]

    @property
    def notes(self) -> list[str]:
        """Sentences for the table of all metrics."""
        return [] if self.preregistered is None else [f"The edition was {self.preregistered.sentence}."]
