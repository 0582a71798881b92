"""Mending of text as it comes out of files: what cannot be stored goes, what typesetting broke is joined again."""

from __future__ import annotations

import math
import re
from typing import Any

LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
CONTROLS = dict.fromkeys([*range(9), 11, *range(14, 32), *range(127, 160)])
"""C0 and C1 controls other than tab, line feed, form feed and carriage return; ``str.translate`` drops them."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Possessive, and begun at the start of a word only: a file of a million letters or hyphens must not take for ever.
_WORD = re.compile(r"[^\W\d_]++(?:[-\u2010][^\W\d_]++)*+")
_BROKEN_WORD = re.compile(
    r"(?<![^\W\d_])(?<![-\u2010])(?P<hyphened>(?:[^\W\d_]++[-\u2010])*)(?P<head>[^\W\d_]++)"
    r"(?P<hyphen>[-\u2010\u00ad])[ \t]*+\n[ \t]*+(?P<tail>[^\W\d_]++)"
)


def storable(text: str) -> str:
    """The text without NUL and without halves of surrogate pairs, which no UTF-8 file can hold."""
    if _SURROGATE.search(text):
        # UTF-16 joins the halves that belong together; those that are alone are what it cannot read.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text.replace("\x00", "")


def unix_lines(text: str) -> str:
    """The text with a line feed at the end of each line, whatever system it was written on."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def storable_value(value: Any) -> Any:
    """The value with every text in it storable, however deep it lies; numbers no table can hold become text."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable_value(key): storable_value(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(held) for held in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        return str(value)
    return str(value) if type(value) is float and math.isinf(value) else value


def mended(text: str) -> str:
    """The text of a typeset page as it was written: ligatures as letters, words joined that a line's end broke.

    A word broken at a hyphen is joined without it, unless the word with the hyphen stands elsewhere in the text (and
    the joined one does not), or its head has a hyphen already (``state-of-the-`` + ``art``), or its tail begins with a
    capital. Control characters go; line ends become line feeds.
    """
    text = unix_lines(storable(text)).replace("\f", "\n")
    text = text.translate(LIGATURES).translate(CONTROLS)
    words = set(_WORD.findall(text))
    text = _BROKEN_WORD.sub(lambda match: _joined(match, words), text)
    return text.replace("\u00ad", "")


def _joined(match: re.Match[str], words: set[str]) -> str:
    hyphened, head, tail = match["hyphened"], match["head"], match["tail"]
    soft = match["hyphen"] == "\u00ad"
    compound = f"{head}-{tail}"
    kept = hyphened or tail[0].isupper() or (compound in words and head + tail not in words)
    return f"{hyphened}{head}-{tail}" if kept and not soft else f"{hyphened}{head}{tail}"
