"""What a section is made of: paragraphs, tables, figures, folds. The template alone turns them into HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

from goldless.reports.html.labels import label, visible
from goldless.reports.html.numerals import large, numeral, usd

Kind = Literal["name", "text", "number", "signed", "count", "usd", "large", "p"]
"""``name``: of an agent, task, judge or model. ``signed``: with a plus. ``large``: 4.2M. ``p``: small as <0.001."""


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
class Cell:
    """One cell of a table: what people read, and the number under it."""

    text: str
    value: str | None = None
    """The number, written so that nothing is lost."""
    absent: bool = False

    @property
    def long(self) -> bool:
        """Whether it needs a broad column: a sentence, or a word that must be broken."""
        return len(self.text) > 40


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    key: str
    heading: str
    kind: Kind = "text"
    decimals: int = 3
    absent: str = "missing"

    @property
    def is_number(self) -> bool:
        """Whether it stands to the right."""
        return self.kind not in {"name", "text"}

    def cell(self, row: Mapping[str, Any]) -> Cell:
        """The row's cell."""
        value = row.get(self.key)
        if value is None or value == "":
            return Cell(self.absent, absent=True)
        if isinstance(value, float) and not math.isfinite(value):
            return Cell(self.absent, absent=True)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Cell(label(value) if self.kind == "name" else visible(value))
        return Cell(self._number(value), repr(value))

    def _number(self, value: float) -> str:
        if self.kind == "count":
            return numeral(value, 0)
        if self.kind in {"usd", "large"}:
            return (usd if self.kind == "usd" else large)(value)
        if self.kind == "p":
            return "<0.001" if value < 0.001 else numeral(value)
        return numeral(value, self.decimals, signed=self.kind == "signed")


@dataclass(frozen=True, slots=True)
class Table:
    """A table, sortable in the page."""

    caption: tuple[Inline, ...]
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    block: str = "table"

    @property
    def head(self) -> int:
        """Which column names its row: the first of names, or the first."""
        return next((place for place, column in enumerate(self.columns) if column.kind == "name"), 0)

    @property
    def cells(self) -> Iterator[list[tuple[Column, Cell]]]:
        """The rows, each cell with its column."""
        return ([(column, column.cell(row)) for column in self.columns] for row in self.rows)


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
