"""The results of a review with the judgements behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from goldless.evidence import EXAMS, OPEN_KINDS, empty
from goldless.judging.licences import Licence
from goldless.reports.document import HERE_ONLY
from goldless.reports.review import ReviewReport
from goldless.reports.run_record import Spending
from goldless.studies import Study


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Review(ReviewReport):
    """The results of one review."""

    source: Study = field(metadata=HERE_ONLY)
    """The study that was reviewed."""
    judgements: pl.DataFrame = field(metadata=HERE_ONLY)
    """Columns of ``evidence.JUDGEMENTS``."""
    answers: pl.DataFrame = field(default_factory=lambda: empty(EXAMS), metadata=HERE_ONLY)
    """Columns of ``evidence.EXAMS``."""
    licences: tuple[Licence, ...] = field(default=(), metadata=HERE_ONLY)
    """Issued now."""
    spending: tuple[Spending, ...] = field(default=(), metadata=HERE_ONLY)

    @property
    def open(self) -> int:
        """Number missing for a temporary cause; 0 if no model was called."""
        return sum(n for kind, n in self.failures.items() if kind in OPEN_KINDS) if self.spending else 0
