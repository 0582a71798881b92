"""Sentence splitting.

``default`` follows ordinary writing: abbreviations do not end a sentence, a line break and a list item do, and a
Markdown code block is one sentence. ``paper`` is the rule of the GEM paper's deletion experiment, which ends a
sentence at every full stop, question mark, exclamation mark and line break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import sentencex  # type: ignore[import-untyped]

from goldless.errors import UserError, nearest

Mode = Literal["default", "paper"]

LANGUAGE = "en"
LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Line ends, the same as for ``str.splitlines``."""
LIST_MARK = re.compile(r"\s*(?:(?:[-*+•‣◦\u2013\u2014>]|#{1,6}|\(?\d{1,3}[.)]|\(?[A-Za-z]\))\s+)+")
"""The start of a list item, a heading or a quoted line; its full stop does not end a sentence."""
FENCE = re.compile(r"\s*(?:(?P<ticks>`{3,})[^`]*|(?P<tildes>~{3,}).*)", re.DOTALL)
"""A line that opens a Markdown code block."""
PAPER_SENTENCE = re.compile(r"[^.?!\n]*(?:[.?!\n]|\Z)")

Span = tuple[int, int]


@dataclass(frozen=True)
class Sentence:
    """One sentence, without the white space around it."""

    text: str
    start: int
    """Index of its first character in the whole text."""
    end: int
    """Index after its last character: ``whole[start:end] == text``."""


def split_sentences(text: str, *, mode: Mode = "default") -> tuple[Sentence, ...]:
    """Split a text into sentences, in order; only white space is left out."""
    if mode not in get_args(Mode):
        raise UserError(f"mode must be {' or '.join(get_args(Mode))}, got {mode!r}{nearest(mode, get_args(Mode))}")
    spans = (match.span() for match in PAPER_SENTENCE.finditer(text)) if mode == "paper" else _default_spans(text)
    found = []
    for start, end in spans:
        bare = text[start:end].strip()
        if bare:
            first = end - len(text[start:end].lstrip())
            found.append(Sentence(bare, first, first + len(bare)))
    return tuple(found)


def _default_spans(text: str) -> Iterator[Span]:
    block: tuple[int, str] | None = None  # where a code block begins, and its fence
    start = 0
    for end, after in [*(match.span() for match in LINE_END.finditer(text)), (len(text), len(text))]:
        line = text[start:end]
        if block is not None:
            bare = line.strip()
            # a fence closes the block if it is of the same character, at least as many times
            if len(bare) >= len(block[1]) and set(bare) == set(block[1]):
                yield block[0], end
                block = None
        elif fence := FENCE.fullmatch(line):
            block = start, fence["ticks"] or fence["tildes"]
        else:
            yield from _line_spans(text, start, end)
        start = after
    if block is not None:  # Markdown, too, lets a block that is never closed run to the end
        yield block[0], len(text)


def _line_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Sentences of one line; a list mark belongs to the first."""
    mark = LIST_MARK.match(text, start, end)
    body = start if mark is None else mark.end()
    found = sentencex.get_sentence_boundaries(LANGUAGE, text[body:end])
    first = start
    for boundary in found:
        stop = body + int(boundary["end_index"])
        if text[first:stop].strip():
            yield first, stop
            first = stop
    if first < end:
        yield first, end
