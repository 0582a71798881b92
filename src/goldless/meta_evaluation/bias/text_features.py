"""What can be counted in a text and says nothing of its content: words, and marks of formatting."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Chinese and Japanese are written without spaces: each sign stands for a word
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+(?:['\u2019-][^\W{_SIGN}]+)*")

FORMAT_MARKS: Mapping[str, re.Pattern[str]] = {
    "headings": re.compile(r"^[ ]{0,3}#{1,6}[ \t]+\S|<h[1-6]\b", re.MULTILINE | re.IGNORECASE),
    "list items": re.compile(
        r"^[ \t]*(?:[-*+\u2022\u2023\u25e6\u25aa]|\d{1,3}[.)])[ \t]+\S|<li\b", re.MULTILINE | re.IGNORECASE
    ),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|(?<!\w)__[^_\n]+__(?!\w)|<(?:b|strong)>", re.IGNORECASE),
    "table rows": re.compile(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE),
}
"""Marks that are counted: Markdown, plain bullets and the HTML of the same."""


def count_words(text: str) -> int:
    """Number of words; "don't" and "well-known" are one, each Chinese or Japanese sign is one."""
    return sum(1 for _ in _WORD.finditer(text))


def count_format_marks(text: str) -> int:
    """Number of headings, list items, bold passages and table rows."""
    return sum(1 for pattern in FORMAT_MARKS.values() for _ in pattern.finditer(text))
