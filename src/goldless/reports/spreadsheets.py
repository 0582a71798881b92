"""CSV that a spreadsheet opens without computing anything: a text that would be a formula begins with an apostrophe.

The apostrophe is taken off again where our own files are read, so names stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_FORMULA = "^'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_NUMBER = r"^[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?$"
_GUARDED = f"^'+{_FORMULA.removeprefix('^')}"


def guarded(value: object) -> object:
    """A cell; a text that a spreadsheet would compute gets an apostrophe before it."""
    if isinstance(value, str) and re.match(_FORMULA, value) and not re.match(_NUMBER, value):
        return f"'{value}"
    return value


def unguarded(text: str) -> str:
    """The text that was guarded."""
    return text[1:] if re.match(_GUARDED, text) else text


def guarded_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with all texts guarded, to be written as CSV."""
    return _with_texts(frame, guarded)


def unguarded_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """The table as it was before its texts were guarded."""
    return _with_texts(frame, unguarded)


def _with_texts(frame: pl.DataFrame, change: Callable[[str], object]) -> pl.DataFrame:
    """The table with all texts changed; most tables have none that is."""
    import polars as pl  # noqa: PLC0415 - the helps of verbs load this module, and must be light

    found = [column for column in frame.iter_columns() if column.dtype == pl.String]
    touched = [column.name for column in found if column.str.contains(_FORMULA).any()]
    return frame.with_columns(pl.col(name).map_elements(change, pl.String) for name in touched)
