"""Sections: which lines of a text are headings, and the sentences between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goldless.sentences import LINE_END, LIST_MARK, split_sentences

SECTIONS = (
    "Summary Of The Paper",
    "Strength And Weaknesses",
    "Clarity, Quality, Novelty And Reproducibility",
    "Summary Of The Review",
)
"""Sections of an ICLR 2023 review as OpenReview spells them; the GEM paper prints "Strengths And Weaknesses"."""
LEAD_CHARACTERS = 80
"""A line that ends in a colon is a heading only while it is this short."""
MARKDOWN_HEADING = re.compile(r"#{1,6}[ \t]+\S.*")
BOLD_LINE = re.compile(r"(\*\*|__)[^*_]+\1[ \t]*:?[ \t]*")
LEAD_LINE = re.compile(r"[^.?!]*[^.?!\s][ \t]*:[ \t]*")


@dataclass(frozen=True, slots=True)
class Unit:
    """A heading or a sentence: ``text[start:end]``, without the white space around it."""

    start: int
    end: int
    heading: bool


def section_names(text: str, sections: Sequence[str]) -> re.Pattern[str]:
    """A pattern of the sections' names, ignoring case, as this text spells them.

    A name that does not occur is matched in singular or plural, word by word ("Strength" for "Strengths").
    """
    lowered = text.lower()
    spelled = (re.escape(name) if name.lower() in lowered else _either_number(name) for name in sections)
    return re.compile("|".join(spelled), re.IGNORECASE)


def heading_at_line_start(sections: Sequence[str]) -> re.Pattern[str]:
    """A pattern of a named section's heading at the start of a line: a whole line, or up to its colon.

    Names match in any case, singular or plural.
    """
    names = "|".join(map(_either_number, sections))
    return re.compile(rf"^[ \t>#*_]*(?:{names})[ \t*_]*(?::[*_]*|(?=[ \t\r]*$))", re.IGNORECASE | re.MULTILINE)


def _either_number(name: str) -> str:
    return re.sub(r"\w+|\W+", lambda one: re.escape(one[0].removesuffix("s")) + "s?" * one[0].isalnum(), name)


NAMED_SECTION = heading_at_line_start(SECTIONS)


def split_units(text: str) -> tuple[Unit, ...]:
    """The headings and sentences of a text in order; only white space is outside them.

    A heading is a named section, alone on its line or before a colon; a Markdown heading; a line all in bold; or a
    short line that ends in a colon and does not contain the end of a sentence.
    """
    units = []
    place = heading_until = 0
    for sentence in split_sentences(text):
        start, end = sentence.start, sentence.end
        if place == 0 or LINE_END.search(text, place, start):
            heading_until = _heading_end(text, start)
        place = end
        if start < heading_until < end:
            units.append(Unit(start, heading_until, heading=True))
            start = end - len(text[heading_until:end].lstrip())
        units.append(Unit(start, end, heading=end <= heading_until))
    return tuple(units)


def _heading_end(text: str, start: int) -> int:
    """Where the heading that begins here ends; 0 where the line begins with none."""
    found = LINE_END.search(text, start)
    end = len(text) if found is None else found.start()
    line = text[start:end].rstrip()
    if match := NAMED_SECTION.match(line):
        return start + len(match[0].rstrip())
    whole = MARKDOWN_HEADING.fullmatch(line) or BOLD_LINE.fullmatch(line)
    lead = len(line) <= LEAD_CHARACTERS and not LIST_MARK.match(line) and LEAD_LINE.fullmatch(line)
    return start + len(line) if whole or lead else 0
