"""Checks of single cells, and the columns a table must have."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from goldless.errors import nearest
from goldless.studies.cells import describe, is_empty
from goldless.studies.problems import KEPT, Problems

if TYPE_CHECKING:
    from goldless.studies.tables import Row

ALIASES = {
    "agent": ("model", "system", "author"),
    "output": ("response", "reply", "judgement"),
    "preference": ("winner", "label"),
    "rater": ("annotator", "user"),
    "reviewer": ("judge", "model"),
    "score": ("rating", "label"),
    "task": ("id", "task_id", "item", "question_id"),
    "text": ("response", "output", "answer", "completion", "content"),
}
"""What else a required column is often called, for hints only."""


class Checking:
    """The checks of one table: they report what is wrong and return what is right."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.rows = 0
        """How many rows have come; to be counted by whoever reads them."""
        self.duplicates = 0
        self._problems = problems
        self._before = problems.total
        self._columns: dict[str, None] = {}
        self._absent: dict[str, list[int]] = defaultdict(list)
        self._absences: dict[str, int] = defaultdict(int)

    def add(self, message: str, line: int | None = None) -> None:
        """Report a problem of this table."""
        self._problems.add(message, self.file, line)

    def duplicate(self, message: str, line: int) -> None:
        """Report a row that repeats another; the table still names all there is to name."""
        self.duplicates += 1
        self.add(message, line)

    @property
    def broken(self) -> bool:
        """Whether a row may have been lost, so that what other tables say of it cannot be checked."""
        return self._problems.total - self._before > self.duplicates

    def name(self, row: Row, column: str, line: int) -> str | None:
        """The name in the cell, whole numbers as text; none, reported, where there is no name."""
        value = row.get(column)
        if type(value) is str and value and not value.isspace():
            return value
        if type(value) is int:
            return str(value)
        if column not in row:
            self._note_absent(row, column, line)
        elif value is None or type(value) is str:
            self.add(f"{column} is {'null' if value is None else 'empty'}; a name is needed", line)
        else:
            self.add(f"{column} is {describe(value)}; a name is text or a whole number", line)
        return None

    def text(self, row: Row, column: str, line: int) -> str | None:
        """The text in the cell; none, reported, where there is no text."""
        value = row.get(column)
        if type(value) is str and value and not value.isspace():
            return value
        if column not in row:
            self._note_absent(row, column, line)
        elif value is None or type(value) is str:
            came = "null" if value is None else "blank" if value else "empty"
            self.add(f"{column} is {came}; leave the row out where there is no {column}", line)
        else:
            self.add(f"{column} is {describe(value)}; text is needed", line)
        return None

    def number(self, row: Row, column: str, line: int) -> float | None:
        """The finite number in the cell; none, reported, where there is none."""
        value = row.get(column)
        number = math.nan
        if type(value) in {int, float, str}:
            try:
                number = float(value)  # type: ignore[arg-type]
            except (ValueError, OverflowError):
                number = math.nan
        if math.isfinite(number):
            return number
        if column not in row:
            self._note_absent(row, column, line)
            return None
        self.add(f"{column} is {describe(value)}; a finite number is needed", line)
        return None

    def optional_name(self, row: Row, column: str, line: int) -> str | None:
        """The name in the cell, or none where the cell is empty."""
        return None if is_empty(row.get(column)) else self.name(row, column, line)

    def optional_text(self, row: Row, column: str, line: int) -> str | None:
        """The text in the cell, or none where the cell is empty; anything else is reported."""
        value = row.get(column)
        if is_empty(value):
            return None
        if isinstance(value, str):
            return value
        self.add(f"{column} is {describe(value)}; text is needed", line)
        return None

    def optional_number(self, row: Row, column: str, line: int) -> float | None:
        """The number in the cell, or none where the cell is empty."""
        return None if is_empty(row.get(column)) else self.number(row, column, line)

    def finish(self) -> None:
        """Report the columns that were absent: once where no row had them, else line by line."""
        for column, count in self._absences.items():
            if count == self.rows:
                self.add(missing_column(column, list(self._columns)))
                continue
            for line in self._absent[column]:
                self.add(f"no {column!r} in this row", line)

    def _note_absent(self, row: Row, column: str, line: int) -> None:
        self._columns.update(dict.fromkeys(row))
        self._absences[column] += 1
        if len(self._absent[column]) < KEPT:
            self._absent[column].append(line)


def missing_column(column: str, columns: list[str]) -> str:
    """The message that a table has no such column, with the nearest of those it has."""
    # The nearest by spelling first, then the nearest to another usual name of the same thing.
    hints = (nearest(word, columns) for word in (column, *ALIASES.get(column, ())))
    hint: Any = next(filter(None, hints), "")
    return f"no column {column!r}; the columns are {', '.join(map(repr, columns)) or 'none'}{hint}"
