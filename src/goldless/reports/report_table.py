"""A table of values for people and for programs: in the terminal, as Markdown, LaTeX, CSV or HTML."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from goldless.reports import formats
from goldless.reports.formats import guarded, latex_number, latex_text, markdown_cell, printable

if TYPE_CHECKING:
    from rich.text import Text

Cell = str | int | float | None
Single = Literal["text", "name", "figure", "count", "large", "number", "signed", "probability", "usd", "seconds"]
"""``name``: a text from the data, such as an agent. ``figure``: a text, or an unformatted number, right-aligned.
``large``: thousands, millions or billions, such as 4.2M. ``signed``: with a plus sign."""
Kind = Single | Literal["interval", "signed interval", "shares", "fraction", "plot"]
"""``interval``: two numbers. ``shares``: two factors of a number, shown as per cent changes. ``fraction``: two counts,
such as 3/40. ``plot``: a drawing of letters for the terminal, left out where there is no room."""
BRACKETED = ("interval", "signed interval", "shares")
SINGLE: dict[Kind, Single] = {
    "interval": "number",
    "signed interval": "signed",
    "shares": "number",
    "fraction": "count",
}
"""The kind of each single value of a kind with two."""
LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
MINUS = "\u2212"
SHORT = 12
"""In the terminal, a text column is not narrower than this, or than its longest text."""
LONG, WIDE = 40, 84
"""In LaTeX, a column with a longer text breaks lines, and a table with longer rows is set in smaller type."""
BETWEEN = 2
"""Spaces after a column in the terminal."""


@dataclass(frozen=True)
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
        return self.name.split() if self.kind in SINGLE else [self.name]

    @property
    def left(self) -> bool:
        """True if it is a text column, left-aligned."""
        return self.kind in {"text", "name", "plot"}

    def text(self, row: Mapping[str, Any]) -> str:
        parts = self._parts(row)
        if parts is None:
            return str(row.get(self.reason) or ("-" if self.absent is None else self.absent))
        return ("/" if self.kind == "fraction" else self.between).join(parts)

    def latex(self, row: Mapping[str, Any]) -> str:
        """The cell in LaTeX: an interval in brackets."""
        parts, text = self._parts(row), self.text(row)
        if parts is not None and self.kind in BRACKETED:
            return f"[{', '.join(map(latex_number, parts))}]"
        if parts is None and text == "-":
            return "--"
        return latex_text(text) if self.left else latex_number(text)

    @property
    def single(self) -> list[Column]:
        """One column per value, so that each can be sorted by in a page."""
        if self.kind not in SINGLE:
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
        return typeset(self._number(value, ","))

    def _parts(self, row: Mapping[str, Any]) -> list[str] | None:
        """Its values as texts, lists of names too; None if one of them is missing."""
        values = [row.get(name) for name in self.names]
        if None in values:
            return None
        texts = [", ".join(value) if isinstance(value, tuple) else value for value in values]
        return [text if isinstance(text, str) else self._number(text) for text in texts]

    def _number(self, value: Any, style: str = "") -> str:
        if self.kind in {"number", "interval"}:
            return f"{value:z{style}.{self.decimals}f}"
        if self.kind in {"signed", "signed interval"}:
            return f"{value:+z{style}.{self.decimals}f}"
        if self.kind == "shares":
            return f"{100 * (value - 1):+z.{self.decimals}f}%"
        return NUMBERS.get(self.kind, "{:,.0f}".format)(value)


@dataclass(frozen=True)
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
        return tuple(column for column in self.columns if not column.data and column.kind != "plot")

    @property
    def narrow(self) -> tuple[Column, ...]:
        """The columns shown on paper, and with plots in the terminal."""
        return tuple(column for column in self.shown if not column.wide)

    def to_rich(self, width: int = 80) -> list[Text]:
        """The table for a terminal of that width, in several parts if need be.

        Nothing is cut off, and no name or number is broken inside a word: texts wrap between words; where that is not
        enough, plots go, then columns move to a table below. Print notes and signature below, so that they can be
        copied.
        """
        found = [_Printed(one, self.rows) for one in self.columns if not one.data and not one.wide]
        if _least(found) > width:
            found = [one for one in found if one.column.kind != "plot"]
        # the columns that say what a row is about, up to the first text, are in every part
        keys = 1 + next((place for place, one in enumerate(found) if one.column.left), 0)
        first, rest = found[:keys], found[keys:]
        parts: list[Text] = []
        while rest or not parts:
            taken, rest = [*first, *rest[:1]], rest[1:]
            while rest and _least([*taken, rest[0]]) <= width:
                taken.append(rest.pop(0))
            parts.append(self._part(taken, "" if parts else self.title, width))
        return parts

    def _part(self, columns: Sequence[_Printed], title: str, width: int) -> Text:
        """The columns as lines: wide ones give way first."""
        from rich.text import Text  # noqa: PLC0415 - not every table is printed

        for column in columns:
            column.width = column.widest
        while _whole_width(columns) > width:
            wrappable = [column for column in columns if column.width > column.narrowest]
            if not wrappable:
                break  # lines that a terminal breaks are better than cells cut off
            max(wrappable, key=lambda column: column.width).width -= 1
        # a rich.table.Table takes a millisecond per row, and some boards have ten thousand
        lines = Text(f"{printable(title)}\n\n" if title else "\n", no_wrap=True, overflow="ignore")
        _append_row(lines, columns, [one.column.heading for one in columns], "bold", at_bottom=True)
        lines.append(f" {'─' * (_whole_width(columns) - BETWEEN)}\n")
        first_apart = len(self.rows) - self.apart
        for place, cells in enumerate(zip(*(one.cells for one in columns), strict=True)):
            if 0 < place == first_apart:
                lines.append("\n")
            _append_row(lines, columns, cells, "bold" if place >= first_apart else "")
        lines.append(" " * _whole_width(columns))  # a blank line below
        return lines

    def to_markdown(self) -> str:
        """A Markdown table with title above, notes and signature below."""
        heading = [f"### {markdown_cell(self.title)}", ""] if self.title else []
        below = [*map(markdown_cell, self.notes), *([formats.code_line(self.signature)] if self.signature else [])]
        return "\n".join([*heading, *self.markdown_lines(), *(f"\n{line}" for line in below), ""])

    def markdown_lines(self) -> list[str]:
        """The lines of the Markdown table without title and notes."""
        lines = [[one.heading for one in self.shown], ["---"] * len(self.shown)]
        lines += ([column.text(row) for column in self.shown] for row in self.rows)
        return ["| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines]

    def to_latex(self) -> str:
        """A floating booktabs table, with the signature in a comment and in the caption."""
        columns = self.narrow
        rows = [[column.latex(row) for column in columns] for row in self.rows]
        widths = [max(map(len, (one.heading, *map(one.text, self.rows)))) for one in columns]
        long = [one.left and width > LONG for one, width in zip(columns, widths, strict=True)]
        wrapped = rf"p{{{0.6 / max(1, sum(long)):.2f}\linewidth}}"  # a column of long texts breaks lines
        kinds = (wrapped if broken else "l" if one.left else "r" for one, broken in zip(columns, long, strict=True))
        header = [latex_text(column.heading) for column in columns]
        lines = [formats.latex_row(header), r"\midrule", *map(formats.latex_row, rows)]
        if 0 < self.apart < len(rows):
            lines.insert(-self.apart, r"\midrule")
        said = ". ".join(part.rstrip(".") for part in (self.title, *self.notes) if part)
        below = rf" Signature: {formats.latex_signature(self.signature)}." if self.signature else ""
        return "\n".join(
            [
                *([formats.latex_comment(self.signature)] if self.signature else []),
                r"\begin{table}",
                r"  \centering",
                *([r"  \footnotesize"] if sum(widths) + 2 * len(widths) > WIDE else []),
                rf"  \caption[{{{latex_text(self.title)}}}]{{{latex_text(said)}.{below}}}",
                rf"  \begin{{tabular}}{{{''.join(kinds)}}}",
                *(f"    {line}" for line in (r"\toprule", *lines, r"\bottomrule")),
                r"  \end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def to_csv(self) -> str:
        """Comma-separated unformatted values, with the signature in every row."""
        names = list(dict.fromkeys(name for one in self.columns if one.kind != "plot" for name in one.names))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*names, *(["signature"] if self.signature else [])])
        for row in self.rows:
            cells = [*map(row.get, names), *([self.signature] if self.signature else [])]
            writer.writerow(guarded("; ".join(cell) if isinstance(cell, tuple) else cell) for cell in cells)
        return out.getvalue()


# --- the terminal ----------------------------------------------------------------------------------------------------


class _Printed:
    """A column as texts, with its width if nothing wraps, and if texts wrap between words; numbers do not.

    ``width`` is that of the part it is printed in.
    """

    def __init__(self, column: Column, rows: Iterable[Mapping[str, Any]]) -> None:
        self.column, self.cells = column, [column.text(row) for row in rows]
        self.widest = self.narrowest = self.width = max(map(_width, (column.heading, *self.cells)))
        if column.kind != "plot":
            whole = [cell for cell in self.cells if not column.left and any(map(str.isdigit, cell))]
            parts = [part for text in {column.heading, *self.cells}.difference(whole) for part in text.split()]
            longest = max(map(_width, (*whole, *parts)), default=0)
            self.narrowest = max(longest, min(SHORT, self.widest)) if column.left else longest

    def lines_of(self, cell: str) -> list[str]:
        """The cell's lines, all as wide as the column."""
        lines = _wrapped(printable(cell), self.width)
        spaces = [" " * (self.width - _width(line)) for line in lines]
        if self.column.left:
            return [line + space for line, space in zip(lines, spaces, strict=True)]
        return [space + line for line, space in zip(lines, spaces, strict=True)]


def _append_row(
    lines: Text, columns: Sequence[_Printed], cells: Sequence[str], style: str, *, at_bottom: bool = False
) -> None:
    """Append a row, of as many lines as its longest cell; ``at_bottom``: where shorter cells stand."""
    cell_lines = [column.lines_of(cell) for column, cell in zip(columns, cells, strict=True)]
    height = max(map(len, cell_lines))
    for number in range(height):
        for column, own_lines in zip(columns, cell_lines, strict=True):
            place = number - (height - len(own_lines)) * at_bottom
            text = own_lines[place] if 0 <= place < len(own_lines) else " " * column.width
            lines.append(" ")
            lines.append(text, style or ("cyan" if column.column.kind == "plot" else ""))
            lines.append(" ")
        lines.append("\n")


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text that is wrapped between words."""
    lines = []
    for paragraph in text.split("\n"):
        words = [paragraph] if _width(paragraph) <= width else re.findall(r"\S+\s*", paragraph)
        line = ""
        for word in words:
            if line and _width(line + word.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += word
        lines.append(line.rstrip())
    return lines


def _width(text: str) -> int:
    from rich.cells import cell_len  # noqa: PLC0415 - not every table is printed

    return max(map(cell_len, printable(text).split("\n")))


def _whole_width(columns: Sequence[_Printed]) -> int:
    return sum(one.width + BETWEEN for one in columns)


def _least(columns: Sequence[_Printed]) -> int:
    return sum(one.narrowest + BETWEEN for one in columns)


# --- numbers ---------------------------------------------------------------------------------------------------------


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


def probability_text(p: float) -> str:
    """A probability with three decimals: no test shows that it is 0 or 1."""
    return "<0.001" if p < 0.001 else ">0.999" if p > 0.999 else f"{p:.3f}"


NUMBERS: dict[Kind, Callable[[float], str]] = {
    "large": large_text,
    "usd": usd_text,
    "seconds": seconds_text,
    "probability": probability_text,
    "fraction": "{:.0f}".format,
    "figure": "{:.0f}".format,
}
"""The formats of numbers of these kinds; others have thousands separators."""
