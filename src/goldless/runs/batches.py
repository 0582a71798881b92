"""Verdicts and judgements in batches while they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import polars as pl

from goldless.evidence import JudgementEvidence, Schema, VerdictEvidence, empty, is_open

Row = TypeVar("Row", bound=VerdictEvidence | JudgementEvidence)


class Batches(Generic[Row]):
    """A table of each batch that is complete, the rows of the others, and how many there are."""

    def __init__(self, count: int, schema: Schema, frame: Callable[[Sequence[Row]], pl.DataFrame]) -> None:
        self._frame = frame
        self._tables = [empty(schema)] * (count + 1)  # one more, for a table without batches
        self._begun: dict[int, list[Row]] = {}
        self.ended = 0
        self.failed = 0
        """Of those that ended, how many another run asks again."""

    def add(self, place: int, row: Row) -> None:
        """A row of a batch."""
        self._begun.setdefault(place, []).append(row)
        self.ended += 1
        self.failed += is_open(row.failure)

    def complete(self, place: int, rows: Sequence[Row]) -> pl.DataFrame:
        """All rows of a batch, in their order, as a table."""
        self._tables[place] = self._frame(rows)
        self._begun.pop(place, None)
        return self._tables[place]

    def table(self) -> pl.DataFrame:
        """All rows so far."""
        return pl.concat([*self._tables, *map(self._frame, self._begun.values())])
