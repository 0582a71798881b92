"""The parts of a page: paragraphs, tables, figures, folds, each a function that gives escaped HTML."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from goldless.reports.findings import Name as Name  # noqa: PLC0414 - sections take all inline parts from here
from goldless.reports.html.charts import IntervalRow, described, element, interval_plot, pictures
from goldless.reports.html.labels import excerpt, is_number, label, numeral, plural, visible
from goldless.reports.report_table import Column, Kind, ReportTable

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard
    from goldless.reports.run_folder import RunFolder

HERE = Path(__file__).parent
LONG = 40
"""A longer text, or one with a longer word, needs a wide column."""
Row = Mapping[str, Any]
"""Values by column name."""
Inline = str | Name
"""A text, which is escaped unless it is markup, such as a link; or a name from the data."""
Words = str | tuple[Inline, ...]
Block = Markup
"""A part of a section."""
lines = Markup("\n").join
"""Blocks below each other."""


# --- in a line -------------------------------------------------------------------------------------------------------


def term(key: str, word: str = "") -> Markup:
    """A term that the glossary explains."""
    return element("a", word or lexicon()["names"].get(key, key), class_="term", href=f"#term-{key.replace(' ', '-')}")


def link(href: str, word: str) -> Markup:
    """A link to a section of the page, or to another page of a site."""
    return element("a", label(word), href=href)


def unlinked(html: str) -> Markup:
    """HTML for another page: terms without their links, and no links to sections."""
    without_terms = re.sub('<a class="term"[^>]*>(.*?)</a>', r"\1", html)
    return Markup(re.sub('<a href="#[^>]*>.*?</a>', "", without_terms))  # noqa: S704 - as escaped as it was


def inline(parts: Words) -> Markup:
    """Texts and names in a line."""
    found = Markup()
    for part in (parts,) if isinstance(parts, str) else parts:
        found += element("bdi", label(part.text), class_="name") if isinstance(part, Name) else _shown(part)
    return found


def _shown(text: str) -> str:
    return text if isinstance(text, Markup) else visible(text)


def sentence(text: object) -> str:
    """A remark from a document as a sentence."""
    shown = visible(text).strip()
    return shown[:1].upper() + shown[1:] + ("" if shown.endswith((".", "!", "?")) else ".")


# --- blocks ----------------------------------------------------------------------------------------------------------


def words(*parts: Inline, style: Literal["lead", "note", "warning"] | None = None) -> Block:
    """A paragraph."""
    return element("p", inline(parts), class_=style)


note = functools.partial(words, style="note")
"""A paragraph in small type: how to read what is above it."""
warning = functools.partial(words, style="warning")
"""A paragraph about something wrong or missing."""


def remarks(texts: Iterable[str]) -> tuple[Block, ...]:
    """The remarks of a document, one sentence each."""
    return tuple(note(sentence(text)) for text in texts)


def heading(parts: Words) -> Block:
    """A heading within a section."""
    return element("h3", inline(parts))


def code(text: str) -> Block:
    """Preformatted text, such as a signature or a prompt."""
    return element("pre", visible(text, lines=True), tabindex="0")


def bullets(items: Iterable[Words]) -> Block:
    """A list."""
    return element("ul", *(element("li", inline(item)) for item in items))


def fold(summary: Words, blocks: Iterable[Block]) -> Block:
    """Details that readers can open."""
    return element("details", element("summary", inline(summary)), "\n", lines(blocks), class_="fold")


def table(caption: Words, columns: Sequence[Column], rows: Iterable[Row]) -> Block:
    """A table that readers can sort."""
    return element("div", table_html(columns, rows, inline(caption)), class_="scroll", tabindex="0")


def result_table(found: ReportTable) -> Block:
    """A table of a result."""
    return table(found.title, found.columns, found.rows)


def figure(
    slug: str, title: Words, caption: Words, pictures: Sequence[Markup], data: Sequence[Block], *, finding: str = ""
) -> Block:
    """A chart with its data.

    ``slug`` names the files it is saved as, and is never a name from the data; ``pictures``: the chart, and optionally
    a narrow version for small screens; ``data``: tables; ``finding``: what it shows, which a screen reader reads.
    """
    widths = ("scroll wide", "scroll narrow") if len(pictures) > 1 else ("scroll",)
    drawn = (
        element("div", described(one, finding), class_=width, tabindex="0")
        for one, width in zip(pictures, widths, strict=True)
    )
    parts = (
        element("h3", inline(title), class_="figure-title"),
        *[element("p", visible(finding), class_="finding")] * bool(finding),
        *drawn,
        element("figcaption", inline(caption)),
        *[element("details", element("summary", "Data and downloads"), lines(data), class_="data")] * bool(data),
    )
    return element("figure", lines(parts), id=slug)


def interval_figure(
    slug: str,
    heading: Words,
    caption: Words,
    rows: Sequence[IntervalRow],
    data: Sequence[Block] = (),
    *,
    finding: str = "",
    **plot: Any,
) -> Block:
    """A figure of intervals, one row each; ``plot``: further arguments of ``charts.interval_plot``."""
    return figure(slug, heading, caption, pictures(interval_plot, rows, **plot), data, finding=finding)


# --- sections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """One section of the report."""

    slug: str
    title: str
    blocks: tuple[Block, ...]
    appendix: bool = False
    """True if it is folded, after all others."""


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


def each_metric(
    make: Callable[[RunFolder, str, Leaderboard], Iterable[Block]],
) -> Callable[[RunFolder], Iterator[Block]]:
    """Decorator below ``section``: what a function yields for each metric is shown one metric at a time."""

    @functools.wraps(make)
    def made(run: RunFolder) -> Iterator[Block]:
        for place, (metric, board) in enumerate(run.standings.items()):
            blocks = tuple(make(run, metric, board))
            if blocks:
                yield element("div", lines(blocks), class_=f"of of-{place}")

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
    """A lexicon for readers: ``terms`` and their ``names``, the parts of a ``signature``, ``causes`` of failures."""
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
    found.globals |= {"table_html": table_html, "term": term, "code": code}
    return found


def rendered(template: str, **values: Any) -> Block:
    """A part of the page with a template of its own, which says in HTML what the values are."""
    return Markup(environment().get_template(template).render(**values))  # noqa: S704 - templates escape
