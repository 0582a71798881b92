"""Surface: the same words in another dress."""

from __future__ import annotations

import hashlib
import re

from goldless.meta_evaluation.perturbations.headings import Unit, split_units
from goldless.sentences import FENCE, LINE_END

BULLET = re.compile(r"[-*+•‣◦\u2013\u2014][ \t]+")
HEADING_MARK = re.compile(r"#{1,6}[ \t]+")
OWN_MARKS = re.compile(r"[*_`]|^>")
BOLD_WORDS = 3


def flip_case(text: str) -> str:
    """The text with small letters for capitals and capitals for small ones; flipped twice it is as it was.

    A letter that has no single partner, such as ß, stays.
    """
    partners = {letter: _partner(letter) for letter in set(text)}
    return text.translate({ord(letter): other for letter, other in partners.items() if other != letter})


def _partner(letter: str) -> str:
    other = letter.swapcase()
    return other if len(other) == 1 and other.swapcase() == letter else letter


def reformat(text: str) -> str:
    """The text as Markdown with the same words: a bullet a sentence, its first words bold, and marked headings.

    Code blocks stay as they are. A bullet or heading mark that was there is replaced; nothing else is lost: numbers of
    a list, quotation marks of a line and every sign within a sentence are kept.
    """
    made: list[str] = []
    stands_apart = False
    place = 0
    for unit in split_units(text):
        opens_line = place == 0 or LINE_END.search(text, place, unit.start) is not None
        block, apart = _block(text[unit.start : unit.end], unit, opens_line=opens_line)
        if made:
            made.append("\n\n" if apart or stands_apart else "\n")
        made.append(block)
        stands_apart, place = apart, unit.end
    return "".join(made) or text


def _block(said: str, unit: Unit, *, opens_line: bool) -> tuple[str, bool]:
    """A heading, code block or sentence in its new dress, and whether blank lines stand around it."""
    if unit.heading:
        return f"## {_without(HEADING_MARK, said)}", True
    if FENCE.match(said.split("\n", 1)[0]):
        return said, True
    # within a line the same signs are a minus or a dash
    return f"- {_bold(_without(BULLET, said) if opens_line else said)}", False


def _without(mark: re.Pattern[str], said: str) -> str:
    """What is said after the mark that opens it; all of it where no such mark does."""
    found = mark.match(said)
    return said if found is None else said[found.end() :]


def _bold(sentence: str) -> str:
    """The sentence with its first words in bold, unless it has marks of its own."""
    if OWN_MARKS.search(sentence):
        return sentence
    words = re.match(rf"\S+(?:[ \t]+\S+){{0,{BOLD_WORDS - 1}}}", sentence)
    return sentence if words is None else f"**{words[0]}**{sentence[words.end() :]}"


def add_tag(text: str, *, seed: int = 0) -> str:
    """The text between two tags that are the same for every response of every task; another seed is another tag."""
    tag = f"[{hashlib.sha256(f'goldless pattern {seed}'.encode()).hexdigest()[:8].upper()}]"
    return f"{tag} {text} {tag}"
