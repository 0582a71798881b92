"""Markdown tables whose cells are taken literally."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence


def markdown_cell(text: str) -> str:
    """The text on one line: its bars, stars, links and HTML are characters, no markup."""
    line = "".join(ch for ch in " ".join(text.split()) if ch.isprintable())
    marked = re.sub(r"[\\|*]", r"\\\g<0>", html.escape(line, quote=False))
    return marked.replace("](", "]\\(")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines]


def code_line(text: str) -> str:
    """The text as code on one line, whatever backticks it holds."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"
