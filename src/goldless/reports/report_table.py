"""A table of numbers for people and for programs: in the terminal, as Markdown, CSV or plain data."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

Cell = str | int | float | None
Kind = Literal["text", "count", "large", "number", "usd", "seconds", "interval", "shares"]
"""``large``: thousands, millions or billions, such as 4.2M. ``interval``: two numbers. ``shares``: two shares of the
number they belong to, shown in per cent of it."""
LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    """Its name in CSV and JSON, and where its values are found; of an interval the two names, by a space."""
    heading: str
    kind: Kind = "text"
    absent: str = "-"
    """What stands for a value that is not there."""
    decimals: int = 4
    """Of numbers and intervals."""
    least: int | None = None
    """Characters it has at least in the terminal."""
    wide: bool = False
    """Left out in the terminal, where there is no room for everything."""

    @property
    def names(self) -> list[str]:
        """Where its values are found."""
        return self.name.split() if self.kind in {"interval", "shares"} else [self.name]

    def text(self, row: Mapping[str, Cell]) -> str:
        """The cell as people read it."""
        found = [row.get(name) for name in self.names]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            return self.absent
        return " … ".join(value if isinstance(value, str) else self._number(value) for value in values)

    def _number(self, value: float) -> str:
        if self.kind in {"number", "interval"}:
            return f"{value:.{self.decimals}f}"
        if self.kind == "shares":
            return f"{100 * (value - 1):+.{self.decimals}f}%"
        written = {"large": large_text, "usd": usd_text, "seconds": seconds_text}
        return written[self.kind](value) if self.kind in written else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of values by the names of the columns, with how they were made."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    signature: str = ""

    def to_rich(self) -> Table:
        """A table for the terminal; print the signature below it, where it may be copied."""
        table = Table(
            title=Text(self.title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
        )
        columns = [column for column in self.columns if not column.wide]
        for column in columns:
            left = column.kind == "text"
            table.add_column(
                column.heading,
                justify="left" if left else "right",
                no_wrap=not left,
                overflow="fold",
                min_width=column.least,
            )
        for row in self.rows:
            # a name may hold what a terminal takes for a command
            cells = ("".join(ch for ch in column.text(row) if ch.isprintable()) for column in columns)
            table.add_row(*map(Text, cells))
        return table

    def to_markdown(self) -> str:
        """A Markdown table, and the signature below it."""
        lines = [
            "| " + " | ".join(column.heading for column in self.columns) + " |",
            "|" + " --- |" * len(self.columns),
            *("| " + " | ".join(_markdown(column.text(row)) for column in self.columns) + " |" for row in self.rows),
        ]
        return "\n".join(
            [f"### {self.title}", "", *lines, "", *([f"`{self.signature}`", ""] if self.signature else [])]
        )

    def to_csv(self) -> str:
        """Comma-separated values as they are, the signature in every row."""
        names = [name for column in self.columns for name in column.names]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*names, *(["signature"] if self.signature else [])])
        for row in self.rows:
            writer.writerow([*(row.get(name) for name in names), *([self.signature] if self.signature else [])])
        return out.getvalue()


def usd_text(usd: float) -> str:
    """An amount of US dollars: cents where there are less than a hundred, more digits where there are few cents."""
    if usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd == 0 or usd >= 0.1 else f"{usd:.2g}"


def large_text(number: float) -> str:
    """A large number to about three digits: 812, 12.3k, 4.2M."""
    for size, letter in LARGE:
        if number >= size:
            return f"{number / size:.3g}{letter}" if number < 1000 * size else f"{number / size:,.0f}{letter}"
    return f"{number:,.0f}"


def seconds_text(seconds: float) -> str:
    """A time in its usual unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.1f} days"


def _markdown(text: str) -> str:
    """The text on one line, its bars and HTML taken literally."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")
