"""What a page is made of: paragraphs, tables, figures, folds. Only the templates turn them into HTML."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from goldless.reports.findings import Name as Name  # noqa: PLC0414 - sections take all inline parts from here
from goldless.reports.findings import named
from goldless.reports.html.charts import described, element
from goldless.reports.html.labels import excerpt, is_number, label, numeral, plural, visible
from goldless.reports.report_table import Column, Kind, ReportTable

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard
    from goldless.reports.run_folder import RunFolder

HERE = Path(__file__).parent
LONG = 40
"""A longer text, or one with a longer word, needs a wide column."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term that the glossary explains."""

    key: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a section of the page."""

    slug: str
    word: str


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page of a site."""

    file: str
    word: str


Row = Mapping[str, Any]
"""Values by column name."""
Inline = str | Name | Term | Link | PageLink
Words = str | tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of words, names and terms."""

    parts: Words
    style: Literal["plain", "lead", "note", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    parts: Words


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted text, such as a signature or a prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that readers can sort."""

    caption: Words
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its data."""

    slug: str
    """Name of the files it is saved as; never a name from the data."""
    title: Words
    caption: Words
    pictures: Sequence[Markup]
    """The chart, and optionally a narrow version for small screens."""
    data: Sequence[Table]
    finding: str = ""
    """What the chart shows, in words: the description that a screen reader reads."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Details that readers can open."""

    summary: Words
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Switched:
    """Blocks about one metric, shown while the reader's switch is on it."""

    place: int
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A part of the page with a template of its own, which says in HTML what the values are."""

    template: str
    values: Mapping[str, Any]


Block = Paragraph | Heading | Code | Bullets | Table | Figure | Fold | Switched | Rendered


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the report."""

    slug: str
    title: str
    blocks: tuple[Block, ...]
    appendix: bool = False
    """Whether it is folded, after all others."""


SectionMaker = Callable[["RunFolder"], Section | None]


def section(
    slug: str, title: str, *, appendix: bool = False
) -> Callable[[Callable[[RunFolder], Iterable[Block]]], SectionMaker]:
    """Decorator: turn a function that yields blocks into a section; None if it yields nothing."""

    def decorated(make: Callable[[RunFolder], Iterable[Block]]) -> SectionMaker:
        @functools.wraps(make)
        def made(run: RunFolder) -> Section | None:
            blocks = tuple(make(run))
            return Section(slug, title, blocks, appendix) if blocks else None

        return made

    return decorated


def words(*parts: Inline) -> Paragraph:
    """A plain paragraph."""
    return Paragraph(parts)


def note(*parts: Inline) -> Paragraph:
    """A paragraph in small type: how to read what is above it."""
    return Paragraph(parts, style="note")


def warning(*parts: Inline) -> Paragraph:
    """A paragraph about something wrong or missing."""
    return Paragraph(parts, style="warning")


def sentence(text: object) -> str:
    """A remark from a document as a sentence."""
    shown = visible(text).strip()
    return shown[:1].upper() + shown[1:] + ("" if shown.endswith((".", "!", "?")) else ".")


def remarks(texts: Iterable[str]) -> tuple[Paragraph, ...]:
    """The remarks of a document, one sentence each."""
    return tuple(note(sentence(text)) for text in texts)


def listed(names: Sequence[str], most: int = 6) -> tuple[Inline, ...]:
    """Names separated by commas; only the first of many."""
    return named(names, most)


def each_metric(
    make: Callable[[RunFolder, str, Leaderboard], Iterable[Block]],
) -> Callable[[RunFolder], Iterator[Block]]:
    """Decorator below ``section``: what a function yields for each metric is shown one metric at a time."""

    @functools.wraps(make)
    def made(run: RunFolder) -> Iterator[Block]:
        for place, (metric, board) in enumerate(run.standings.items()):
            blocks = tuple(make(run, metric, board))
            if blocks:
                yield Switched(place, blocks)

    return made


# --- tables ----------------------------------------------------------------------------------------------------------


def _columns(kind: Kind, absent: str | None = None, /, **headings: str) -> tuple[Column, ...]:
    return tuple(Column(name, heading, kind, absent) for name, heading in headings.items())


texts = functools.partial(_columns, "text")
"""Columns of text: the placeholder for absent values, then headings by name."""
names = functools.partial(_columns, "name")
"""Columns of names from the data."""
counts = functools.partial(_columns, "count")
"""Columns of counts."""


def number(name: str, heading: str, decimals: int = 3, *, absent: str | None = None) -> Column:
    """A column of numbers."""
    return Column(name, heading, "number", absent, decimals)


def result_table(table: ReportTable) -> Table:
    """A table of a result as a block."""
    return Table(table.title, table.columns, table.rows)


def table_html(columns: Sequence[Column], rows: Iterable[Row], caption: str, *, class_: str = "") -> Markup:
    """The table as HTML; an interval has one column per end. ``class_``: CSS class of the caption."""
    single = [one for column in columns if not column.data and column.kind != "plot" for one in column.single]
    # the first column of names says what its row is about, or else the first
    head = next((place for place, column in enumerate(single) if column.kind == "name"), 0)
    headings = [
        element("th", _shown(column.heading or column.name), scope="col", class_=None if column.left else "n")
        for column in single
    ]
    body = []
    for row in rows:
        behind = row.get("behind")
        cells = []
        for place, column in enumerate(single):
            text, value, absent = _cell(column, row)
            linked = behind if value is not None and column.kind in {"number", "signed"} else None
            behind = None if linked is not None else behind  # only the first number of a row is a link
            long = len(text.striptags() if isinstance(text, Markup) else text) > LONG
            classes = ["absent"] * absent + ["n"] * (not column.left) + ["long"] * long
            look = {"class_": " ".join(classes) or None, "data_v": value, "data_of": linked}
            is_head = place == head
            cells.append(element("th" if is_head else "td", text, scope="row" if is_head else None, **look))
        body.append(element("tr", *cells))
    title = element("caption", _shown(caption), class_=class_ or None)
    return element("table", title, element("thead", element("tr", *headings)), element("tbody", *body))


def _shown(text: str) -> str:
    return text if isinstance(text, Markup) else visible(text)


def _cell(column: Column, row: Row) -> tuple[str, str | None, bool]:
    """The text of a cell, the number behind it at full precision, and whether it is absent."""
    value = row.get(column.name)
    if value is None or value == "" or (isinstance(value, float) and not is_number(value)):
        instead = "missing" if column.absent is None else column.absent
        return visible(row.get(column.reason) or instead), None, True
    if isinstance(value, Markup):  # made elsewhere, such as a link
        return value, None, False
    if isinstance(value, tuple):
        return visible(", ".join(value)), None, False
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (element("bdi", label(value)) if column.kind == "name" else visible(value)), None, False
    return column.typeset(value), repr(value), False


# --- templates and words ---------------------------------------------------------------------------------------------


@functools.cache
def lexicon() -> dict[str, dict[str, str]]:
    """What readers can look up: ``terms`` and their ``names``, the parts of a ``signature``, ``causes`` of failures."""
    return tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))


@functools.cache
def environment() -> Environment:
    """The templates, read once."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"visible": visible, "label": label, "numeral": numeral, "excerpt": excerpt, "plural": plural}
    found.filters |= {"kind": lambda block: type(block).__name__}
    found.globals |= {"words": lexicon()["names"], "table_html": table_html, "described": described}
    return found
