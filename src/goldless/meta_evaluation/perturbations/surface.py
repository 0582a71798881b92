"""Surface: the same words in another dress."""

from __future__ import annotations

import hashlib
import re

from goldless.meta_evaluation.perturbations.headings import split_units
from goldless.sentences import FENCE

BULLETS = re.compile(r"(?:[-*+•‣◦\u2013\u2014>][ \t]+)+")
HEADING_MARKS = re.compile(r"#{1,6}[ \t]+|[*_]+(?=\S)")
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

    Code blocks stay as they are; bullets that were there are replaced, numbers of a list are kept.
    """
    lines: list[str] = []
    for unit in split_units(text):
        said = text[unit.start : unit.end]
        if unit.heading:
            lines += ["", f"## {HEADING_MARKS.sub('', said, count=1).rstrip('*_ ') or said}", ""]
        elif FENCE.match(said.split("\n", 1)[0]):
            lines += ["", said, ""]
        else:
            bare = BULLETS.sub("", said, count=1)
            lines.append(f"- {_bold(bare)}")
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return body or text


def _bold(sentence: str) -> str:
    """The sentence with its first words in bold, unless it has marks of its own."""
    if re.search(r"[*_`]", sentence):
        return sentence
    words = re.match(rf"\S+(?:[ \t]+\S+){{0,{BOLD_WORDS - 1}}}", sentence)
    return sentence if words is None else f"**{words[0]}**{sentence[words.end() :]}"


def add_tag(text: str, *, seed: int = 0) -> str:
    """The text between two tags that are the same for every response of every task; another seed is another tag."""
    tag = f"[{hashlib.sha256(f'goldless pattern {seed}'.encode()).hexdigest()[:8].upper()}]"
    return f"{tag} {text} {tag}"
