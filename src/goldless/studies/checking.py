"""Checks of cells and names, and every problem they find: counted to the last and kept within bounds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from goldless.errors import Problem, StudyError, nearest

Row = dict[str, Any]

KEPT = 10_000
"""Problems that are held; further ones are counted."""

HINT_AMONG = 1000
"""Among more names than this the nearest one is not looked for: it takes too long."""

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


def is_empty(value: Any) -> bool:
    """Whether the cell says nothing: null, NaN or the empty text.

    CSV cannot tell null from the empty text, so neither do the other formats.
    """
    return value is None or value == "" or (type(value) is float and math.isnan(value))


def as_json(value: Any) -> bytes:
    """The value as compact JSON with sorted keys; dates in ISO form, what JSON does not know as text."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def as_text(value: Any) -> str:
    """The value as it stands in a CSV cell: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value).decode()


def describe(value: Any) -> str:
    """The value for a message, with its type and shortened."""
    if value is None:
        return "null"
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:39] + '…'}"


class Problems:
    """The problems found so far."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self.total = 0
        """How many were found; no more than ``kept`` of them are held."""
        self._kept = kept
        self._problems: list[Problem] = []

    def add(self, message: str, file: str = "", line: int | None = None) -> None:
        """Count one problem, and hold it while there is room."""
        self.total += 1
        if len(self._problems) < self._kept:
            self._problems.append(Problem(message, file, line))

    def error(self, study: str) -> StudyError:
        """The error that carries them, ordered by file as read and by line."""
        rank: dict[str, int] = {}
        for problem in self._problems:
            rank.setdefault(problem.file, len(rank))
        ordered = sorted(self._problems, key=lambda problem: (rank[problem.file], problem.line or 0))
        if self.total > len(ordered):
            ordered.append(Problem(f"… and {self.total - len(ordered):,} more problems"))
        return StudyError(ordered, study=study)


@contextmanager
def all_at_once(study: str) -> Iterator[Problems]:
    """Problems to be filled inside; a ``StudyError`` with all of them on the way out, if there are any."""
    problems = Problems()
    yield problems
    if problems.total:
        raise problems.error(study)


class Names(dict[str, int]):
    """A name's number; a new name gets the next one, unless a table has listed them all."""

    def __init__(self, listed_in: str = "") -> None:
        super().__init__()
        self.listed_in = listed_in
        """The file that lists them all; empty while any name is taken."""
        self._strangers: dict[str, tuple[int, int]] = {}

    def __missing__(self, name: str) -> int:
        """The number of a name that is new."""
        number = self[name] = len(self)
        return number

    def number(self, name: str, line: int) -> int:
        """The name's number, or -1, noted as a stranger, where all names are listed and this is none of them."""
        if not self.listed_in:
            return self[name]
        number = self.get(name, -1)
        if number < 0:
            first, count = self._strangers.get(name, (line, 0))
            self._strangers[name] = (first, count + 1)
        return number

    def report_strangers(self, what: str, file: str, problems: Problems) -> None:
        """One problem for each stranger, at its first line, and none is kept."""
        for name, (line, count) in self._strangers.items():
            hint = nearest(name, self) if len(self) <= HINT_AMONG else ""
            more = f" ({count:,} rows from here on)" if count > 1 else ""
            problems.add(f"{what} {name!r} is not in {self.listed_in}{more}{hint}", file, line)
        self._strangers.clear()


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
