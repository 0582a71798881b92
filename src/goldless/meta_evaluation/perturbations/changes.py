"""Changes of a text: which of its lines are headings, and pure functions that delete, pad or dress up its sentences."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from goldless.meta_evaluation.perturbations.perturbation import TEXTS
from goldless.sentences import FENCE, LINE_END, LIST_MARK, split_sentences

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


@dataclass(frozen=True)
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


# --- fewer sentences (GEM, D.1.1 and D.1.2) --------------------------------------------------------------------------

PLACEHOLDER = "[There is one missing sentence]"
"""Marks a deleted sentence (GEM, D.1.2)."""


def delete_every_second(text: str) -> str:
    """The text without every second sentence; lines, list marks and headings stay, and a heading restarts the count.

    A line that loses all of its sentences is removed. A Markdown code block counts as one sentence.
    """
    units = split_units(text)
    if not units:
        return text
    pieces, gap, mark = [text[: units[0].start]], "", ""
    starts = [*(unit.start for unit in units[1:]), len(text)]
    for (unit, kept), start in zip(_every_second(units), starts, strict=True):
        after = text[unit.end : start]
        if kept:
            pieces += [gap, mark, text[unit.start : unit.end]]
            gap = after
        else:
            gap = max(gap, after, key=_line_ends)
        # a list item whose first sentence went keeps its mark for what is left of it
        mark = "" if kept or _line_ends(after) else _list_mark(text, unit)
    # what follows the last sentence ends the text, whatever was deleted before it
    return "".join([*pieces, text[units[-1].end :]])


def mark_every_second(text: str) -> str:
    """The text with a placeholder for every sentence that deletion removes (D.1.2); list marks stay."""
    pieces, place = [], 0
    for unit, kept in _every_second(split_units(text)):
        if not kept:
            pieces += [text[place : unit.start], _list_mark(text, unit), PLACEHOLDER]
            place = unit.end
    return "".join([*pieces, text[place:]])


def delete_as_published(text: str, *, sections: Sequence[str] = SECTIONS) -> str:
    """The text after sentence deletion as the paper's authors implemented it.

    A sentence ends at any full stop, question mark, exclamation mark or newline; one that contains the name of a
    section, in any case, is a heading; what is kept is joined by a space, and an unterminated tail is dropped.
    """
    names = section_names(text, sections)
    kept, place = [], 0
    for sentence in split_sentences(text, mode="paper"):
        place = 0 if names.search(sentence.text) else place + 1
        if place % 2 or place == 0:
            kept.append(sentence)
    if kept and kept[-1].text[-1] not in ".?!" and "\n" not in text[kept[-1].end :]:
        kept.pop()
    return " ".join(sentence.text for sentence in kept)


def _every_second(units: Sequence[Unit]) -> list[tuple[Unit, bool]]:
    """True if each stays: headings, and of the sentences of a section the first, third and so on."""
    found, place = [], 0
    for unit in units:
        place = 0 if unit.heading else place + 1
        found.append((unit, unit.heading or place % 2 == 1))
    return found


def _line_ends(gap: str) -> int:
    return sum(1 for _ in LINE_END.finditer(gap))


def _list_mark(text: str, unit: Unit) -> str:
    mark = LIST_MARK.match(text, unit.start, unit.end)
    return "" if mark is None else mark[0]


# --- words that say nothing where a section or paragraph begins (GEM, D.2.2) -----------------------------------------

FILLERS, SECTION_TEXTS = TEXTS["elongation"]["ours"], TEXTS["elongation"]["sections"]
ANY_SECTION = heading_at_line_start(tuple(SECTION_TEXTS))


def elongate(text: str) -> str:
    """The text with filler at the beginning of every section, or of every paragraph if there are no sections.

    A text with neither gets it at the beginning. In a list, filler is only before the first item.
    """
    units = split_units(text)
    sectioned = any(unit.heading for unit in units)
    fillers, pieces, place = cycle(FILLERS), [], 0
    before: Unit | None = None
    for unit in units:
        opens = before is None or before.heading
        if before is not None and not sectioned and _line_ends(text[before.end : unit.start]) >= 2:
            opens = not all(LIST_MARK.match(text, each.start, each.end) for each in (before, unit))
        if opens and not unit.heading:
            apart = LIST_MARK.match(text, unit.start, unit.end) or FENCE.match(text, unit.start, unit.end)
            pieces += [text[place : unit.start], next(fillers), "\n" if apart else " "]
            place = unit.start
        before = unit
    return "".join([*pieces, text[place:]]) if pieces else f"{FILLERS[0]}\n\n{text}"


def elongate_review(text: str, *, strengths: str | None = None, weaknesses: str | None = None) -> str:
    """A review with the paper's fixed sentences at the beginning of each of its four sections (D.2.2).

    Headings are found in any case, with "Strength" or "Strengths"; a missing section gets nothing, and in an empty one
    the sentences are on a separate line. The two one-line summaries are left out if they are not given.
    """
    told = strengths is not None and weaknesses is not None
    said = TEXTS["elongation"]["summaries"].format(strengths=strengths, weaknesses=weaknesses)
    summaries = f" {said}" if told else ""
    added = [
        _addition(text, heading, words.replace("{summaries}", summaries))
        for name, words in SECTION_TEXTS.items()
        if (heading := heading_at_line_start([name]).search(text)) is not None
    ]
    # all places are found in the original, and those at the end are used first, so that none moves
    for place, said in sorted(added, reverse=True):
        text = f"{text[:place]}{said}{text[place:]}"
    return text


def _addition(text: str, heading: re.Match[str], said: str) -> tuple[int, str]:
    """Where the section begins, and the words with the white space that they need there."""
    following = ANY_SECTION.search(text, heading.end())
    if following is not None and not text[heading.end() : following.start()].strip():
        return following.start(), said + text[heading.end() : following.start()].lstrip(" \t")
    place = len(text) - len(text[heading.end() :].lstrip())
    same_line = "\n" not in text[heading.end() : place]
    if same_line and ":" not in heading[0]:  # a heading without a colon is one only while its line holds nothing else
        return place, f"\n{said} "
    return place, f"{'' if text[place - 1].isspace() else ' '}{said} "


# --- another dress ---------------------------------------------------------------------------------------------------

BULLET = re.compile(r"^[-*+•‣◦\u2013\u2014][ \t]+")
HEADING_MARK = re.compile(r"^#{1,6}[ \t]+")
OWN_MARKS = re.compile(r"[*_`]|^>")
FIRST_WORDS = re.compile(r"^\S+(?:[ \t]+\S+){0,2}")


def flip_case(text: str) -> str:
    """The text with upper and lower case swapped; swapping twice restores it.

    A letter without a single counterpart, such as ß, stays.
    """
    partners = {letter: letter.swapcase() for letter in set(text)}
    return text.translate(
        {ord(one): other for one, other in partners.items() if len(other) == 1 and other.swapcase() == one}
    )


def reformat(text: str) -> str:
    """The text as Markdown with the same words: one bullet per sentence, its first words bold, and marked headings.

    Code blocks stay unchanged. Existing bullets and heading marks are replaced; nothing else is lost: list numbers,
    quotation marks of a line and every character within a sentence are kept.
    """
    made: list[str] = []
    stands_apart = False
    place = 0
    for unit in split_units(text):
        said = text[unit.start : unit.end]
        apart = unit.heading or FENCE.match(said.split("\n", 1)[0]) is not None
        if unit.heading:
            said = f"## {HEADING_MARK.sub('', said)}"
        elif not apart:
            # within a line the same signs are a minus or a dash
            opens_line = place == 0 or LINE_END.search(text, place, unit.start) is not None
            said = BULLET.sub("", said) if opens_line else said
            said = "- " + (said if OWN_MARKS.search(said) else FIRST_WORDS.sub(r"**\g<0>**", said))
        if made:
            made.append("\n\n" if apart or stands_apart else "\n")
        made.append(said)
        stands_apart, place = apart, unit.end
    return "".join(made) or text


def add_tag(text: str, *, seed: int = 0) -> str:
    """The text between two tags that are the same for every response to every task; each seed has its own tag."""
    tag = f"[{hashlib.sha256(f'goldless pattern {seed}'.encode()).hexdigest()[:8].upper()}]"
    return f"{tag} {text} {tag}"


def swap_words(text: str) -> str:
    """The text with every fourth pair of neighboring words swapped; white space stays."""
    pieces = re.split(r"(\s+)", text)  # words at even places
    for place in range(0, len(pieces) - 2, 8):
        pieces[place], pieces[place + 2] = pieces[place + 2], pieces[place]
    return "".join(pieces)
