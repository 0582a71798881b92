"""What a section is made of: paragraphs, tables, figures, folds. The template alone turns them into HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from goldless.reports.html.labels import label, visible
from goldless.reports.html.tables import Row, table_html
from goldless.reports.report_table import Column


@dataclass(frozen=True, slots=True)
class Name:
    """A name that somebody else chose, set apart from our words."""

    text: str

    @property
    def shown(self) -> str:
        """The name as it can be shown."""
        return label(self.text)


@dataclass(frozen=True, slots=True)
class Term:
    """A word that the glossary explains."""

    key: str
    word: str = ""


Inline = str | Name | Term


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of words, names and terms."""

    parts: tuple[Inline, ...]
    style: Literal["plain", "lead", "note", "warning"] = "plain"
    block: str = "paragraph"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    parts: tuple[Inline, ...]
    block: str = "heading"


@dataclass(frozen=True, slots=True)
class Code:
    """A text as it is, such as a signature or a prompt."""

    text: str
    block: str = "code"

    @property
    def shown(self) -> str:
        """The text as it can be shown."""
        return visible(self.text, lines=True)


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[tuple[Inline, ...], ...]
    block: str = "bullets"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, sortable in the page."""

    caption: tuple[Inline, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    block: str = "table"

    def html(self, caption: Markup) -> Markup:
        """The table under its caption, whose links the template makes."""
        return table_html(self.columns, self.rows, caption)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its data."""

    slug: str
    """Of the files it is saved as: our own word, never a name from the data."""
    title: tuple[Inline, ...]
    caption: tuple[Inline, ...]
    pictures: tuple[Markup, ...]
    """The chart; where it has another width on a small screen, that too."""
    data: tuple[Table, ...]
    unfolded: bool = False
    """Whether the data are shown at once."""
    block: str = "figure"


@dataclass(frozen=True, slots=True)
class Fold:
    """What is there for those who open it."""

    summary: tuple[Inline, ...]
    blocks: tuple[Block, ...]
    block: str = "fold"


Block = Paragraph | Heading | Code | Bullets | Table | Figure | Fold


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the report."""

    slug: str
    title: str
    blocks: tuple[Block, ...] = field(default=())


def words(*parts: Inline) -> Paragraph:
    """A plain paragraph."""
    return Paragraph(parts)


def sentence(text: object) -> str:
    """A remark from a document as a sentence."""
    shown = visible(text).strip()
    return shown[:1].upper() + shown[1:] + ("" if shown.endswith((".", "!", "?")) else ".")


def note(*parts: Inline) -> Paragraph:
    """A paragraph in small type: how to read what is above it."""
    return Paragraph(parts, style="note")


def warning(*parts: Inline) -> Paragraph:
    """A paragraph that says what is wrong or missing."""
    return Paragraph(parts, style="warning")


def listed(names: Sequence[str], most: int = 6) -> tuple[Inline, ...]:
    """Names with commas between; of many only the first."""
    parts: list[Inline] = []
    for place, name in enumerate(names[:most]):
        if place:
            parts.append(" and " if place == len(names) - 1 else ", ")
        parts.append(Name(name))
    if len(names) > most:
        parts.append(f" and {len(names) - most} more")
    return tuple(parts)


def terms(blocks: Sequence[Block]) -> Iterator[str]:
    """The keys of all terms in blocks, in order."""
    for block in blocks:
        for parts in _inlines(block):
            yield from (part.key for part in parts if isinstance(part, Term))
        if isinstance(block, Fold):
            yield from terms(block.blocks)
        if isinstance(block, Figure):
            yield from terms(block.data)


def _inlines(block: Block) -> list[tuple[Inline, ...]]:
    if isinstance(block, Paragraph | Heading):
        return [block.parts]
    if isinstance(block, Bullets):
        return list(block.items)
    if isinstance(block, Table):
        return [block.caption]
    if isinstance(block, Figure):
        return [block.title, block.caption]
    return [block.summary] if isinstance(block, Fold) else []
