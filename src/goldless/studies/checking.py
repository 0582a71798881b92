"""Checks of cells and names, and the problems they find: all counted, a limited number kept."""

from __future__ import annotations

import calendar
import datetime as dt
import difflib
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Literal

import orjson

from goldless.errors import Problem, StudyError

Row = dict[str, Any]

SHOWN = 10
"""Problems of one kind that are shown; further ones are counted."""
NAMES_AND_NUMBERS = re.compile(r"""'[^']*'|"[^"]*"|[\d.,]+""")

HINT_AMONG = 1000
"""With more names than this no nearest name is searched: it takes too long."""

ALIASES = {
    "agent": ("model", "model_id", "model_name", "system", "author", "generator", "llm", "who"),
    "output": ("response", "reply", "judgement"),
    "preference": ("winner", "label"),
    "prompt": ("question", "instruction", "input", "query"),
    "rater": ("annotator", "user"),
    "reference": ("target", "expected", "expected_output", "gold", "ground_truth", "ideal"),
    "reviewer": ("judge", "model"),
    "score": ("rating", "label"),
    "task": (
        *("id", "task_id", "item", "question_id", "doc_id", "sample_id", "example_id", "prompt_id", "uid"),
        "conversation_id",
    ),
    "text": (
        *("response", "output", "answer", "reply", "completion", "content", "generation", "prediction"),
        "model_output",
        *("messages", "conversation", "conversations"),
    ),
}
"""Other common names of a column, for guesses and hints."""


def is_empty(value: Any) -> bool:
    """True if the cell is empty: null, NaN or the empty text.

    CSV cannot distinguish null from the empty text, so the other formats do not either.
    """
    return value is None or value == "" or (type(value) is float and math.isnan(value))


def as_json(value: Any) -> bytes:
    """The value as compact JSON with sorted keys; dates in ISO form, other non-JSON values as text."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def as_text(value: Any) -> str:
    """The value as in a CSV cell: text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value).decode()


def describe(value: Any) -> str:
    """The value for a message, with its type, shortened."""
    if value is None:
        return "null"
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:39] + '…'}"


_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def possible_days(text: str) -> tuple[dt.date, dt.date] | None:
    """The first and the last day that YYYY, YYYY-MM or YYYY-MM-DD can mean; None if it is not a date."""
    written = _DATE.fullmatch(text.strip())
    if written is None:
        return None
    year, month, day = (int(part or 0) for part in written.groups())
    last_month = month if written[2] else 12
    try:
        last_day = day if written[3] else calendar.monthrange(year, last_month)[1]
        first = dt.date(year, month if written[2] else 1, day if written[3] else 1)
        return first, dt.date(year, last_month, last_day)
    except ValueError:  # calendar's error for a month is one, too
        return None


class Problems:
    """The problems found so far; of each kind in a file, the first are kept and the others counted."""

    def __init__(self) -> None:
        self.total = 0
        """Number of problems found."""
        self.advice: dict[str, str] = {}
        """Advice on the problems of a file, said once below them."""
        self.incomplete: set[str] = set()
        """Files of which a row may have been lost, so that other tables cannot be checked against them."""
        self._kinds: dict[tuple[str, str], list[Problem]] = {}
        self._more: Counter[tuple[str, str]] = Counter()

    def add(self, message: str, file: str = "", line: int | None = None, *, lost: bool = True) -> None:
        """Count one problem; the first of a kind are kept, that is, of those that differ in names and numbers.

        ``lost`` is False if the row is there all the same, as one that repeats another.
        """
        self.total += 1
        if lost:
            self.incomplete.add(file)
        kind = file, NAMES_AND_NUMBERS.sub("", message)
        kept = self._kinds.setdefault(kind, [])
        if len(kept) < SHOWN:
            kept.append(Problem(message, file, line))
        else:
            self._more[kind] += 1

    def error(self, study: str) -> StudyError:
        """The error with these problems, ordered by file as read and by line."""
        files = dict.fromkeys((*(file for file, _ in self._kinds), *self.advice))
        rank = {file: place for place, file in enumerate(files)}
        found = [(rank[file], one.line or 0, one) for (file, _), kept in self._kinds.items() for one in kept]
        for kind, more in self._more.items():
            last = self._kinds[kind][-1]
            said = Problem(f"… and {more:,} more like this: {last.message}", last.file)
            found.append((rank[last.file], last.line or 0, said))
        found += [(rank[file], sys.maxsize, Problem(advice, file)) for file, advice in self.advice.items()]
        ordered = [problem for *_, problem in sorted(found, key=itemgetter(0, 1))]
        return StudyError(ordered, study=study, total=self.total)


@contextmanager
def all_at_once(study: str) -> Iterator[Problems]:
    """Collect problems in the block, then raise one ``StudyError`` with all of them, if any."""
    problems = Problems()
    yield problems
    if problems.total:
        raise problems.error(study)


Cells = Literal["name", "text", "number", "optional_name", "optional_text", "optional_number"]
"""The kind of a column's cells."""


def read_cell(value: Any, cells: Cells, column: str = "") -> tuple[Any, str | None]:
    """The value in a cell and None: a name (a whole number as text), a text or a finite number; or None and a problem.

    The value of an empty optional cell is None.
    """
    optional, kind = cells.startswith("optional"), cells.removeprefix("optional_")
    if optional and is_empty(value):
        return None, None
    if kind == "number":
        try:
            number = float(value) if type(value) in {int, float, str} else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        problem = f"{column} must be a finite number, got {describe(value)}"
        return (number, None) if math.isfinite(number) else (None, problem)
    if type(value) is int and kind == "name":
        return str(value), None
    if isinstance(value, str) and (value.strip() or cells == "optional_text"):
        return value, None
    if value is not None and not isinstance(value, str):
        what = "a string or a whole number" if kind == "name" else "a string"
        problem = f"{column} must be {what}, got {describe(value)}"
    elif kind == "name":
        problem = f"{column} must be a name, got {'null' if value is None else 'an empty cell'}"
    else:
        got = "null" if value is None else "blank" if value else "empty"
        problem = f"{column} is {got}. Leave out rows that have no {column}"
    return None, problem


def missing_column(column: str, columns: list[str]) -> str:
    """The message that a table has no such column, with the one that is probably meant."""
    meant = probable_column(column, columns)
    hint = f". Did you mean {meant!r}?" if meant else ""
    return f"no column {column!r}; the columns are {', '.join(map(repr, columns)) or 'none'}{hint}"


def fitting_columns(column: str, columns: Sequence[str]) -> list[str]:
    """The column of this name, or else those with another common name of it, whatever their case and spaces."""
    plain = _plain(columns)
    words = (column,) if column in plain else ALIASES.get(column, ())
    return [plain[word] for word in words if word in plain]


def probable_column(column: str, columns: Sequence[str]) -> str | None:
    """The column that is another name of a missing one, or a misspelling: in neither case one of another thing."""
    for name in fitting_columns(column, columns):
        return name
    plain = _plain(columns)
    for word in (word for word in (column, *ALIASES.get(column, ())) if "_" not in word):
        near = [name for name in plain if abs(len(name) - len(word)) <= 1]
        for name in difflib.get_close_matches(word, near, n=1, cutoff=0.75):
            return plain[name]
    return None


def _plain(columns: Sequence[str]) -> dict[str, str]:
    return {name.lower().replace(" ", "_").replace("-", "_"): name for name in columns}
