"""A table of values for people and for programs: in the terminal, as Markdown, LaTeX, CSV or HTML."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from goldless.reports.formats import (
    WIDE,
    code_line,
    latex_columns,
    latex_comment,
    latex_length,
    latex_number,
    latex_row,
    latex_signature,
    latex_text,
    markdown_cell,
    markdown_table,
)
from goldless.reports.spreadsheets import guarded
from goldless.reports.terminal_tables import TerminalColumn, fitted_tables

if TYPE_CHECKING:
    from rich.table import Table

Cell = str | int | float | None
Kind = Literal[
    "text",
    "name",
    "figure",
    "count",
    "large",
    "number",
    "signed",
    "probability",
    "usd",
    "seconds",
    "interval",
    "signed interval",
    "shares",
    "fraction",
]
"""``name``: a text from the data, such as an agent. ``figure``: a text, or an unformatted number, right-aligned.
``large``: thousands, millions or billions, such as 4.2M. ``interval``: two numbers. ``shares``: two factors of a
number, shown as per cent changes. ``fraction``: two counts, such as 3/40. ``signed``: with a plus sign."""
BRACKETED = ("interval", "signed interval", "shares")
PAIRS = (*BRACKETED, "fraction")
SINGLE: dict[str, Kind] = {"interval": "number", "signed interval": "signed", "shares": "number", "fraction": "count"}
"""The kind of each single value of a kind with two."""
LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    """The key of its values, also its name in CSV and JSON; for an interval two names, separated by a space."""
    heading: str
    kind: Kind = "text"
    absent: str | None = None
    """Placeholder for a missing value; None: a dash, and in a page the word missing."""
    decimals: int = 4
    """Decimals of numbers and intervals."""
    wide: bool = False
    """Left out in the terminal and on paper, to save space."""
    data: bool = False
    """Only for programs, in CSV."""
    reason: str = ""
    """Key of the reason for a missing value; if there is one, it is shown instead of the placeholder."""
    between: str = " … "
    """Separator between the ends of an interval."""

    @property
    def names(self) -> list[str]:
        """The keys of its values."""
        return self.name.split() if self.kind in PAIRS else [self.name]

    @property
    def left(self) -> bool:
        """Whether it is a text column, left-aligned."""
        return self.kind in {"text", "name"}

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell as text."""
        parts = self._parts(row)
        if parts is None:
            return str(row.get(self.reason) or ("-" if self.absent is None else self.absent))
        return ("/" if self.kind == "fraction" else self.between).join(parts)

    def latex(self, row: Mapping[str, Any]) -> str:
        """The cell in LaTeX: an interval in brackets."""
        parts = self._parts(row)
        if parts is not None and self.kind in BRACKETED:
            return f"[{', '.join(map(latex_number, parts))}]"
        if parts is None and self.text(row) == "-":
            return "--"
        return latex_text(self.text(row)) if self.left else latex_number(self.text(row))

    @property
    def single(self) -> list[Column]:
        """One column per value, so that each can be sorted by in a page."""
        if self.kind not in PAIRS:
            return [self]
        low = f"{self.heading.removesuffix('interval').strip()} low".strip()
        headings = self.names if self.kind == "fraction" else (low, "high")
        kind = SINGLE[self.kind]
        first, second = (
            replace(self, name=name, heading=heading, kind=kind)
            for name, heading in zip(self.names, headings, strict=True)
        )
        return [first, replace(second, reason="")]  # said once

    def typeset(self, value: float) -> str:
        """A number as a page shows it."""
        if self.kind == "probability":
            return "<0.001" if value < 0.001 else f"{value:.3f}"
        return typeset(self._number(value, ","))

    def _parts(self, row: Mapping[str, Any]) -> list[str] | None:
        """Its values as texts; None if one of them is missing."""
        found = [row.get(name) for name in self.names]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            return None
        return [_text(value) if isinstance(value, str | tuple) else self._number(value) for value in values]

    def _number(self, value: float, style: str = "") -> str:
        if self.kind in {"number", "interval"}:
            return f"{value:z{style}.{self.decimals}f}"
        if self.kind in {"signed", "signed interval"}:
            return f"{value:+z{style}.{self.decimals}f}"
        if self.kind == "shares":
            return f"{100 * (value - 1):+z.{self.decimals}f}%"
        if self.kind == "probability":
            return f"{value:.2g}"
        if self.kind in {"fraction", "figure"}:
            return f"{value:.0f}"
        written = {"large": large_text, "usd": usd_text, "seconds": seconds_text}
        return written[self.kind](value) if self.kind in written else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of values by column name, with notes and signature."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    signature: str = ""
    notes: tuple[str, ...] = ()
    """Sentences to print below the table."""
    apart: int = 0
    """Number of summary rows at the end, which are set off."""

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns for people."""
        return tuple(column for column in self.columns if not column.data)

    @property
    def narrow(self) -> tuple[Column, ...]:
        """The columns shown in the terminal and on paper."""
        return tuple(column for column in self.shown if not column.wide)

    def to_rich(self, width: int = 80) -> list[Table]:
        """Tables for a terminal of that width; print notes and signature below, so that they can be copied."""
        return fitted_tables(self.title, self.terminal_columns(), width, keys=self.keys, apart=self.apart)

    @property
    def keys(self) -> int:
        """The number of columns that say what a row is about: up to the first that is a text."""
        return 1 + next((place for place, column in enumerate(self.narrow) if column.left), 0)

    def terminal_columns(self) -> list[TerminalColumn]:
        """Its columns as texts for the terminal."""
        return [
            TerminalColumn(column.heading, [column.text(row) for row in self.rows], column.left)
            for column in self.narrow
        ]

    def to_markdown(self) -> str:
        """A Markdown table with title above, notes and signature below."""
        heading = [f"### {markdown_cell(self.title)}", ""] if self.title else []
        below = [*map(markdown_cell, self.notes), *([code_line(self.signature)] if self.signature else [])]
        return "\n".join([*heading, *self.markdown_lines(), *(f"\n{line}" for line in below), ""])

    def markdown_lines(self) -> list[str]:
        """The lines of the Markdown table without title and notes."""
        rows = ([column.text(row) for column in self.shown] for row in self.rows)
        return markdown_table([column.heading for column in self.shown], rows)

    def to_latex(self) -> str:
        """A floating booktabs table, with the signature in a comment and in the caption."""
        header = [column.heading for column in self.narrow]
        rows = [[column.latex(row) for column in self.narrow] for row in self.rows]
        widths = [max(map(latex_length, column)) for column in zip(header, *rows, strict=True)]
        lines = [latex_row([latex_text(name) for name in header]), r"\midrule", *map(latex_row, rows)]
        if 0 < self.apart < len(rows):
            lines.insert(-self.apart, r"\midrule")
        return "\n".join(
            [
                *([latex_comment(self.signature)] if self.signature else []),
                r"\begin{table}",
                r"  \centering",
                *([r"  \footnotesize"] if sum(widths) + 2 * len(widths) > WIDE else []),
                rf"  \caption[{{{latex_text(self.title)}}}]{{{self._latex_caption()}}}",
                rf"  \begin{{tabular}}{{{latex_columns([column.left for column in self.narrow], widths)}}}",
                *(f"    {line}" for line in (r"\toprule", *lines, r"\bottomrule")),
                r"  \end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def _latex_caption(self) -> str:
        said = ". ".join(part.rstrip(".") for part in (self.title, *self.notes) if part)
        below = rf" Signature: {latex_signature(self.signature)}." if self.signature else ""
        return f"{latex_text(said)}.{below}"

    def to_csv(self) -> str:
        """Comma-separated unformatted values, with the signature in every row."""
        names = list(dict.fromkeys(name for column in self.columns for name in column.names))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*names, *(["signature"] if self.signature else [])])
        for row in self.rows:
            cells = [*map(row.get, names), *([self.signature] if self.signature else [])]
            writer.writerow(guarded("; ".join(cell) if isinstance(cell, tuple) else cell) for cell in cells)
        return out.getvalue()


def _text(value: str | tuple[str, ...]) -> str:
    """A text, or a list of names."""
    return value if isinstance(value, str) else ", ".join(value)


def decimals_for(values: Iterable[float | None]) -> int:
    """Decimals needed to distinguish values of this size: two from 2 on, three below, more for very small ones."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0.0 or largest >= 2:
        return 0 if largest >= 10_000 else 1 if largest >= 1000 else 2
    return min(8, max(3, 2 - math.floor(math.log10(largest))))


def typeset(written: str) -> str:
    """A formatted number with a real minus sign, and no sign before zero."""
    return (written if re.search("[1-9]", written) else written.lstrip("+-")).replace("-", MINUS)


def usd_text(usd: float) -> str:
    """An amount of US dollars: with cents below a hundred, with more digits below a few cents."""
    if usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd == 0 or usd >= 0.1 else f"{usd:.2g}"


def large_text(number: float) -> str:
    """A large number to about three digits: 812, 12.3k, 4.2M."""
    for size, letter in LARGE:
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}" if abs(number) < 1000 * size else f"{number / size:,.0f}{letter}"
    return f"{number:,.0f}"


def seconds_text(seconds: float) -> str:
    """A duration in a suitable unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.1f} days"
