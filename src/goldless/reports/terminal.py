"""Tables in the terminal: their look, and names that cannot steer it."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


def printable(text: str) -> str:
    """The text without what a terminal takes for a command; line breaks stay."""
    return "".join(ch for ch in text.expandtabs(1) if ch.isprintable() or ch == "\n")


def plain(text: str, style: str = "") -> Text:
    """The text taken literally: no markup, no commands to the terminal."""
    return Text(printable(text), style)


def simple_table(title: str) -> Table:
    """An empty table in the look that all tables share."""
    return Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
