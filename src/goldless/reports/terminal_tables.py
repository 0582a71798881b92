"""Tables that fit a terminal: nothing is cut off, and no name or number is broken inside a word.

Texts wrap between words. Where that is not enough, the plot goes, then columns move to a table below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goldless.reports.formats import plain, printable, simple_table

if TYPE_CHECKING:
    from rich.table import Table

SHORT = 12
"""A text column is not narrower than this, or than its longest text."""
BETWEEN = 2
"""Spaces after a column."""


@dataclass(frozen=True, slots=True)
class TerminalColumn:
    """One column as texts."""

    heading: str
    cells: Sequence[str]
    left: bool
    """Whether it is a text, which may wrap between words; other columns are right-aligned."""
    plot: bool = False
    """Whether it is a plot, which is left out where there is no room."""

    @property
    def widest(self) -> int:
        """Its width if nothing wraps."""
        return max(_width(text) for text in (self.heading, *self.cells))

    @property
    def narrowest(self) -> int:
        """Its width if texts wrap between words."""
        if self.plot:
            return self.widest
        longest = max(map(self._least, (self.heading, *self.cells)))
        return max(longest, min(SHORT, self.widest)) if self.left else longest

    def _least(self, text: str) -> int:
        """The width of its longest word, or of all of it if it is a number."""
        number = not self.left and text != self.heading and any(ch.isdigit() for ch in text)
        return _width(text) if number else max(map(_width, text.split()), default=0)


def fitted_tables(
    title: str, columns: Sequence[TerminalColumn], width: int, *, keys: int, apart: int = 0
) -> list[Table]:
    """The table in one or several parts, each of which fits the width if at all possible.

    ``keys``: the number of columns that say what a row is about; every part has them. ``apart``: rows at the end that
    are set off.
    """
    shown = list(columns)
    if _least(shown) > width:
        shown = [column for column in shown if not column.plot]
    parts: list[Table] = []
    first, rest = shown[:keys], shown[keys:]
    while rest or not parts:
        taken = [*first, *rest[:1]]
        rest = rest[1:]
        while rest and _least([*taken, rest[0]]) <= width:
            taken.append(rest.pop(0))
        parts.append(_table(title if not parts else "", taken, width, apart))
    return parts


def _width(text: str) -> int:
    from rich.cells import cell_len  # noqa: PLC0415 - not every table is printed

    return max(map(cell_len, printable(text).split("\n")))


def _least(columns: Sequence[TerminalColumn]) -> int:
    return sum(column.narrowest + BETWEEN for column in columns)


def _widths(columns: Sequence[TerminalColumn], width: int) -> list[int]:
    """The width of each column: wide ones give way first."""
    found = [column.widest for column in columns]
    least = [column.narrowest for column in columns]
    while sum(found) + BETWEEN * len(columns) > width:
        spare = [place for place, now in enumerate(found) if now > least[place]]
        if not spare:
            break
        found[max(spare, key=lambda place: found[place])] -= 1
    return found


def _table(title: str, columns: Sequence[TerminalColumn], width: int, apart: int) -> Table:
    table = simple_table(title)
    widths = _widths(columns, width)
    whole = sum(widths) + BETWEEN * len(columns)
    table.width = whole if whole > width else None  # lines that a terminal breaks are better than cells cut off
    for column, wide in zip(columns, widths, strict=True):
        table.add_column(plain(column.heading), justify="left" if column.left else "right", width=wide, overflow="fold")
    for place, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        last = place >= len(columns[0].cells) - apart
        if last and place == len(columns[0].cells) - apart:
            table.add_section()
        cells = (plain(text, "cyan" if column.plot else "") for text, column in zip(row, columns, strict=True))
        table.add_row(*cells, style="bold" if last else "")
    return table
