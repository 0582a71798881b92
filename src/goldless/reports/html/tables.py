"""Tables of pages: every text escaped and visible, every number with all its digits beside the ones that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from goldless.reports.html.charts.svg import element
from goldless.reports.html.labels import label, visible
from goldless.reports.html.numerals import is_number
from goldless.reports.report_table import Column

Row = Mapping[str, Any]
LONG = 40
"""Characters from which a cell needs a broad column: a sentence, or a word that must be broken."""


def number(name: str, heading: str, decimals: int = 3, *, absent: str | None = None) -> Column:
    """A column of numbers."""
    return Column(name, heading, "number", absent, decimals)


def counts(absent: str | None = None, /, **headings: str) -> tuple[Column, ...]:
    """Columns of counts, by name."""
    return tuple(Column(name, heading, "count", absent) for name, heading in headings.items())


def signed(name: str, heading: str, decimals: int = 3, *, absent: str | None = None) -> Column:
    """A column of numbers with their sign."""
    return Column(name, heading, "signed", absent, decimals)


def ends(level: str = "", decimals: int = 3, *, name: str = "low high", absent: str = "none") -> Column:
    """The two ends of intervals; ``level`` as the heading says it."""
    return Column(name, level, "interval", absent, decimals)


@dataclass(frozen=True, slots=True)
class HtmlCell:
    """One cell: what people read, and the number under it."""

    text: str
    """Where it is markup, a cell that was made elsewhere, such as a link."""
    value: str | None = None
    """The number, written so that nothing is lost."""
    absent: bool = False

    @property
    def length(self) -> int:
        """Characters that are read."""
        return len(self.text.striptags() if isinstance(self.text, Markup) else self.text)


def html_cells(columns: Iterable[Column], row: Row) -> list[tuple[Column, HtmlCell]]:
    """The cells of a row; an interval has one for each of its ends."""
    return [(one, _cell(one, row)) for column in columns for one in column.single]


def _cell(column: Column, row: Row) -> HtmlCell:
    value = row.get(column.name)
    if value is None or value == "" or (isinstance(value, float) and not is_number(value)):
        instead = "missing" if column.absent is None else column.absent
        return HtmlCell(visible(row.get(column.reason) or instead), absent=True)
    if isinstance(value, Markup):
        return HtmlCell(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return HtmlCell(label(value) if column.kind == "name" else visible(value))
    return HtmlCell(column.typeset(value), repr(value))


def table_html(columns: Sequence[Column], rows: Iterable[Row], caption: Markup | str, *, class_: str = "") -> Markup:
    """The table; ``class_`` of its caption."""
    single = [one for column in columns for one in column.single]
    # the first column of names says what its row is about, or else the first
    head = next((place for place, column in enumerate(single) if column.kind == "name"), 0)
    headings = [element("th", _shown(one.heading), scope="col", class_=None if one.left else "n") for one in single]
    body = [
        element("tr", *(_written(*cell, head=place == head) for place, cell in enumerate(html_cells(columns, row))))
        for row in rows
    ]
    return element(
        "table",
        element("caption", _shown(caption), class_=class_ or None),
        element("thead", element("tr", *headings)),
        element("tbody", *body),
    )


def _shown(text: str) -> str:
    return text if isinstance(text, Markup) else visible(text)


def _written(column: Column, cell: HtmlCell, *, head: bool) -> Markup:
    classes = ["absent"] * cell.absent + ["n"] * (not column.left) + ["long"] * (cell.length > LONG)
    named = column.kind == "name" and not cell.absent and not isinstance(cell.text, Markup)
    return element(
        "th" if head else "td",
        element("bdi", cell.text) if named else cell.text,
        scope="row" if head else None,
        class_=" ".join(classes) or None,
        data_v=cell.value,
    )
